"""Options of `hardsight reproduce`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hardsight.options import COMMON, Options, common, option


@dataclass(frozen=True)
class ReproduceSettings(Options):
    """What recipes run on, and where their trainings are kept."""

    scale: Literal["small", "cpu", "paper"] = option(
        "small",
        "Scale: small takes minutes on a laptop, cpu trains on all of CIFAR-10 for the curves over epochs (half an hour), "
        "paper runs the full protocol on the datasets in --data.",
    )
    data: Any = option(
        None, "Directory of datasets: mnist.npz, imagenet_val5k.tar, ... Default: built-in and generated data.", metavar="DIR"
    )
    unchecked: bool = option(False, "Use files in --data whose checksum is not that of our numbers.", decides=False)
    cache: Any = option(
        None,
        "Directory that keeps trainings and extractions for the next recipe. Default: hardsight in your cache directory.",
        metavar="DIR",
        decides=False,
    )
    seed: int = common("seed")
    device: str | None = common(
        "device", default=None, help=f"{COMMON['device'][1]} Default: cpu at scale small, auto at scale paper.", decides=False
    )

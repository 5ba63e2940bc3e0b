"""The options of generalizing to unseen domains, each defined once. Nothing here imports NumPy or torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hardsight.domains.settings import DomainOptions, check_different
from hardsight.errors import InputError
from hardsight.options import option
from hardsight.training.settings import read_numbers, read_options

Selection = Literal["validation", "last", "oracle"]
DRM = "drm"


def parts_of(name: str) -> tuple[str, bool]:
    """The loss of a name, and whether it has a head per domain: `drm` and `drm+softmax`, `drm+avh`, ..."""
    if name == DRM:
        return "softmax", True
    return (name.removeprefix(f"{DRM}+"), True) if name.startswith(f"{DRM}+") else (name, False)


def _losses(value: Any) -> tuple[str, ...]:
    """Names with commas or in a sequence; `loss_names` of running.py checks them."""
    return tuple(str(name).strip().lower() for name in (value.split(",") if isinstance(value, str) else value))


def _loss_options(value: Any) -> dict[str, dict[str, Any]]:
    """{"avh": {"scale": 20}} from avh:scale=20."""
    if value is None or isinstance(value, Mapping):
        return {name: dict(options) for name, options in (value or {}).items()}
    texts: dict[str, list[str]] = {}
    for text in value:
        loss, colon, one_option = text.partition(":")
        if not colon:
            raise InputError(f"--loss-options is written loss:key=value, as in avh:scale=20, got {text!r}.")
        texts.setdefault(loss, []).append(one_option)
    return {loss: read_options(options) for loss, options in texts.items()}


def _scales(value: Any) -> tuple[float, ...]:
    return read_numbers(value, "scales")


@dataclass(frozen=True)
class GeneralizeSettings(DomainOptions):
    """The options of `hardsight.generalize.run` and `hardsight generalize`."""

    losses: tuple[str, ...] = option(
        "softmax",
        "Comma-separated losses to compare: softmax, avh, cosface, lgm, ...; drm or drm+LOSS for one head per domain.",
        flag=("--losses", "--loss"),
        read=_losses,
    )
    loss_options: Mapping[str, Mapping[str, Any]] = option(
        {}, "Option of a loss, such as avh:scale=20; repeatable.", repeat=True, read=_loss_options, metavar="LOSS:KEY=VALUE"
    )
    scales: tuple[float, ...] = option(
        (), "Comma-separated scales to choose from by cross-validation on the training domains.", read=_scales
    )
    selection: Selection = option(
        "validation",
        "Epoch that counts: the best on held-out samples of the training domains (validation), the last, or the best on "
        "the unseen domain (oracle).",
    )
    held_out: float = option(0.2, "Share of each training domain that is held out for validation.", above=0, below=1)
    epochs: int = option(10, "Passes over the training domains.", least=1)
    batch_size: int = DomainOptions.redefine("batch_size", 128, help="Samples per step.", least=2)
    standardize: bool = option(
        True, "Standardize features by the mean and deviation of the training domains.", flag="--standardize/--no-standardize"
    )

    def check(self) -> None:
        super().check()
        check_different("losses", self.losses)
        if any(not 0 < scale < math.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}.")

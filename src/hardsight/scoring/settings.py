"""Options of `hardsight score`, defined once. Nothing heavy is imported, so `--help` is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardsight.errors import InputError
from hardsight.options import HardnessView, OpeningOptions, SampleOptions, option


@dataclass(frozen=True)
class ScoreSettings(OpeningOptions, SampleOptions, HardnessView):
    """Which scores of which rows, what to report, and where to compute."""

    scores: Any = option(None, "Comma-separated score names, such as avh,avh_nearest:10, or all. Default: the usual row scores.")
    reference: Any = option(None, "Snapshot of the model's training data, to fit reference scores to.", metavar="TRAIN")
    models: Any = option(
        None, "Comma-separated snapshots of other models on the same samples, for model_agreement.", metavar="RUNS"
    )
    images: Any = option(
        None, "Images that the run was trained on, for vog. Default: where the run says they are.", metavar="DATA"
    )
    by: str | None = option(None, "Score to rank the hardest samples by. Default: avh, or loss without angles.")
    top: int = option(10, "Number of the hardest samples to print.", least=0)
    shard: Any = option(None, "Score one shard of the rows: i/n is part i of n equal parts, counted from 0.")
    strict: bool = option(False, "Stop at a row that cannot be scored instead of recording its status.")
    allow_duplicates: bool = option(False, "Accept repeated ids.")
    summary_only: bool = option(False, "Keep no table but only its summary, in little memory.", python=True)
    cluster: str | None = option(
        None, "Score on a Dask cluster: the scheduler's address, such as tcp://host:8786.", metavar="ADDRESS"
    )

    def check(self) -> None:
        """A cluster takes whole files; labels may come from one source only."""
        super().check()
        if self.cluster is not None and self.limit is not None:
            raise InputError("--cluster scores whole files: use --first or --shard instead of --limit.")

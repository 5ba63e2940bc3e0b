"""Options of `hardsight clean`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hardsight.options import OpeningOptions, SampleOptions, common, option

RANKINGS = ("posterior", "confidence", "margin", "epochs", "aum", "cartography_confidence", "aldr_lambda")


@dataclass(frozen=True)
class CleanSettings(OpeningOptions, SampleOptions):
    """What labels are judged by, and what else is looked for."""

    by: str | None = option(
        None,
        f"Ranking of the labels: {', '.join(RANKINGS)}. Default: epochs where a run recorded them, else posterior.",
        choices=RANKINGS,
    )
    split: str | None = option(None, "Clean only the samples of this split. Default: all samples.")
    reference: Any = option(
        None,
        "Another snapshot of the same model, such as its training set: also find duplicates of its samples, and outliers to it.",
        metavar="SNAPSHOT",
    )
    neighbors: bool = option(
        True,
        "Skip the search for nearest neighbors: no near duplicates, no outliers, and labels are judged by the heads alone.",
        flag="--no-neighbors",
    )
    folds: int = option(5, "Cross-validation folds, where heads are fitted to features and labels.", least=2)
    seed: int = common("seed")
    group: str | None = option(None, "Column whose samples stay in one fold, such as a patient or a camera.", metavar="COLUMN")
    probs: Any = option(
        None,
        "Out-of-sample probabilities as .npy or .npz, in the order of the samples.",
        flag=("--probs", "--pred-probs"),
        metavar="FILE",
    )
    top: int = option(10, "Number of suspects to print.", least=0)

    @property
    def named_columns(self) -> dict[str, str | None]:
        """The columns of a wide table that were named, for whoever reads it after `clean`."""
        column = isinstance(self.labels, str) and not os.path.exists(self.labels)
        features = self.features if isinstance(self.features, str) else None
        return {"features": features, "label": self.labels if column else self.label}

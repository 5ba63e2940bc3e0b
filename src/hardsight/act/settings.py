"""Options of `hardsight clean`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardsight.options import Options, SampleOptions, common, option

RANKINGS = ("posterior", "confidence", "margin", "epochs", "aum", "cartography_confidence", "aldr_lambda")


@dataclass(frozen=True)
class CleanSettings(Options):
    """What labels are judged by, and what else is looked for."""

    by: str | None = option(
        None,
        f"Ranking of the labels: {', '.join(RANKINGS)}. Default: epochs where a run recorded them, else posterior.",
        choices=RANKINGS,
    )
    split: str | None = option(None, "Clean only the samples of this split. Default: all samples.")
    reference: Any = option(
        None,
        "Another snapshot of the same model, such as its training set: find duplicates of its samples, and outliers to it.",
        metavar="SNAPSHOT",
    )
    neighbours: bool = option(
        True,
        "Skip the neighbours: no near duplicates, no outliers, and no labels of neighbours beside those of the heads.",
        flag="--no-neighbours",
    )
    folds: int = option(5, "Folds of the heads that are fitted where there are only features and labels.", least=2)
    seed: int = common("seed")


@dataclass(frozen=True)
class CleanFileSettings(CleanSettings, SampleOptions):
    """The same with what stands in further files, and what is printed."""

    head: Any = common("head")
    labels: Any = common("labels")
    probs: Any = option(
        None,
        "Out-of-sample probabilities as .npy, beside features and in their order.",
        flag=("--probs", "--pred-probs"),
        metavar="FILE",
    )
    class_names: Any = common("class_names")
    top: int = option(10, "Number of suspects to print.", least=0)
    apply: Any = option(
        None, "Marks of a review, as the explorer saves them: write the labels after it instead of suspects.", metavar="FILE"
    )

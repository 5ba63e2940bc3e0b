"""Options of `hardsight mine`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardsight.options import Options, SampleOptions, TableColumns, common, option

KINDS = ("hard", "semihard")
POSITIVES = ("farthest", "nearest")
SEARCHES = ("auto", "exact", "usearch", "faiss")


@dataclass(frozen=True)
class MineSettings(Options):
    """Which triplets are looked for, and how."""

    k: int = option(10, "Number of negatives per anchor.", flag="-k", least=1)
    kind: str = option(
        "hard",
        "Negatives: hard (the nearest samples of other classes) or semihard (the nearest that are farther than the positive, "
        "and by less than the margin).",
        choices=KINDS,
    )
    positive: str = option(
        "farthest", "Positive of each anchor: the farthest or the nearest sample of its class.", choices=POSITIVES
    )
    margin: float = option(0.2, "Margin of semihard negatives, in radians.", above=0)
    search: str = option(
        "auto",
        "Search: exact; usearch or faiss (an index, whose recall is measured); auto (exact up to 200,000 samples, then an index "
        "if one is installed).",
        choices=SEARCHES,
    )


@dataclass(frozen=True)
class MineFileSettings(MineSettings, TableColumns, SampleOptions):
    """The same with what stands in further files, and what is written."""

    labels: Any = common("labels")
    split: str | None = option(None, "Mine only the samples of this split. Default: all samples.")
    pairs: bool = option(False, "Write distinct pairs instead of triplets: first, second, same_class, angle.")
    top: int = option(5, "Number of triplets to print.", least=0)

"""Options of `hardsight select`, `curriculum` and `mine`, each defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from hardsight.errors import InputError
from hardsight.options import OpeningOptions, SampleOptions, common, option
from hardsight.training.settings import PacingOptions

Method = Literal["coverage", "hardest", "easiest", "balanced", "random", "kcenter", "d2", "margin", "entropy", "avc"]
UNCERTAIN = ("margin", "entropy", "avc")  # what to label next, by what the model is least sure of
BY = "Score to measure hardness by, or a column of a scores table. Default: aum if the run recorded its epochs, else avh, else "
CURVE_FILES = r"[^-].*\.(png|pdf|svg|parquet|csv|json)"
LIKE_A_FILE = CURVE_FILES.replace("png|", "png|jpe?g|gif|txt|tsv|html|xlsx|")  # taken for the curve's, and refused in words


def _curve(value: Any) -> bool | str:
    """Whether to measure the curve, or the file to keep it in as well."""
    if isinstance(value, bool) or value in ("true", "false"):
        return value is True or value == "true"
    if not isinstance(value, str) or not re.fullmatch(CURVE_FILES, value):
        raise InputError(f"curve must be true, false or a file: .png, .pdf, .svg, .parquet, .csv or .json; got {value!r}.")
    return value


@dataclass(frozen=True)
class SelectSettings(OpeningOptions):
    """Which samples are chosen, and by what."""

    budget: int | None = option(None, "Number of samples to choose (required).", least=1)
    method: Method = option(
        "coverage",
        "Method: coverage (every level of hardness except the hardest), hardest, easiest, balanced (equally from each "
        "class), random, kcenter, d2; or what to label next: margin, entropy, avc.",
    )
    by: str | None = option(None, BY + "loss; entropy for unlabeled samples.", metavar="SCORE")
    per_class: bool = option(False, "Divide the budget equally among the classes, and choose within each.")
    split: str | None = option(None, "Choose among the samples of this split. Default: train, if there is one.")
    unlabeled: bool | None = option(
        None,
        "Choose among unlabeled samples only. Default: on for margin, entropy and avc, if there are any.",
        flag="--unlabeled/--labeled",
    )
    cut: float | None = option(
        None,
        "Share of the hardest samples that coverage leaves out. Default: 0 if half of the samples are kept, up to 0.3 if a "
        "tenth is.",
        least=0,
        below=1,
    )
    neighbors: int = option(10, "Nearest neighbors of each sample in the graph of the method d2.", least=1)
    seed: int = common("seed")
    curve: bool | str = option(
        False,
        "Measure accuracy against subset size, with linear heads fitted to the features of each subset; --curve curve.png (or "
        ".csv) saves it.",
        read=_curve,
        word=LIKE_A_FILE,
        metavar="[FILE]",
    )

    def check(self) -> None:
        """What must hold between options."""
        super().check()
        if self.budget is None:
            raise InputError("the budget is missing: give --budget N (budget=N in Python), the number of samples to choose.")
        if self.cut is not None and self.method != "coverage":
            raise InputError(f"--cut goes with --method coverage, not with {self.method}.")


@dataclass(frozen=True)
class CurriculumSettings(PacingOptions, OpeningOptions):
    """The score that orders the samples, and how fast they come into use."""

    by: str | None = option(None, BY + "loss.", metavar="SCORE")
    epochs: int = option(10, "Number of epochs that you will train for.", least=1)
    split: str | None = option(None, "Order the samples of this split. Default: train, if there is one.")
    seed: int = common("seed", help="Random seed, for --order random.")


KINDS = ("hard", "semihard")
POSITIVES = ("farthest", "nearest")
SEARCHES = ("auto", "exact", "usearch")


@dataclass(frozen=True)
class MineSettings(OpeningOptions, SampleOptions):
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
        "Search: exact; usearch (an index, whose recall is measured); auto (exact up to 200,000 samples, then an index "
        "if one is installed).",
        choices=SEARCHES,
    )
    split: str | None = option(None, "Mine only the samples of this split. Default: all samples.")
    pairs: bool = option(False, "Write distinct pairs instead of triplets: first, second, same_class, angle.")
    top: int = option(5, "Number of triplets to print.", least=0)
    head: Any = OpeningOptions.redefine("head", None, python=True)  # only directions count
    class_names: Any = OpeningOptions.redefine("class_names", None, python=True)

"""Options of `correlate` and `people`, defined once. Nothing heavy is imported, so `--help` is fast."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from hardsight.errors import InputError
from hardsight.options import OpeningOptions, Options, SampleOptions, common, option, read_numbers

Raters = Literal["equal", "dawid-skene"]


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names)


def _class_names(value: str | os.PathLike[str] | Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, (str, os.PathLike)):
        from hardsight.files.class_names import read_class_names

        value = read_class_names(value)
    return tuple(value)


def _in_python(name: str, default: Any = None) -> Any:
    return OpeningOptions.redefine(name, default, decides=False, python=True)


@dataclass(frozen=True)
class VoteOptions(Options):
    """How votes of no, maybe and yes become a frequency."""

    maybe: float = option(0.0, "Weight of a vote of maybe, from 0 (as no) to 1 (as yes).", least=0, most=1)
    raters: Raters = option(
        "equal", "Weight of named annotators in votes: equal, or dawid-skene, by how well each agrees with the others."
    )


@dataclass(frozen=True)
class PeopleSettings(OpeningOptions, VoteOptions):
    """Whose answers are predicted, and how sure to be."""

    split: str | None = option(None, "Use only the samples of one split, such as the test set of a training run.")
    ask: int = option(10, "Number of samples to draw, at random, to ask about next.", least=0)
    level: float = common("level")
    seed: int = common("seed")


@dataclass(frozen=True)
class CorrelateSettings(OpeningOptions, SampleOptions, VoteOptions):
    """What scores are compared with, on which samples, how, and which further analyses are made."""

    by: str | None = option(
        None, "Column that holds the groups; each gets its own coefficients: label, level, ...", flag="--group", metavar="COLUMN"
    )
    passes: Any = option(
        None,
        "Snapshots of several passes or ensemble members, a directory of them such as run/passes (its dropout draws, or all if "
        "there are none), or one .npy (passes, n, c); repeatable.",
        repeat=True,
    )
    epochs: bool = option(False, "Repeat the analysis for every epoch of the run's dynamics.", flag="--each-epoch")
    epoch_tables: Any = option(None, "Tables of scores by epoch, instead of the run's dynamics.", decides=False, python=True)
    images: Any = option(
        None, "Images, as extract takes them, to show samples on which people and the model disagree.", metavar="DATA"
    )
    top: int = option(12, "Number of samples to show, those on which people and the model disagree most.", least=0)
    against: str | None = option(None, "Numeric column to compare with instead of people, such as level.", metavar="COLUMN")
    hard: str | None = option(None, "Hard end of the --against column: low or high. Default: high.", choices=("low", "high"))
    scores: tuple[str, ...] | None = option(
        None, "Comma-separated score names. Default: avh, angular_gap, confidence, loss, entropy and the norm.", read=_names
    )
    bins: tuple[float, ...] | None = option(
        None, "Comma-separated bin edges. Default for a frequency: 0,0.2,0.4,0.6,0.8,1.", read=partial(read_numbers, name="bins")
    )
    level: float = common("level")
    replicates: int = option(1000, "Replicates of the paired bootstrap over images.", least=20)
    permutations: int = option(1000, "Permutations of the test that swaps two scores.", least=20)
    splits: int = option(100, "Random splits of the annotators into halves, for the noise ceiling.", least=1)
    seed: int = common("seed")
    split: str | None = option(None, "Use only the samples of one split, such as the test set of a training run.")
    allow_missing: bool = common("allow_missing")
    min_answers: int | None = option(None, "Fewest people who must have answered about a sample.", least=1)
    only: Any = option(
        None, "Images to use: a text file with an id per line, or a list of the ImageNetV2 study (JSON).", metavar="FILE"
    )
    class_names: tuple[str, ...] | None = common("class_names", read=_class_names)
    head: Any = _in_python("head")
    labels: Any = _in_python("labels")
    features: Any = _in_python("features")
    label: str | None = _in_python("label")
    allow_duplicates: bool = option(False, "Accept repeated ids.", decides=False, python=True)

    @property
    def compared(self) -> str | None:
        """A column that every table must have: the target, or the first of the chosen scores."""
        return self.against or next(iter(self.scores or ()), None)

    def check(self) -> None:
        """Bin edges must be increasing."""
        super().check()
        edges = self.bins or ()
        if len(edges) == 1 or any(not low < high for low, high in itertools.pairwise(edges)):
            raise InputError(f"bins must be increasing edges, such as 0,0.2,0.4,0.6,0.8,1, got {edges}.")

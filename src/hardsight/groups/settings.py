"""Options of `hardsight audit` and `hardsight drift`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hardsight.errors import InputError
from hardsight.options import OpeningOptions, SampleOptions, common, option

MOST_COLUMNS = 3  # of one audit: with their intersections, three columns are seven groupings


def _names(given: Any) -> tuple[str, ...]:
    """Names of columns: one, or several as a list."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"group must be the name of a column, got {name!r}. Arrays go into columns={{name: array}}.")
    if len(set(names)) < len(names) or len(names) > MOST_COLUMNS:
        raise InputError(f"group takes up to {MOST_COLUMNS} different columns, got {', '.join(names)}.")
    return names


@dataclass(frozen=True)
class ComparingOptions(OpeningOptions, SampleOptions):
    """What both share: the samples, and the score."""

    by: str = option("avh", "Score to measure hardness by. Default: avh, or loss without features.", metavar="SCORE")
    split: str | None = option(None, "Compare only the samples of this split. Default: all samples.")
    level: float = common("level")

    @property
    def whole(self) -> bool:
        """Whether no sample is left out."""
        return self.all_samples and self.split is None


@dataclass(frozen=True)
class AuditSettings(ComparingOptions):
    """Which groups are compared, and by what."""

    group: tuple[str, ...] = option(
        (),
        "Column that holds the groups; repeatable, and then intersections are compared, too. Default: find latent groups in "
        "the features.",
        metavar="COLUMN",
        repeat=True,
        read=_names,
    )
    least: int = option(
        10, "Minimum number of labeled samples for a group to be tested; smaller groups are listed as too few to say.", least=2
    )
    clusters: int | None = option(
        None, "Clusters per class, for latent groups. Default: one per 80 samples of a class, 2 to 8.", least=2, most=100
    )
    seed: int = common("seed", help="Random seed of the search for latent groups.")
    top: int = option(20, "Number of groups to print.", least=0)


@dataclass(frozen=True)
class DriftSettings(ComparingOptions):
    """How two snapshots are compared."""

    unpaired: bool = option(
        False, "Compare different samples of one model, such as those of two dates, without joining ids.", flag="--unpaired"
    )
    seed: int = common("seed", help="Random seed of the test for a shift of the features.")
    top: int = option(10, "Number of samples and classes to print.", least=0)
    head: Any = OpeningOptions.redefine(
        "head", None, help="Head of both, if the snapshots have none: .safetensors, .npz or .npy."
    )
    labels: Any = OpeningOptions.redefine("labels", None, help="(n,) labels of both.", python=True)

"""Curves over the epochs: mean and standard deviation of each group of samples, and where a curve settles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardsight.dynamics.groups import Groups, everyone
from hardsight.errors import check_choice
from hardsight.files.epochs import NUMBERS, Moment, moments, number_column, read_moment

TOLERANCE = 0.1  # share of a curve's total range: within this distance of its final level, it has settled
GROWTH = 0.05  # share of a curve's total range: it still grows if it rises by more than this
LONG_ENOUGH = 0.25  # share of the training: minimum length of a plateau
FEWEST = 5  # minimum number of points to judge a curve


@dataclass
class Curves:
    """(g, e) mean, standard deviation over samples, and number of samples: g groups, e moments."""

    split: str | None
    groups: Groups
    moments: list[Moment] = field(default_factory=list)
    mean: dict[str, np.ndarray] = field(default_factory=dict)
    std: dict[str, np.ndarray] = field(default_factory=dict)
    count: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @property
    def times(self) -> list[int]:
        """The numbers of the epochs, or of the steps."""
        return [moment.epoch if moment.step is None else moment.step for moment in self.moments]

    @property
    def unit(self) -> str:
        """The unit of the times: epoch or step."""
        return "epoch" if not self.moments or self.moments[0].step is None else "step"

    def present(self) -> list[int]:
        """The groups that have a sample."""
        return [group for group in range(len(self.groups)) if self.count[group].any()]


def read_curves(
    run: str | Path,
    groups: Groups | None = None,
    *,
    split: str | None = None,
    columns: Sequence[str] = ("norm", "avh", "own_angle", "confidence", "correct", "loss"),
    steps: bool = False,
) -> Curves:
    """The curves of a run, one file in memory at a time.

    Args:
        run: a run with dynamics.
        groups: see `hardsight.dynamics.groups`; default: all samples in one group.
        split: use only this split.
        columns: columns of the dynamics files; the mean of `correct` is the accuracy.
        steps: use the recorded steps within epochs instead of the epochs.
    """
    for name in columns:
        check_choice(name, NUMBERS, "a dynamics column")
    groups = groups or everyone()
    seen: list[Moment] = []
    counts: list[np.ndarray] = []
    measured: list[list[tuple[np.ndarray, np.ndarray]]] = []  # mean and deviation of every group, by column and moment
    for moment, path in moments(run, steps=steps):
        table = read_moment(path, ["id", "label", *columns], split)
        if len(table) == 0:
            continue  # this split was not recorded then
        code = groups.of(table)
        seen.append(moment)
        counts.append(np.bincount(code[code >= 0], minlength=len(groups)))
        measured.append([group_moments(number_column(table, name), code, len(groups)) for name in columns])
    by_moment = np.reshape(measured, (len(seen), len(columns), 2, len(groups)))  # (e, columns, 2, g)
    mean, std = by_moment.transpose(2, 1, 3, 0)  # (columns, g, e) each
    count = np.reshape(counts, (len(seen), len(groups))).T  # (g, e)
    return Curves(split, groups, seen, dict(zip(columns, mean, strict=True)), dict(zip(columns, std, strict=True)), count)


def group_moments(values: np.ndarray, code: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(g,) mean and standard deviation (dividing by the count) of each group; NaN for an empty group."""
    there = (code >= 0) & np.isfinite(values)
    value, group = values[there], code[there]
    count = np.bincount(group, minlength=num_groups)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(group, value, minlength=num_groups) / count
        squares = np.bincount(group, (value - mean[group]) ** 2, minlength=num_groups)
        return mean, np.sqrt(squares / count)


@dataclass(frozen=True)
class Plateau:
    """Where a curve settles, or why it does not; `at` is an index into the curve."""

    at: int | None
    level: float | None  # mean of the last tenth of the curve
    why_not: str = ""


def plateau(curve: np.ndarray) -> Plateau:
    """Where a curve settles.

    The rule: the level is the mean of the last tenth of the curve. The plateau starts at the first point after which every
    value is within 10 % of the curve's total range around that level. It counts if it covers at least the last quarter of
    the curve, because a curve that is still moving only gets close to its end at the end. Fewer than five points, or a
    curve that never moved, have no plateau.

    Example:
        >>> plateau(np.array([9.0, 5.0, 2.0, 1.1, 1.0, 1.05, 1.0, 1.0])).at
        3
        >>> plateau(np.linspace(9, 1, 20)).why_not
        'it is still moving at the end'
    """
    curve = np.asarray(curve, dtype=np.float64)
    if len(curve) < FEWEST:
        return Plateau(None, None, f"there are only {len(curve)} points, and at least {FEWEST} are needed")
    if not np.isfinite(curve).all():
        return Plateau(None, None, "it has gaps")
    level = float(curve[-max(1, len(curve) // 10) :].mean())
    spread = float(np.ptp(curve))
    if spread <= 1e-9 * max(1.0, abs(level)):
        return Plateau(None, level, "it never moved")
    away = np.flatnonzero(np.abs(curve - level) > TOLERANCE * spread)
    start = int(away[-1]) + 1 if len(away) else 0
    if len(curve) - start < max(2, LONG_ENOUGH * len(curve)):
        return Plateau(None, level, "it is still moving at the end")
    return Plateau(start, level)


def still_grows(curve: np.ndarray, start: int) -> bool:
    """Whether a curve rises from `start` to the mean of its last tenth by more than 5 % of its total range."""
    curve = np.asarray(curve, dtype=np.float64)
    level = curve[-max(1, len(curve) // 10) :].mean()
    return bool(level - curve[start] > GROWTH * np.ptp(curve))

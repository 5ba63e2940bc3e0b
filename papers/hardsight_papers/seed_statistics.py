"""Comparisons over seeds: means with their 95 % intervals, paired differences, and claims that one lies ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hardsight.stats import Mean, bootstrap, mean_interval, spearman
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, claim
from hardsight_papers.verdicts import DIFFERENCE, POINTS, Effect

SEEDS = 5


def seeds(context: Context) -> range:
    """The seeds of a comparison: every loss is trained with each of them."""
    return range(context.seed, context.seed + SEEDS)


def difference(first: np.ndarray, second: np.ndarray | float) -> Mean:
    """Mean of first - second over seeds, which both share, with Student's 95 % interval.

    Example:
        >>> gap = difference(np.array([3.0, 4.0, 5.0]), np.array([1.0, 1.0, 1.0]))
        >>> gap.value, round(gap.low, 2), round(gap.high, 2)
        (3.0, 0.52, 5.48)
    """
    return mean_interval(np.asarray(first, np.float64) - np.asarray(second, np.float64))


def effect(gap: Mean, smallest: float, n: int | None = SEEDS, name: str = "", unit: str = "seeds", sign: int = 1) -> Effect:
    """A mean or a difference as the effect of a claim; with `sign` -1 where the claim is that it lies below 0."""
    low, high = sorted((sign * gap.low, sign * gap.high))
    return Effect(float(sign * gap.value), float(low), float(high), smallest, name, n, unit)


def effect_of(row: Mapping[str, Any], name: str = "") -> Effect:
    """A row of the differences that `adapt` and `generalize` find, in points."""
    low, high = (float("nan") if row[end] is None else 100 * row[end] for end in ("low", "high"))
    return Effect(100 * row["difference"], low, high, POINTS, name, row["count"])


def ahead(
    text: str,
    first: np.ndarray,
    second: np.ndarray | float = 0.0,
    *,
    rule: str,
    smallest: float = POINTS,
    unit: str = " points",
    also: str = "",
) -> Claim:
    """The claim that first - second lies above 0, by the 95 % interval over seeds; `also` is said after the difference.

    Example:
        >>> ahead("A is better.", np.array([3.0, 4.0, 5.0]), np.ones(3), rule="The interval lies above 0.").found
        '+3.0 [+0.5, +5.5] points.'
    """
    gap = difference(first, second)
    found = f"{signed(gap, 1 if unit else 3)}{unit}{also}."
    return claim(text, rule=rule, effects=[effect(gap, smallest, len(first))], found=found)


def higher(text: str, first: np.ndarray, second: np.ndarray, *, rule: str) -> Claim:
    """The same claim with both means before the difference, of numbers such as AUROC."""
    gap = difference(first, second)
    found = f"{first.mean():.3f} and {second.mean():.3f}: {signed(gap, 3)}."
    return claim(text, rule=rule, effects=[effect(gap, DIFFERENCE, len(first))], found=found)


def all_ahead(text: str, gaps: Mapping[str, Mean], *, rule: str, digits: int = 1, why_not: str = "") -> Claim:
    """The claim that every difference, in points, lies above 0, by its 95 % interval over seeds; or `why_not` comparable."""
    found = "; ".join(f"{name} {signed(gap, digits)}" for name, gap in gaps.items())
    effects = [] if why_not else [effect(gap, POINTS, SEEDS, name) for name, gap in gaps.items()]
    return claim(text, rule=rule, effects=effects, found=f"{found} points.{why_not and f' {why_not}'}")


def signed(gap: Mean, digits: int = 1) -> str:
    """A difference as text: +3.0 [+0.5, +5.5]."""
    return f"{gap.value:+.{digits}f} [{gap.low:+.{digits}f}, {gap.high:+.{digits}f}]"


def interval(values: np.ndarray, digits: int = 1) -> str:
    """A mean over seeds as text: 91.2 [90.1, 92.3]."""
    mean = mean_interval(np.asarray(values, np.float64))
    return f"{mean.value:.{digits}f} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"


def spearman_interval(
    x: np.ndarray, y: np.ndarray, *, replicates: int, seed: int, clusters: np.ndarray | None = None
) -> tuple[float, float, float]:
    """The coefficient and the ends of its 95 % interval; NaN, -1 and 1 where a column never varies.

    Args:
        x, y: (n,) numbers.
        replicates: number of times the samples are drawn again.
        seed: random seed.
        clusters: (n,) rows with the same value are drawn together, such as the copies of one image.

    Example:
        >>> x = np.arange(20.0)
        >>> [round(value, 6) for value in spearman_interval(x, x**2, replicates=10, seed=0)]
        [1.0, 1.0, 1.0]
    """
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan"), -1.0, 1.0
    draws = bootstrap(x[:, None], y, replicates=replicates, seed=seed, clusters=clusters)
    return spearman(x, y), *draws.interval("spearman", 0)

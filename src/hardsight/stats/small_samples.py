"""Means and proportions of small samples, with intervals that work even for three: Student's, Welch's, Wilson's, Newcombe's.

Counts may be fractions: if samples are not independent (degraded copies of one image), callers divide both counts by the
design effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from hardsight.errors import InputError
from hardsight.stats.coefficients import normal_quantile


@dataclass(frozen=True)
class Mean:
    """A mean and its interval; NaN if there are too few samples."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Mean):
    """A difference of two means, with its two-sided p-value."""

    p: float


def mean_interval(values: np.ndarray, level: float = 0.95, design: float = 1.0) -> Mean:
    """The mean of (n,) finite values with Student's interval; a single sample has a mean but no interval.

    Args:
        values: (n,) finite numbers.
        level: confidence level of the interval.
        design: the design effect: n samples carry as much information as n / design independent ones.

    Example:
        >>> mean = mean_interval(np.array([1.0, 2.0, 3.0]))
        >>> round(mean.value, 3), round(mean.low, 3), round(mean.high, 3)
        (2.0, -0.484, 4.484)
    """
    n = len(values)
    if n < 2:
        return Mean(float(values.mean()) if n else math.nan, math.nan, math.nan)
    mean, error = float(values.mean()), math.sqrt(_variance_of_mean(values, design))
    half = error * _student(n / design - 1, level)
    return Mean(mean, mean - half, mean + half)


def welch(first: np.ndarray, second: np.ndarray, level: float = 0.95, designs: tuple[float, float] = (1.0, 1.0)) -> Difference:
    """The mean of the first minus that of the second, by Welch's t.

    Example:
        >>> difference = welch(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 8.0]))
        >>> difference.value, round(difference.p, 4)
        (-2.5, 0.1048)
    """
    value = float(first.mean() - second.mean()) if len(first) and len(second) else math.nan
    if len(first) < 2 or len(second) < 2:
        return Difference(value, math.nan, math.nan, math.nan)
    variances = [_variance_of_mean(values, design) for values, design in zip((first, second), designs, strict=True)]
    total = sum(variances)
    if total == 0:  # two constants
        return Difference(value, value, value, 1.0 if value == 0 else 0.0)
    sizes = [len(values) / design for values, design in zip((first, second), designs, strict=True)]
    parts = sum((variance / total) ** 2 / max(size - 1, 1e-9) for variance, size in zip(variances, sizes, strict=True))
    df = 1 / parts  # Welch and Satterthwaite
    half = math.sqrt(total) * _student(df, level)
    p = 2 * float(special.stdtr(df, -abs(value) / math.sqrt(total)))
    return Difference(value, value - half, value + half, min(1.0, p))


def design_effect(values: np.ndarray, units: np.ndarray) -> float:
    """The design effect: the factor by which dependence within units inflates the variance of a mean; at least 1.

    Degraded copies of one image are one unit. The estimate is the sum of squared unit residuals over that of the rows.

    Example:
        >>> design_effect(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))  # each row is there twice
        2.0
    """
    residual = values - values.mean()
    square = float(residual @ residual)
    if square == 0:
        sizes = np.unique(units, return_counts=True)[1]
        return float((sizes**2).sum() / sizes.sum())  # no variance: treat the rows of a unit as one
    sums = np.bincount(np.unique(units, return_inverse=True)[1], weights=residual)
    return max(1.0, float(sums @ sums) / square)


def _variance_of_mean(values: np.ndarray, design: float) -> float:
    with np.errstate(over="ignore"):  # the variance of values of 1e200 overflows float64
        return float(values.var(ddof=1)) / len(values) * design


def _student(df: float, level: float) -> float:
    return float(special.stdtrit(max(df, 1e-9), (1 + level) / 2))


def wilson(right: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion; from 0 to 1 without samples.

    Example:
        >>> [round(end, 3) for end in wilson(9, 10)], [round(end, 3) for end in wilson(1, 1)]
        ([0.596, 0.982], [0.207, 1.0])
    """
    if not 0 <= right <= n:
        raise InputError(f"a share needs a count from 0 to n, got {right:g} of {n:g}.")
    if n == 0:
        return 0.0, 1.0
    z2 = normal_quantile(level) ** 2
    center = (right + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (right * (n - right) / n + z2 / 4)) / (n + z2)
    return (0.0 if right == 0 else max(0.0, center - half)), (1.0 if right == n else min(1.0, center + half))


def share_difference(first: tuple[float, float], second: tuple[float, float], level: float = 0.95) -> tuple[float, float, float]:
    """The first proportion minus the second, each (right, n), with Newcombe's interval from the two Wilson intervals.

    Example:
        >>> [round(value, 3) for value in share_difference((56, 70), (48, 80))]
        [0.2, 0.052, 0.334]
    """
    (right1, n1), (right2, n2) = first, second
    (low1, high1), (low2, high2) = wilson(right1, n1, level), wilson(right2, n2, level)
    p1, p2 = right1 / n1, right2 / n2
    low = p1 - p2 - math.hypot(p1 - low1, high2 - p2)
    high = p1 - p2 + math.hypot(high1 - p1, p2 - low2)
    return p1 - p2, low, high


def fisher_exact(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Two-sided p-value of equal proportions by Fisher's exact test, each (right, n); fractions are rounded.

    Example:
        >>> round(fisher_exact((3, 4), (1, 4)), 4)
        0.4857
    """
    from scipy.stats import fisher_exact as exact

    table = [[round(right), max(0, round(n) - round(right))] for right, n in (first, second)]
    return float(exact(table).pvalue)


def sign_test(wins: float, losses: float) -> float:
    """Two-sided exact p-value of as many wins as losses (sign test); ties are ignored.

    Example:
        >>> sign_test(5, 0), sign_test(3, 3)
        (0.0625, 1.0)
    """
    n, most = round(wins + losses), round(max(wins, losses))
    return 1.0 if n == 0 else float(min(1.0, 2 * special.bdtrc(most - 1, n, 0.5)))  # twice P(X >= most)

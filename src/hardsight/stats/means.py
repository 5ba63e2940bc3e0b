"""Means of small samples with Student's intervals, differences of two means, and the design effect of dependent samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special


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

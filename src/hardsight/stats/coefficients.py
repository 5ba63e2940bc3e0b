"""Pearson, Spearman and Kendall, with an interval and a p-value; ties share their mean rank, and Kendall is tau-b.

An undefined coefficient (a constant column, too few samples) raises an `InputError` that says why, instead of returning NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from hardsight.checks import to_numpy
from hardsight.errors import InputError

Kind = Literal["spearman", "pearson", "kendall"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FEWEST = 4  # minimum samples for Fisher's z to have a variance


@dataclass(frozen=True)
class Coefficient:
    """One coefficient: its value, interval, Fisher's z and two-sided p-value."""

    kind: Kind
    value: float
    low: float
    high: float
    fisher_z: float
    p: float
    n: int


def pearson(x: Any, y: Any) -> float:
    """Pearson's correlation of two (n,) columns.

    Example:
        >>> pearson([1, 2, 3], [1, 3, 2])
        0.5
    """
    return _pearson(*check_columns(x, y))


def spearman(x: Any, y: Any) -> float:
    """Spearman's rank correlation of two (n,) columns: Pearson's of their ranks, ties at their mean rank.

    Example:
        >>> spearman([1, 2, 300], [1, 3, 2])
        0.5
    """
    from scipy.stats import rankdata  # takes a second to import

    x, y = check_columns(x, y)
    return _pearson(rankdata(x), rankdata(y))


def kendall(x: Any, y: Any) -> float:
    """Kendall's tau-b of two (n,) columns: concordant minus discordant pairs, corrected for ties.

    Example:
        >>> round(kendall([1, 2, 3], [1, 3, 2]), 4)  # two pairs of three agree
        0.3333
    """
    return _kendall(*check_columns(x, y))[0]


def _kendall(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """tau-b and its p-value from SciPy, which sorts two-byte ranks faster than the values."""
    from scipy.stats import kendalltau

    if len(x) < 2**16:
        x, y = _ranks(x), _ranks(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a p-value that underflows
        both = kendalltau(x, y)
    return float(both.statistic), float(both.pvalue)


def _ranks(x: np.ndarray) -> np.ndarray:
    """(n,) rank of each value among the distinct ones, from 0, for fewer than 2^16 values."""
    order = np.argsort(x)
    value = x[order]
    ranks = np.empty(len(x), dtype=np.uint16)
    ranks[order] = np.cumsum(np.concatenate([[False], value[1:] != value[:-1]]))
    return ranks


COEFFICIENTS: dict[Kind, Callable[[Any, Any], float]] = {"spearman": spearman, "pearson": pearson, "kendall": kendall}


def correlate_columns(kind: Kind, x: Any, y: Any, level: float = 0.95) -> Coefficient:
    """A coefficient of two (n,) columns with its interval and p-value.

    p comes from Student's t for Pearson and Spearman, and from SciPy's tie-corrected normal for Kendall.
    """
    x, y = check_columns(x, y)
    n = len(x)
    if n < FEWEST:
        raise InputError(f"a coefficient with an interval needs at least {FEWEST} samples, got {n}.")
    if kind == "kendall":
        value, p = _kendall(x, y)
    else:
        value = COEFFICIENTS[kind](x, y)
        unexplained = (1 - value) * (1 + value)  # 1 - r^2
        t = -abs(value) * math.sqrt((n - 2) / unexplained) if unexplained > 0 else -math.inf  # Student's
        p = 2 * float(special.stdtr(n - 2, t))
    low, high = interval(kind, value, n, level)
    return Coefficient(kind, value, low, high, math.atanh(value) if abs(value) < 1 else math.copysign(math.inf, value), p, n)


def fisher_z(r: float) -> float:
    """Fisher's transform atanh(r), whose error hardly depends on the coefficient's value.

    Example:
        >>> round(fisher_z(0.36), 3)
        0.377
    """
    if not -1 < r < 1:
        raise InputError(f"Fisher's z needs a coefficient between -1 and 1, got {r}.")
    return math.atanh(r)


def standard_error(kind: Kind, r: float, n: int) -> float:
    """Standard error of Fisher's z for a coefficient r of n samples.

    1 / (n - 3) for Pearson; (1 + r^2 / 2) / (n - 3) for Spearman (Bonett and Wright, 2000); 0.437 / (n - 4) for Kendall
    (Fieller, Hartley and Pearson, 1957).
    """
    least = 5 if kind == "kendall" else 4
    if n < least:
        raise InputError(f"the error of Fisher's z needs at least {least} samples for {kind.capitalize()}, got {n}.")
    variance = {"pearson": 1 / (n - 3), "spearman": (1 + r * r / 2) / (n - 3), "kendall": 0.437 / max(n - 4, 1)}
    return math.sqrt(variance[kind])


def interval(kind: Kind, r: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a coefficient through Fisher's z.

    Example:
        >>> [round(end, 3) for end in interval("pearson", 0.5, 103)]
        [0.339, 0.632]
    """
    z = normal_quantile(level)
    if not -1 < r < 1:
        return float(r), float(r)
    try:
        half = z * standard_error(kind, r, n)
    except InputError:  # Kendall with four samples: the interval is unbounded
        return -1.0, 1.0
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def normal_quantile(level: float) -> float:
    """How many standard errors the interval of this level reaches to either side.

    Example:
        >>> round(normal_quantile(0.95), 2)
        1.96
    """
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95, got {level}.")
    return float(-special.ndtri((1 - level) / 2))


def holm(p: Any) -> np.ndarray:
    """(k,) p-values corrected for k tests (Holm, 1979); NaN stays NaN and is not counted.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p, dtype=np.float64)
    given = np.flatnonzero(~np.isnan(p))
    if ((p[given] < 0) | (p[given] > 1)).any():
        raise InputError("p values must be between 0 and 1.")
    order = given[np.argsort(p[given], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)  # the smallest times k, the next times k - 1, ...
    corrected = np.full(len(p), np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def check_columns(x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> tuple[np.ndarray, np.ndarray]:
    """Two finite float64 columns of equal length, with at least two samples, neither constant."""
    columns = []
    for column, name in zip((x, y), names, strict=True):
        array = np.asarray(to_numpy(column), dtype=np.float64)
        if array.ndim != 1:
            raise InputError(f"{name} must be one-dimensional, got shape {array.shape}.")
        columns.append(array)
    first, second = columns
    if len(first) != len(second):
        raise InputError(f"{names[0]} and {names[1]} must be of the same length, got {len(first)} and {len(second)}.")
    if len(first) < 2:
        raise InputError(f"a correlation needs at least two samples, got {len(first)}.")
    for array, name in zip(columns, names, strict=True):
        low, high = array.min(), array.max()  # NaN if there is one: two passes are enough
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = np.flatnonzero(~np.isfinite(array))
            raise InputError(f"{name} must be finite, but {len(bad)} of {len(array)} values are not; the first is row {bad[0]}.")
        if low == high:
            raise InputError(f"{name} is constant ({low:g}), and a constant correlates with nothing.")
    return first, second


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(), y - y.mean()
    x, y = x / np.abs(x).max(), y / np.abs(y).max()  # so that no square over- or underflows
    return float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1.0, 1.0))

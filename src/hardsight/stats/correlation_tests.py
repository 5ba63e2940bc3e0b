"""Tests of two correlation coefficients.

`fisher_test` is for coefficients of two groups of samples; the AVH paper's tables used it. It is the wrong model for two scores
of the same samples. All other tests here are for those, two dependent, overlapping correlations:

    a   correlation of the target with the first score
    b   correlation of the target with the second score
    c   correlation of the two scores with each other
    n   samples

Orient the scores so that both should correlate with the target in the same direction: -AVH and confidence. All of these
tests assume normal data and Pearson's coefficient. For ranks they are approximations; prefer `bootstrap`.
Formulas after Williams (1959), Steiger (1980), Meng, Rosenthal and Rubin (1992) and Zou (2007).

Kendall's tau-b is compared by the influence of each sample on it. For sample i, s_i is the number of samples it is concordant
with minus those it is discordant with. tau-b is S / sqrt(U V), with S the sum of s_i and U, V the numbers of pairs not tied in
x and in y. To first order each sample moves tau-b by its influence; the spread of the influences is the error (the
infinitesimal jackknife), and the spread of the difference of two influences is the error of a difference of two taus on the
same samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.stats.coefficients import check_columns, fisher_z, normal_quantile


@dataclass(frozen=True)
class Outcome:
    """The result of a test of "the first coefficient is larger": its statistic and p-values."""

    statistic: float
    p: float  # two-sided
    p_greater: float  # one-sided: the first is larger
    df: int | None = None  # of Student's t; None for the normal


def outcome(statistic: float, df: int | None = None) -> Outcome:
    """p-values of a statistic that is normal, or Student's t, if the two coefficients are equal."""

    def above(value: float) -> float:
        return float(special.ndtr(-value) if df is None else special.stdtr(df, -value))

    return Outcome(statistic, min(1.0, 2 * above(abs(statistic))), above(statistic), df)


def fisher_test(a: float, b: float, n: int, m: int | None = None) -> Outcome:
    """z = (atanh a - atanh b) / sqrt(1/(n-3) + 1/(m-3)), for coefficients of two independent groups of n and m samples.

    Example:
        >>> round(fisher_test(0.360, 0.325, 29987).statistic, 3)  # Table 2 of the AVH paper prints 4.85
        4.856
    """
    m = n if m is None else m
    if min(n, m) < 4:
        raise InputError(f"Fisher's test needs at least 4 samples in each group, got {n} and {m}.")
    return outcome((fisher_z(a) - fisher_z(b)) / math.sqrt(1 / (n - 3) + 1 / (m - 3)))


def williams(a: float, b: float, c: float, n: int) -> Outcome:
    """Williams' t with n - 3 degrees of freedom.

    Example:
        >>> round(williams(0.3, 0.4, 0.5, 100).statistic, 4)
        -1.0767
    """
    determinant = _check(a, b, c, n)
    mean = (a + b) / 2
    spread = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - c) ** 3
    return outcome((a - b) * math.sqrt((n - 1) * (1 + c) / spread), df=n - 3)


def steiger(a: float, b: float, c: float, n: int) -> Outcome:
    """Steiger's z: the difference of Fisher's z's over its error, their covariance taken at the mean of the two coefficients."""
    _check(a, b, c, n)
    mean = (a + b) / 2
    s = _covariance(mean, mean, c)
    return outcome((fisher_z(a) - fisher_z(b)) * math.sqrt((n - 3) / (2 - 2 * s)))


def meng(a: float, b: float, c: float, n: int) -> Outcome:
    """Meng, Rosenthal and Rubin's z."""
    _check(a, b, c, n)
    square = (a**2 + b**2) / 2
    f = min(1.0, (1 - c) / (2 * (1 - square)))
    h = (1 - f * square) / (1 - square)
    return outcome((fisher_z(a) - fisher_z(b)) / math.sqrt(2 * (1 - c) * h / (n - 3)))


def zou(a: float, b: float, c: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Zou's interval of a - b, from the intervals of a and of b and the correlation of their errors.

    Example:
        >>> [round(end, 3) for end in zou(0.396, 0.179, 0.088, 66)]
        [-0.093, 0.517]
    """
    _check(a, b, c, n)
    half = normal_quantile(level) / math.sqrt(n - 3)
    l1, u1 = math.tanh(fisher_z(a) - half), math.tanh(fisher_z(a) + half)
    l2, u2 = math.tanh(fisher_z(b) - half), math.tanh(fisher_z(b) + half)
    s = ((c - a * b / 2) * (1 - a**2 - b**2 - c**2) + c**3) / ((1 - a**2) * (1 - b**2))
    below = (a - l1) ** 2 + (u2 - b) ** 2 - 2 * s * (a - l1) * (u2 - b)
    above = (u1 - a) ** 2 + (b - l2) ** 2 - 2 * s * (u1 - a) * (b - l2)
    return a - b - math.sqrt(max(below, 0.0)), a - b + math.sqrt(max(above, 0.0))


def _covariance(a: float, b: float, c: float) -> float:
    """Correlation of the errors of atanh a and atanh b."""
    return (c * (1 - a**2 - b**2) - a * b * (1 - a**2 - b**2 - c**2) / 2) / ((1 - a**2) * (1 - b**2))


def _check(a: float, b: float, c: float, n: int) -> float:
    """The determinant of the three correlations, which cannot be negative for any data."""
    for name, r in (("a", a), ("b", b), ("c", c)):
        if not -1 < r < 1:
            hint = " The two scores rank the samples identically: there is nothing to compare." if name == "c" and r >= 1 else ""
            raise InputError(f"{name} must be a coefficient between -1 and 1, got {r}.{hint}")
    if n < 4:
        raise InputError(f"a test of dependent correlations needs at least 4 samples, got {n}.")
    determinant = 1 + 2 * a * b * c - a**2 - b**2 - c**2
    if determinant < -1e-9:
        raise InputError(f"no data has correlations of {a:g}, {b:g} and {c:g}: their determinant is {determinant:.3g}.")
    return max(determinant, 0.0)


def kendall_influence(x: Any, y: Any) -> tuple[float, np.ndarray]:
    """tau-b of two (n,) columns, and the (n,) influence of each sample on it; they sum to 0.

    Example:
        >>> tau, influence = kendall_influence([1, 2, 3, 4], [1, 2, 4, 3])
        >>> round(tau, 4), influence.round(3).tolist()
        (0.6667, [0.667, 0.667, -0.667, -0.667])
    """
    x, y = check_columns(x, y)
    n = len(x)
    x, y = (np.unique(column, return_inverse=True)[1] for column in (x, y))
    s = _concordance(x, y).astype(np.float64)  # (n,)
    u, v = (n - np.bincount(column)[column].astype(np.float64) for column in (x, y))  # others not tied with it
    total, pairs_x, pairs_y = s.sum(), u.sum(), v.sum()
    tau = total / np.sqrt(pairs_x * pairs_y)
    # d log tau = dS/S - dU/2U - dV/2V; every sum counts a sample twice, once as each end of a pair
    influence = 2 * n * (s / np.sqrt(pairs_x * pairs_y) - tau * (u / pairs_x + v / pairs_y) / 2)
    return float(tau), influence


def compare_influences(
    first: tuple[float, np.ndarray], second: tuple[float, np.ndarray], clusters: Any = None
) -> tuple[Outcome, float, float]:
    """z test of two taus with one target on the same samples, plus their difference and its standard error.

    Each is a result of `kendall_influence`. Rows with the same value in (n,) `clusters`, such as degraded copies of one image,
    count as one unit.
    """
    (a, influence_a), (b, influence_b) = first, second
    n = len(influence_a)
    moved = influence_a - influence_b
    if clusters is not None:
        moved = np.bincount(np.unique(to_numpy(clusters), return_inverse=True)[1], weights=moved)  # (units,)
    units = len(moved)
    error = float(np.sqrt(moved @ moved / max(units - 1, 1) * units) / n)  # they sum to 0
    return outcome((a - b) / error if error > 0 else 0.0), a - b, error


def _concordance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) concordant minus discordant partners of each sample, for columns of integers from 0 on."""
    concordant = _dominated(x, y) + _dominated(x.max() - x, y.max() - y)  # smaller in both, or larger in both
    pairs = np.unique(x * (int(y.max()) + 1) + y, return_inverse=True)[1]
    tied_x, tied_y, tied_both = (np.bincount(column)[column] for column in (x, y, pairs))  # (n,) each, including itself
    untied = len(x) - tied_x - tied_y + tied_both
    return 2 * concordant - untied


def _dominated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) how many are smaller in both, by a bottom-up merge sort that handles all blocks of a size at once."""
    n = len(x)
    order = np.lexsort((-y, x))  # by x; for equal x the larger y first, so that ties are not counted
    value = y[order]  # (n,) in order of x: count the smaller values before each position
    smaller_before = np.zeros(n, dtype=np.int64)
    position = np.arange(n)
    height = int(y.max()) + 1
    width = 1
    while width < n:
        block = position // (2 * width)
        right = (position // width) % 2 == 1
        keys = block * height + value
        left_sorted = np.sort(keys[~right])  # the block number is the leading digit, which keeps blocks separate
        mine = block[right] * height
        smaller = np.searchsorted(left_sorted, mine + value[right], side="left") - np.searchsorted(left_sorted, mine, side="left")
        smaller_before[right] += smaller
        width *= 2
    result = np.empty(n, dtype=np.int64)
    result[order] = smaller_before
    return result

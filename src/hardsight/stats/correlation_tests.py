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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from hardsight.errors import InputError
from hardsight.stats.coefficients import fisher_z, normal_quantile


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

"""Two coefficients from two groups of samples: Fisher's z test, which the AVH paper's tables used.

It is the wrong model for two scores of the same samples; see `dependent` for suitable tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from hardsight.errors import InputError
from hardsight.stats.coefficients import fisher_z


@dataclass(frozen=True)
class Outcome:
    """The result of a test of "the first coefficient is larger": its statistic and p-values."""

    statistic: float
    p: float  # two-sided
    p_greater: float  # one-sided: the first is larger
    df: int | None = None  # of Student's t; None for the normal

    @property
    def p_less(self) -> float:
        """One-sided p: the first is smaller."""
        return 1 - self.p_greater


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

"""Proportions of small samples: intervals that work even for three samples, and the difference of two proportions.

Counts may be fractions: if samples are not independent (degraded copies of one image), callers divide both counts by the
design effect.
"""

from __future__ import annotations

import math

from scipy import special

from hardsight.errors import InputError
from hardsight.stats.coefficients import normal_quantile


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

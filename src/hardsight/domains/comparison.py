"""Is one method better than another? Differences of runs that share their source model, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


@dataclass(frozen=True)
class PairedDifference:
    """The mean of paired differences, and where it lies with 95 % confidence (Student's t; None for a single pair)."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def verdict(self) -> str:
        """In words, by the interval alone."""
        if self.low is None or self.high is None:
            return "one run: no interval"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no difference shown"


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> PairedDifference:
    """first - second, run by run.

    Example:
        >>> difference = paired_difference([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
        >>> round(difference.mean, 3), round(difference.low, 3), round(difference.high, 3), difference.verdict
        (0.2, -0.048, 0.448, 'no difference shown')
    """
    differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return PairedDifference(mean, None, None, n)
    margin = float(stdtrit(n - 1, 0.5 + level / 2) * differences.std(ddof=1) / np.sqrt(n))
    return PairedDifference(mean, mean - margin, mean + margin, n)

"""Spearman's coefficient with its bootstrap interval, as the recipes report it."""

from __future__ import annotations

import numpy as np

from hardsight.stats import bootstrap


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
    from scipy.stats import spearmanr

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan"), -1.0, 1.0
    draws = bootstrap(x[:, None], y, replicates=replicates, seed=seed, clusters=clusters)
    return float(spearmanr(x, y).statistic), *draws.interval("spearman", 0)

"""Kendall's tau-b and the influence of each sample on it, for standard errors and paired differences.

For sample i, s_i is the number of samples it is concordant with minus those it is discordant with. tau-b is
S / sqrt(U V), with S the sum of s_i and U, V the numbers of pairs not tied in x and in y. To first order each sample
moves tau-b by its influence; the spread of the influences is the error (the infinitesimal jackknife), and the spread of
the difference of two influences is the error of a difference of two taus on the same samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.stats.coefficients import check_columns
from hardsight.stats.correlation_tests import Outcome, outcome


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
    n = len(x)
    below = _dominated(x, y)  # partners smaller in both
    x_less, x_equal = _counts_below(x)
    y_less, y_equal = _counts_below(y)
    _, where, sizes = np.unique(x * (int(y.max()) + 1) + y, return_inverse=True, return_counts=True)
    both = sizes[where]  # partners equal in both (including itself)
    # Among the n - 1 others: less/less, less/greater, greater/less, greater/greater, and ties of one or both.
    less_x_equal_y = _dominated_ties(x, y)  # smaller in x, the same in y
    equal_x_less_y = _dominated_ties(y, x)
    less_greater = x_less - below - less_x_equal_y
    greater_less = y_less - below - equal_x_less_y
    greater_x = n - x_less - x_equal
    equal_y_greater_x = y_equal - less_x_equal_y - both
    greater_greater = greater_x - greater_less - equal_y_greater_x
    return below + greater_greater - less_greater - greater_less


def _counts_below(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) how many are smaller than each, and how many are equal (including itself)."""
    sizes = np.bincount(column)
    return (np.cumsum(sizes) - sizes)[column], sizes[column]


def _dominated_ties(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) how many have the same y and a smaller x."""
    key = y * (int(x.max()) + 1) + x  # sorted by y, then x
    order = np.sort(key)
    return np.searchsorted(order, key, side="left") - np.searchsorted(order, y * (int(x.max()) + 1), side="left")


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

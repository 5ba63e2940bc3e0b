"""A permutation test for two scores of the same images: if they are equally good, swapping their ranks changes nothing.

Both scores become standardized ranks. For each image a coin decides whether the two are swapped, and the difference of the
coefficients is recomputed. p is the share of swapped datasets whose difference is at least as large as the observed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.stats.coefficients import check_columns

CHUNK = 64


def swap_test(first: Any, second: Any, target: Any, *, permutations: int = 1000, seed: int = 0) -> float:
    """Two-sided p-value of equal rank correlation of two scores with one target. Orient both to correlate in one direction.

    Example:
        >>> x = np.arange(20.0)
        >>> swap_test(x, x + 1, x)  # the same ranks: nothing to tell apart
        1.0
    """
    check_columns(first, target, ("the first score", "the target"))
    check_columns(second, target, ("the second score", "the target"))
    scores = np.column_stack([to_numpy(first), to_numpy(second)])
    return float(swap_tests(scores, target, [(0, 1)], permutations=permutations, seed=seed)[0])


def swap_tests(
    scores: Any,
    target: Any,
    pairs: Sequence[tuple[int, int]],
    *,
    permutations: int = 1000,
    seed: int = 0,
    clusters: Any = None,
) -> np.ndarray:
    """(p,) two-sided p-values for pairs of columns of (n, k) scores, all from the same coin flips.

    Rows with the same value in (n,) `clusters`, such as degraded copies of one image, share a coin.
    """
    if permutations < 1:
        raise InputError(f"permutations must be at least 1, got {permutations}.")
    rank = np.apply_along_axis(_standardized_ranks, 0, np.asarray(to_numpy(scores), dtype=np.float64))  # (n, k)
    target_rank = _standardized_ranks(np.asarray(to_numpy(target), dtype=np.float64))  # (n,)
    n, p = len(rank), len(pairs)
    first, second = rank[:, [i for i, _ in pairs]], rank[:, [j for _, j in pairs]]  # (n, p) each
    # With a coin s of +1 or -1, the first column becomes (first + second + s (first - second)) / 2: sums are linear in s.
    half, turn = (first + second) / 2, (first - second) / 2
    square_turn = (first**2 - second**2) / 2
    linear = np.hstack([turn, square_turn, target_rank[:, None] * turn])  # (n, 3p)
    mean_half, product_half = half.sum(0), target_rank @ half
    mean_square = (first**2 + second**2).sum(0) / 2

    def difference(sums: np.ndarray) -> np.ndarray:
        """(b, 3p) sums over coins -> (b, p) difference of the two coefficients."""
        t, q, c = sums[:, :p], sums[:, p : 2 * p], sums[:, 2 * p :]
        of_first = (product_half + c) / np.sqrt(n * (mean_square + q) - (mean_half + t) ** 2)
        of_second = (product_half - c) / np.sqrt(n * (mean_square - q) - (mean_half - t) ** 2)
        return of_first - of_second

    if clusters is not None:  # one coin for all rows of a unit: replace the rows with their sums
        unit = np.unique(to_numpy(clusters), return_inverse=True)[1]
        linear = np.stack([np.bincount(unit, weights=column) for column in linear.T], axis=1)  # (units, 3p)
    rng = np.random.default_rng(seed)
    seen = np.abs(difference(linear.sum(0, keepdims=True)))[0]
    tolerance = 1e-12 + 1e-9 * seen  # the order of summation must not matter
    as_large = np.zeros(p)
    for start in range(0, permutations, CHUNK):
        count = min(CHUNK, permutations - start)
        coins = rng.integers(0, 2, (count, len(linear)), dtype=np.int8).astype(np.float64) * 2 - 1
        as_large += (np.abs(difference(coins @ linear)) >= seen - tolerance).sum(0)
    return (as_large + 1) / (permutations + 1)


def _standardized_ranks(column: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # takes a second to import

    rank = rankdata(column)
    spread = rank.std()
    return (rank - rank.mean()) / spread if spread > 0 else np.zeros(len(rank))

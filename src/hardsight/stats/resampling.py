"""The paired bootstrap: resample images, with all their scores, and recompute every coefficient.

Drawing n of n images with replacement gives each image a whole number of copies. Ranking the copies needs no sorting:
values are sorted once into groups of ties, and the running total of copies over the groups gives every group its mean
rank. One replicate of one score then takes three passes over n numbers.

And a permutation test for two scores of the same images: if they are equally good, swapping their ranks changes nothing. Both
become standardized ranks, a coin decides for each image whether the two are swapped, and p is the share of swapped datasets
whose difference of coefficients is at least as large as the observed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.stats.coefficients import check_columns
from hardsight.threads import thread_pool

CHUNK = 20  # replicates per random stream, so that results do not depend on the number of threads
COINS = 64  # permutations at a time


@dataclass(frozen=True)
class Bootstrap:
    """Coefficients of k scores with the target in every replicate, all from the same draws."""

    spearman: np.ndarray  # (replicates, k)
    pearson: np.ndarray  # (replicates, k)

    def interval(self, kind: str, score: int, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of one score's coefficient."""
        return percentiles(getattr(self, kind)[:, score], level)

    def difference(self, kind: str, first: int, second: int, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of the first coefficient minus the second, from the same draws."""
        values = getattr(self, kind)
        return percentiles(values[:, first] - values[:, second], level)

    def error(self, kind: str, first: int, second: int) -> float:
        """Standard error of the first coefficient minus the second."""
        values = getattr(self, kind)
        return float(np.nanstd(values[:, first] - values[:, second], ddof=1)) if len(values) > 1 else 0.0

    def p(self, kind: str, first: int, second: int) -> float:
        """Two-sided: twice the share of replicates on the wrong side of no difference, counting one more of each.

        It cannot fall below 2 / (replicates + 1); to correct for many tests, use `error` and the normal distribution.
        """
        values = getattr(self, kind)
        difference = values[:, first] - values[:, second]
        difference = difference[np.isfinite(difference)]
        wrong = min((difference <= 0).sum(), (difference >= 0).sum())
        return float(min(1.0, 2 * (wrong + 1) / (len(difference) + 1)))


def bootstrap(
    scores: Any,
    target: Any,
    *,
    replicates: int = 1000,
    seed: int = 0,
    clusters: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Bootstrap:
    """Spearman and Pearson of each score with the target, over resampled images.

    Args:
        scores: (n, k) finite numbers, one column per score.
        target: (n,) what they are compared with.
        replicates: number of times the images are resampled.
        seed: random seed; the draws do not depend on the number of threads.
        clusters: (n,) rows with the same value are drawn together, such as degraded copies of one image.
        progress: called with the replicates done and the total.

    Example:
        >>> x = np.arange(50.0)
        >>> bootstrap(np.stack([x, -x], axis=1), x, replicates=3).spearman
        array([[ 1., -1.],
               [ 1., -1.],
               [ 1., -1.]])
    """
    columns = np.column_stack([to_numpy(scores), to_numpy(target)]).astype(np.float64)  # (n, k + 1), the target last
    n = len(columns)
    if n < 2 or columns.shape[1] < 2:
        raise InputError(f"a bootstrap needs at least two samples and one score, got shape {to_numpy(scores).shape}.")
    if not np.isfinite(columns).all():
        row = int(np.flatnonzero(~np.isfinite(columns).all(1))[0])
        raise InputError(f"scores and target must be finite; row {row} is not. Leave such rows out first.")
    if replicates < 1:
        raise InputError(f"replicates must be at least 1, got {replicates}.")
    unit = np.arange(n) if clusters is None else np.unique(to_numpy(clusters), return_inverse=True)[1]
    units = int(unit.max()) + 1
    groups = [np.unique(column, return_inverse=True)[1] for column in columns.T]  # (n,) each: index of its distinct value
    moments = _moments(columns)
    draws = Bootstrap(*(np.empty((replicates, columns.shape[1] - 1)) for _ in range(2)))
    streams = np.random.SeedSequence(seed).spawn(-(-replicates // CHUNK))

    def chunk(index: int) -> int:
        rows = range(index * CHUNK, min((index + 1) * CHUNK, replicates))
        rng = np.random.default_rng(streams[index])
        copies = np.empty((len(rows), n))
        for row, copies_of_row in zip(rows, copies, strict=True):
            drawn = np.bincount(rng.integers(0, units, units), minlength=units).astype(np.float64)  # copies of each unit
            copies_of_row[:] = drawn if clusters is None else drawn[unit]
            draws.spearman[row] = _weighted_spearman(groups, copies_of_row)
        draws.pearson[rows.start : rows.stop] = _weighted_pearson(copies @ moments, copies.sum(1))
        return len(rows)

    done = 0
    with thread_pool() as pool:
        for count in pool.map(chunk, range(len(streams))):
            done += count
            if progress is not None:
                progress(done, replicates)
    return draws


def percentiles(values: np.ndarray, level: float) -> tuple[float, float]:
    """The central `level` of the values; replicates with a constant column are ignored."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        raise InputError("no replicate has a coefficient: a column is constant or nearly so.")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _weighted_spearman(groups: list[np.ndarray], copies: np.ndarray) -> np.ndarray:
    """(k,) Spearman with the last column, each row counted `copies` times; NaN if a column is constant."""
    total = copies.sum()
    middle = (total + 1) / 2  # the mean of all ranks

    def centered_ranks(group: np.ndarray) -> np.ndarray:
        size = np.bincount(group, weights=copies)  # copies at each value, in order
        return (np.cumsum(size) - (size - 1) / 2 - middle)[group]  # (n,) mean rank of each, minus the mean

    target = centered_ranks(groups[-1])
    weighted = copies * target
    target_square = weighted @ target
    result = np.empty(len(groups) - 1)
    for column, group in enumerate(groups[:-1]):
        rank = centered_ranks(group)
        scale = np.sqrt((copies @ (rank * rank)) * target_square)
        result[column] = weighted @ rank / scale if scale > 0 else np.nan
    return np.clip(result, -1.0, 1.0)


def _moments(columns: np.ndarray) -> np.ndarray:
    """(n, 3k + 2): each score, its square, its product with the target; the target and its square."""
    z = columns - columns.mean(0)
    scale = np.abs(z).max(0)
    z = z / np.where(scale > 0, scale, 1.0)
    x, y = z[:, :-1], z[:, -1:]
    return np.hstack([x, x * x, x * y, y, y * y])


def _weighted_pearson(sums: np.ndarray, total: np.ndarray) -> np.ndarray:
    """(b, k) Pearson from (b, 3k + 2) weighted sums of `_moments`; NaN if a column is constant."""
    mean = sums / total[:, None]
    k = (mean.shape[1] - 2) // 3
    x, xx, xy, y, yy = mean[:, :k], mean[:, k : 2 * k], mean[:, 2 * k : 3 * k], mean[:, -2:-1], mean[:, -1:]
    spread = (xx - x * x) * (yy - y * y)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (xy - x * y) / np.sqrt(spread)
    return np.where(spread > 1e-24, np.clip(r, -1.0, 1.0), np.nan)


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
    for start in range(0, permutations, COINS):
        count = min(COINS, permutations - start)
        coins = rng.integers(0, 2, (count, len(linear)), dtype=np.int8).astype(np.float64) * 2 - 1
        as_large += (np.abs(difference(coins @ linear)) >= seen - tolerance).sum(0)
    return (as_large + 1) / (permutations + 1)


def _standardized_ranks(column: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # takes a second to import

    rank = rankdata(column)
    spread = rank.std()
    return (rank - rank.mean()) / spread if spread > 0 else np.zeros(len(rank))

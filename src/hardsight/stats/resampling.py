"""The paired bootstrap: resample images, with all their scores, and recompute every coefficient.

Drawing n of n images with replacement gives each image a whole number of copies. Ranking the copies needs no sorting:
values are sorted once into groups of ties, and the running total of copies over the groups gives every group its mean
rank. One replicate of one score then takes three passes over n numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.threads import thread_pool

CHUNK = 20  # replicates per random stream, so that results do not depend on the number of threads


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

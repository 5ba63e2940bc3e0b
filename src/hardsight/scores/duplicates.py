"""Near duplicates: the nearest other row of every row, exactly, and the groups of rows that are nearly the same.

Distances are between unit vectors, from 0 for the same direction over sqrt 2 for a right angle to 2 for opposite ones. The
search multiplies float32 blocks; whatever could be near is then measured in float64 from the features themselves, so that
a copy has distance 0 and not the rounding of a product.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardsight.checks import as_matrix, check_some_columns, is_tensor, namespace, to_numpy
from hardsight.errors import InputError
from hardsight.geometry import SAME_DIRECTION, safe_row_norms
from hardsight.scores.search import QUERIES, Candidates, closest_pairs, pairs_above
from hardsight.threads import blocks, even_rows, share, take

SLACK = 4e-6  # what the float32 product of two unit vectors may be off by
FRACTION = 0.13  # of the usual distance to the nearest row: nearer is a near duplicate, as in cleanlab's Datalab
SAMPLE = 1000  # rows that the usual distance is taken from
PART = 2**20  # numbers measured at a time: 8 MB of float64
SHORT = (15, 31, 63, 127)  # principal directions in which pairs may be compared first
ROUNDS = 3  # steps in which the directions are found; rough ones only leave more pairs to compare in full
SPARE = 1e-6  # what the squares of a float32 unit vector may add up to beyond 1
LOOKED_AT, GATHERED = 20, 15  # multiplications of a product that take as long as a look at its result, or one of a single pair


class Duplicates(NamedTuple):
    """What `near_duplicates` finds for each of n rows."""

    nearest: np.ndarray  # (n,) nearest other row, or row of the reference; -1 where there is none
    distance: np.ndarray  # (n,) to it, between unit vectors, in [0, 2]; NaN where there is none
    near: np.ndarray  # (n,) whether that is at most the threshold
    group: np.ndarray  # (n,) number of the group of near duplicates a row is in; -1 for none, and with a reference
    threshold: float


def near_duplicates(
    features: Any, reference: Any = None, *, threshold: float | None = None, only_near: bool = False
) -> Duplicates:
    """For every row the nearest other row by direction, and which rows are nearly the same.

    Every row is compared with every other, a block at a time: n x n products of length d, half of them made, and no array
    of that size. Arrays are shared over the cores, tensors computed on their device.

    Args:
        features: (n, d) of any length; a row of zeros, or one that is not finite, has no neighbor and is none.
        reference: (m, d) rows to look among instead: the training set, to find what has leaked from it.
        threshold: distance between unit vectors up to which two rows are near duplicates. Default: 0.13 times the usual
            distance to the nearest row, the median of up to 1,000 rows.
        only_near: leave the nearest of rows without a near duplicate unknown. Pairs are then compared in a few dimensions first,
            and in all of them only if that does not tell them apart: several times faster where d is large.

    Returns:
        `nearest`, `distance`, `near` and `group`, one entry per row, and the `threshold`. Rows are in one group if a
        chain of near duplicates connects them; groups are numbered in the order of their first rows.

    Example:
        >>> found = near_duplicates([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], threshold=0.1)
        >>> found.nearest.tolist(), found.distance.round(4).tolist(), found.group.tolist()
        ([2, 0, 0], [0.0, 1.4142, 0.0], [0, -1, 0])
    """
    x = directions(features, "features")
    y = x if reference is None else _beside(directions(reference, "reference"), x)
    threshold = FRACTION * _usual_distance(x, y) if threshold is None else _check_threshold(threshold)
    product = 1 - threshold**2 / 2  # of two unit vectors at that distance
    bound, sure = product - SLACK, product + SLACK
    pairs, crowded = _pairs(x, y, (bound, sure if sure < 1 else bound), only_near)
    distance = _distances(x, y, pairs)  # (p,)
    links = np.concatenate([pairs[distance <= threshold], crowded[_distances(x, y, crowded) <= threshold]])
    if only_near:
        pairs, distance = pairs[distance <= threshold], distance[distance <= threshold]
    if y is x:
        pairs, distance = np.concatenate([pairs, pairs[:, ::-1]]), np.tile(distance, 2)
    best = _first_of_each(pairs[:, 0], distance, pairs[:, 1])
    rows = x.rows[pairs[best, 0]]
    nearest, to_nearest = np.full(len(x.values), -1), np.full(len(x.values), np.nan)
    nearest[rows], to_nearest[rows] = y.rows[pairs[best, 1]], distance[best]
    with np.errstate(invalid="ignore"):
        near = to_nearest <= threshold
    group = _groups(x, links) if y is x else np.full(len(x.values), -1)
    return Duplicates(nearest, to_nearest, near, group, float(threshold))


@dataclass(frozen=True)
class Directions:
    """Rows with a direction: which they are, and their unit vectors."""

    values: Any  # (n, d) as they were given
    rows: np.ndarray  # (m,) those that have one
    unit: Any  # (m, d) float32, in the library of the values


def _pairs(x: Directions, y: Directions, bounds: tuple[float, float], only_near: bool) -> tuple[np.ndarray, np.ndarray]:
    """(p, 2) pairs: all near ones and, unless only those are asked for, the nearest of every row; and what connects crowds."""
    none = np.empty((0, 2), np.int64)
    if only_near and namespace(x.unit) is np and len(x.rows) and len(y.rows):
        short = _shortened(x, y, bounds[0])
        close = None if short is None else pairs_above(*short, bounds[0])
        if close is not None:  # a crowd in a few dimensions need not be one in all of them
            return close[_products(x, y, close) > bounds[0]], none
    closest = closest_pairs(x.unit, None if y is x else y.unit, *bounds)
    has = np.flatnonzero(closest.nearest >= 0)
    return np.concatenate([np.stack([has, closest.nearest[has]], axis=1), *closest.pairs]), np.concatenate([none, *closest.links])


def _shortened(x: Directions, y: Directions, bound: float) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Unit vectors of a few dimensions, no two of which are further apart than those of x and y they stand for.

    As few dimensions as leave few of a sample of pairs above the bound: short vectors are multiplied sooner, but leave more
    pairs to compare in full. None where all dimensions take no longer.
    """
    d = x.unit.shape[1]
    allowed = [short for short in SHORT if 2 * short < d]
    if not allowed:
        return None
    queries, among = (side.unit[even_rows(len(side.rows), 2 * SAMPLE)[-2::-2]] for side in (x, y))  # (q, d), (m, d)
    axes = _principal(y.unit[even_rows(len(y.rows), 2 * SAMPLE)[-1::-2]], max(allowed))  # fitted to others than those
    cost = {}  # of one pair, by the number of directions
    for short in allowed:
        product = _short(queries, axes[:, :short]) @ _short(among, axes[:, :short]).T  # (q, m)
        if y is x:
            np.fill_diagonal(product, -np.inf)
        cost[short] = short + LOOKED_AT + GATHERED * d * float((product > bound).mean())
    best = min(cost, key=lambda short: cost[short])
    if cost[best] > d:
        return None
    return _short(x.unit, axes[:, :best]), None if y is x else _short(y.unit, axes[:, :best])


def _principal(unit: np.ndarray, k: int) -> np.ndarray:
    """(d, k) orthogonal directions of about the largest variance of (m, d), the largest first, by subspace iteration."""
    around = unit.astype(np.float64) - unit.mean(axis=0, dtype=np.float64)
    basis = np.random.default_rng(0).standard_normal((unit.shape[1], k))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(around.T @ (around @ basis))[0]
    turn = np.linalg.eigh(basis.T @ (around.T @ (around @ basis)))[1][:, ::-1]  # (k, k)
    return (basis @ turn).astype(np.float32)


def _short(unit: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Coordinates along (d, k) directions, and the length of what is left: (n, d) -> (n, k + 1).

    Lengths differ by no more than vectors do, so that no two rows are further apart than before.
    """
    inside = unit @ directions
    rest = np.sqrt(np.maximum(1 - np.vecdot(inside, inside), 0.0) + np.float32(SPARE))
    return np.concatenate([inside, rest[:, None]], axis=1)


def _products(x: Directions, y: Directions, pairs: np.ndarray) -> np.ndarray:
    """(p,) products of the unit vectors of (p, 2) pairs of rows."""
    result = np.empty(len(pairs), np.float32)

    def work(part: slice) -> None:
        result[part] = np.vecdot(x.unit[pairs[part, 0]], y.unit[pairs[part, 1]])

    share(work, blocks(len(pairs), max(1, PART // x.unit.shape[1])))
    return result


def directions(values: Any, name: str) -> Directions:
    """The unit vectors of (n, d) values, computed in float64."""
    values = as_matrix(values, name)
    check_some_columns(values, name)
    xp = namespace(values)
    unit = xp.empty(values.shape, dtype=xp.float32, device=values.device)
    usable = np.zeros(len(values), dtype=bool)

    def work(part: slice) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            wide = values[part].astype(np.float64) if xp is np else values[part].double()
            norm = safe_row_norms(wide, xp)  # (b,)
            good = xp.isfinite(norm) & (norm > 0)
            unit[part] = wide / xp.where(good, norm, xp.ones_like(norm))[:, None]
        usable[part] = to_numpy(good)

    share(work, blocks(len(values), max(1, PART // values.shape[1])), xp)
    rows = np.flatnonzero(usable)
    return Directions(values, rows, unit if usable.all() else take(unit, rows))


def _beside(reference: Directions, x: Directions) -> Directions:
    """The reference in the library and on the device of x, in the same space."""
    if reference.values.shape[1] != x.values.shape[1]:
        raise InputError(
            "features and reference must have the same number of columns, "
            f"got {tuple(x.values.shape)} and {tuple(reference.values.shape)}."
        )
    if is_tensor(x.unit):
        return replace(reference, unit=namespace(x.unit).as_tensor(reference.unit, device=x.unit.device))
    return replace(reference, unit=to_numpy(reference.unit))


def _check_threshold(threshold: Any) -> float:
    number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    if not number or not 0 <= threshold <= 2:
        raise InputError(f"threshold must be a distance between unit vectors, 0 to 2, got {threshold!r}.")
    return float(threshold)


def _usual_distance(x: Directions, y: Directions) -> float:
    """Median distance of a subsample of rows to their nearest; 0 where there are none.

    Where most rows have a near duplicate, that is the distance between copies: then it is the median to the second nearest.
    """
    queries = even_rows(len(x.rows), SAMPLE)
    candidates = Candidates()
    candidates.add(to_numpy(y.unit), np.arange(len(y.rows)))
    nearest = np.full((len(queries), 2), -1)

    def work(part: slice) -> None:
        asked = queries[part]
        _, row = candidates.nearest(to_numpy(take(x.unit, asked)), 2, asked if y is x else None)
        nearest[part, : row.shape[1]] = row

    def median_to(row: np.ndarray) -> float:
        has = row >= 0
        return float(np.median(_distances(x, y, np.stack([queries[has], row[has]], axis=1)))) if has.any() else 0.0

    share(work, blocks(len(queries), QUERIES))
    first, second = (median_to(row) for row in nearest.T)
    return second if first <= FRACTION * second else first


def _distances(x: Directions, y: Directions, pairs: np.ndarray) -> np.ndarray:
    """(p,) distances between the unit vectors of (p, 2) pairs of rows, in float64 from the features themselves."""
    result = np.empty(len(pairs))

    def work(part: slice) -> None:
        u, v = (_unit64(side.values, side.rows[pairs[part, at]]) for at, side in enumerate((x, y)))  # (b, d) each
        result[part] = np.linalg.norm(u - v, axis=1)

    share(work, blocks(len(pairs), max(1, PART // x.values.shape[1])))
    result[result < SAME_DIRECTION] = 0.0
    return result


def _unit64(values: Any, rows: np.ndarray) -> np.ndarray:
    wide = to_numpy(take(values, rows)).astype(np.float64)
    return wide / safe_row_norms(wide, np)[:, None]


def _first_of_each(row: np.ndarray, distance: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Index of the nearest entry of each row that has any, the smallest `other` among equals."""
    order = np.lexsort((other, distance, row))
    first = np.append(True, row[order[1:]] != row[order[:-1]])[: len(order)]
    return order[first]


def _groups(x: Directions, links: np.ndarray) -> np.ndarray:
    """(n,) number of the group that (p, 2) links put a row in, -1 for none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    group = np.full(len(x.values), -1)
    if len(links) == 0:
        return group
    graph = coo_array((np.ones(len(links), np.int8), (links[:, 0], links[:, 1])), shape=(len(x.rows), len(x.rows)))
    _, part = connected_components(graph.tocsr(), directed=False)
    linked = np.unique(links)  # in order
    _, first, number = np.unique(part[linked], return_index=True, return_inverse=True)
    group[x.rows[linked]] = np.argsort(np.argsort(first))[number]
    return group


# Copies: which rows of a dataset are one sample


@dataclass(frozen=True)
class Repeats:
    """Near duplicates among n samples, or of samples of a reference."""

    nearest: np.ndarray  # (n,) row of the nearest near duplicate, or row of the reference; -1 for none
    distance: np.ndarray  # (n,)
    group: np.ndarray  # (n,) number of its group of near duplicates; -1 for none, and with a reference

    @cached_property
    def repeated(self) -> np.ndarray:
        """(n,) whether a sample is a near duplicate of one before it, or of one in the reference."""
        first = (self.group >= 0) & (first_rows(self.group) == np.arange(len(self.group)))  # of its group
        return (self.nearest >= 0) & ~first

    def put_back(self, order: np.ndarray) -> Repeats:
        """The same where row i is row `order[i]`."""
        back = np.argsort(order)
        nearest = self.nearest[back]
        return Repeats(np.where(nearest >= 0, order[nearest], -1), self.distance[back], self.group[back])

    def originals(self, labels: np.ndarray, folds: int) -> np.ndarray:
        """(n,) row that stands for a sample: the first of its near duplicates, or itself.

        A group that is more than one fold's share of a class, such as a class of blank images, is many samples that look alike:
        each stands for itself, or the class could not be learned without the group.

        Example:
            >>> group = np.array([0, -1, 0, 1, -1, -1, 1])
            >>> repeats = Repeats(group, np.zeros(7), group)
            >>> repeats.originals(np.array([0, 0, 0, 0, 1, 1, 1]), folds=2)  # rows 3 and 6 are no more than half of their classes
            array([0, 1, 0, 3, 4, 5, 3])
        """
        at = np.flatnonzero((self.group >= 0) & (labels >= 0))
        parts, size = np.unique(np.stack([self.group[at], labels[at]]), axis=1, return_counts=True)  # (2, p): group and class
        classes, total = np.unique(labels, return_counts=True)
        crowds = parts[0, size * folds > total[np.searchsorted(classes, parts[1])]]
        rows = np.arange(len(labels))
        copies = (self.group >= 0) & ~np.isin(self.group, crowds)
        return first_rows(np.where(copies, self.group, len(labels) + rows))


def first_rows(numbers: np.ndarray) -> np.ndarray:
    """First row that has the number of each row: (n,) -> (n,).

    Example:
        >>> first_rows(np.array([7, 3, 7, 5]))
        array([0, 1, 0, 3])
    """
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[place])


def find_repeats(features: np.ndarray, reference: np.ndarray | None = None) -> Repeats:
    """Near duplicates of (n, d) features among themselves, or in an (m, d) reference."""
    duplicates = near_duplicates(features, reference, only_near=True)
    return Repeats(duplicates.nearest, duplicates.distance, duplicates.group)

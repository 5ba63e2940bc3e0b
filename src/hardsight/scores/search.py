"""Exact nearest neighbors, a block of products at a time: never an n x n array.

Among vectors of one length the nearest has the largest product with a query. Among others it has the largest product
less half its own squared length, so that both searches are the same one.

    Candidates      the k nearest of them, for some queries
    closest_pairs   the nearest other row of every row, and all pairs that are nearer than a bound
    pairs_above     those pairs alone
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardsight.checks import is_tensor, namespace, to_numpy
from hardsight.threads import num_workers, share

QUERIES, CANDIDATES = 512, 8192  # one block of similarities: 16 MB for each thread
FIRST = 2048  # candidates of the first block; afterwards only those nearer than the k-th so far are looked at
GROUP, WIDE = 8, 16  # values whose maximum stands for them; columns for each of the k largest from which that pays
SIDE = 2048  # rows and columns of a block of `closest_pairs`: 16 MB as well
TILE = 512  # rows and columns of a product of `pairs_above`: 1 MB, which stays in the cache until it is looked at
MANY = 8  # pairs per row of a block that are kept one by one; a block with more keeps what connects them


class Candidates:
    """Vectors to search among, in parts as they came: n x d numbers in memory.

    Unit vectors are compared by their cosine; with `lengths`, vectors of any length by their distance.
    """

    def __init__(self, *, lengths: bool = False) -> None:
        self.lengths = lengths
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []  # (m, d) vectors, (m,) rows, (m,) offsets
        self.size = 0

    def add(self, vectors: np.ndarray, rows: np.ndarray) -> None:
        """Take in (m, d) vectors and the (m,) numbers of their rows, which are higher than all before."""
        half = np.vecdot(vectors, vectors) / 2 if self.lengths else None
        self.parts.append((vectors, rows, half))
        self.size += len(vectors)

    def joined(self) -> np.ndarray:
        """All vectors as one (n, d) array, in the order they came; from then on they are kept as that."""
        if len(self.parts) > 1:
            vectors, rows, half = zip(*self.parts, strict=True)
            offsets = None if half[0] is None else np.concatenate(half)
            self.parts = [(np.concatenate(vectors), np.concatenate(rows), offsets)]
        return self.parts[0][0] if self.parts else np.empty((0, 0), np.float32)

    def nearest(self, query: np.ndarray, k: int, own_row: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest of each of (q, d) queries, nearest first: (q, k) similarities and (q, k) rows, -1 where there are fewer.

        `own_row` (q,) are rows that the queries are themselves: no row is its own neighbor.
        """
        k = max(1, min(k, self.size))
        best = np.full((len(query), k), -np.inf, dtype=query.dtype)  # similarities so far, largest first
        row_of = np.full((len(query), k), -1)
        for vectors, row, half in self._blocks():
            similarity = query @ vectors.T  # (q, m)
            if half is not None:
                similarity -= half
            if own_row is not None:
                own = np.searchsorted(row, own_row)
                here = np.flatnonzero(row[np.minimum(own, len(row) - 1)] == own_row)
                similarity[here, own[here]] = -np.inf
            _take_in(best, row_of, similarity, row)
        return best, row_of

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Vectors, rows and offsets, in order: small blocks first, while many are still near enough to count."""
        size = FIRST
        for vectors, row, half in self.parts:
            start = 0
            while start < len(vectors):
                cut = slice(start, start + size)
                yield vectors[cut], row[cut], None if half is None else half[cut]
                start, size = start + size, min(2 * size, CANDIDATES)


def _take_in(best: np.ndarray, row_of: np.ndarray, similarity: np.ndarray, rows: np.ndarray) -> None:
    """Let a block of (q, m) similarities into the (q, k) best so far; among equals the earlier one stays ahead."""
    k = best.shape[1]
    if np.isneginf(best).all():  # the first block: all of it counts
        first = min(k, similarity.shape[1])
        order = _largest(similarity, first)
        best[:, :first], row_of[:, :first] = np.take_along_axis(similarity, order, 1), rows[order]
        row_of[np.isneginf(best)] = -1  # the query itself, where there are no k others
        return
    some, nearer, column = _picked(similarity, similarity > best[:, -1:])
    if len(some) == 0:
        return
    both = np.concatenate([best[some], nearer], axis=1)
    chosen = np.concatenate([row_of[some], np.where(column < 0, -1, rows[column])], axis=1)
    order = _largest(both, k)
    best[some], row_of[some] = np.take_along_axis(both, order, 1), np.take_along_axis(chosen, order, 1)


def _picked(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of (q, m) values with any that are wanted, (s,), and those of each side by side: (s, w) values and columns.

    They keep their order; where a row has fewer than w, -inf and column -1 fill it.
    """
    at, column = np.divmod(np.flatnonzero(wanted), values.shape[1])
    count = np.bincount(at, minlength=len(values))
    some = np.flatnonzero(count)
    width = int(count.max(initial=0))
    line = np.cumsum(count > 0)[at] - 1
    rank = np.arange(len(at)) - (np.cumsum(count) - count)[at]  # 0, 1, ... within each row
    picked = np.full((len(some), width), -np.inf, dtype=values.dtype)
    columns = np.full((len(some), width), -1)
    picked[line, rank], columns[line, rank] = values[at, column], column
    return some, picked, columns


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Columns of each row's k largest values, largest first, the earlier column among equals: (q, m) -> (q, k)."""
    if values.shape[1] < WIDE * k:
        return _largest_of_few(values, k)
    # The k-th largest of the maxima of disjoint groups is at most the k-th largest of all: few others reach it.
    grouped = values[:, : values.shape[1] // GROUP * GROUP].reshape(len(values), GROUP, -1).max(axis=1)  # (q, m / GROUP)
    least = np.partition(grouped, -k, axis=1)[:, -k, None]
    _, picked, columns = _picked(values, ~(values < least))
    return np.take_along_axis(columns, _largest_of_few(picked, k), 1)


def _largest_of_few(values: np.ndarray, k: int) -> np.ndarray:
    least = np.partition(values, -k, axis=1)[:, -k, None]  # the k-th largest
    width = int((values >= least).sum(1).max())  # k, or more where it is tied
    some = np.sort(np.argpartition(-values, width - 1, axis=1)[:, :width], axis=1)
    order = np.argsort(-np.take_along_axis(values, some, 1), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(some, order, 1)


@dataclass
class ClosestPairs:
    """What `closest_pairs` finds: the nearest of every row by its product, and the pairs whose product is above a bound."""

    best: np.ndarray  # (n,) largest product with another row, -inf where there is none
    nearest: np.ndarray  # (n,) that row, the first among equals; -1 where there is none
    pairs: list[np.ndarray] = field(default_factory=list)  # (p, 2) rows each
    links: list[np.ndarray] = field(default_factory=list)  # (p, 2) each: rows that a crowd of such pairs connects

    def take_in(self, rows: np.ndarray, product: np.ndarray, other: np.ndarray) -> None:
        """Let the largest products of some rows, and the rows they are with, into the best so far."""
        best, nearest = self.best[rows], self.nearest[rows]
        better = (product > best) | ((product == best) & (other < nearest))
        self.best[rows[better]], self.nearest[rows[better]] = product[better], other[better]


def closest_pairs(x: Any, y: Any = None, bound: float = np.inf, sure: float = np.inf) -> ClosestPairs:
    """The row of y with the largest product for every row of x: (n, d), (m, d). Without y, the nearest other row of x.

    Within x, each block of products serves its rows and its columns: half of the products are never made. Arrays are shared
    over threads, tensors computed on their device. Pairs are those above `bound`; in a block with a crowd of them, only
    what those above `sure` connect is kept.
    """
    xp, symmetric = namespace(x), y is None
    y = x if y is None else y
    closest = ClosestPairs(np.full(len(x), -np.inf, np.float32), np.full(len(x), -1))
    lock = threading.Lock()
    memory = [xp.empty((SIDE, SIDE), dtype=x.dtype, device=x.device) for _ in range(num_workers(xp))]

    def work(block: tuple[slice, slice]) -> None:
        rows, columns = block
        i, j = rows.start, columns.start
        buffer = memory.pop()  # popping is safe in threads
        product = buffer.reshape(-1)[: (rows.stop - i) * (columns.stop - j)].reshape(rows.stop - i, columns.stop - j)
        xp.matmul(x[rows], y[columns].T, out=product)
        if symmetric and i == j:
            _blank_diagonal(product)
        largest, where = _row_best(product)
        close, crowd = _above(product, largest, (bound, sure))
        if symmetric and i == j and not crowd:
            close = close[close[:, 0] < close[:, 1]]
        below = _column_best(product, closest.best[columns]) if symmetric and i < j else None
        memory.append(buffer)
        with lock:
            closest.take_in(np.arange(i, rows.stop), largest, where + j)
            if below is not None:
                some, product_of, row_of = below
                closest.take_in(j + some, product_of, row_of + i)
            if len(close):
                (closest.links if crowd else closest.pairs).append(close + [i, j])

    share(work, tiles(slice(0, len(x)), slice(0, len(y)), SIDE, symmetric), xp)
    return closest


def pairs_above(x: np.ndarray, y: np.ndarray | None, bound: float) -> np.ndarray | None:
    """(p, 2) rows of x and y whose product is above a bound: (n, d), (m, d); without y, rows of x, the smaller first.

    None if there is a crowd of them. Nothing else is looked for, which makes it twice as fast as `closest_pairs`.
    """
    symmetric, other = y is None, x if y is None else y
    none = np.empty((0, 2), np.int64)
    pairs: list[np.ndarray] = [none]
    crowds: list[int] = []
    memory = [np.empty(TILE * TILE, dtype=x.dtype) for _ in range(num_workers(np))]

    def above(rows: slice, columns: slice, buffer: np.ndarray) -> np.ndarray:
        """(p, 2) pairs of one tile."""
        shape = rows.stop - rows.start, columns.stop - columns.start
        product = np.matmul(x[rows], other[columns].T, out=buffer[: shape[0] * shape[1]].reshape(shape))
        own = symmetric and rows == columns
        if own:
            _blank_diagonal(product)
        if product.max() <= bound:
            return none
        at, column = np.divmod(np.flatnonzero(product > bound), shape[1])
        close = np.stack([rows.start + at, columns.start + column], axis=1)
        return close[at < column] if own else close

    def work(block: tuple[slice, slice]) -> None:
        if crowds:
            return
        rows, columns = block
        buffer = memory.pop()  # popping is safe in threads
        close = np.concatenate([none, *(above(*tile, buffer) for tile in tiles(rows, columns, TILE, symmetric))])
        memory.append(buffer)
        if len(close) > MANY * (rows.stop - rows.start + columns.stop - columns.start):
            crowds.append(len(close))
        pairs.append(close)

    share(work, tiles(slice(0, len(x)), slice(0, len(other)), SIDE, symmetric))
    return None if crowds else np.concatenate(pairs)


def tiles(rows: slice, columns: slice, side: int, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Rows and columns in tiles; if symmetric, without those whose columns lie before their rows."""
    for i in range(rows.start, rows.stop, side):
        for j in range(max(columns.start, i) if symmetric else columns.start, columns.stop, side):
            yield slice(i, min(i + side, rows.stop)), slice(j, min(j + side, columns.stop))


def _blank_diagonal(product: Any) -> None:
    """Nobody is their own neighbor."""
    if is_tensor(product):
        product.fill_diagonal_(float("-inf"))
    else:
        np.fill_diagonal(product, -np.inf)


def _row_best(product: Any) -> tuple[np.ndarray, np.ndarray]:
    """(q, m) -> (q,) largest of each row, and its column, the first among equals."""
    if is_tensor(product) and product.device.type != "cpu":
        value, column = product.max(1)
        return to_numpy(value), to_numpy(column)
    product = to_numpy(product)
    column = product.argmax(1)
    return product[np.arange(len(product)), column], column


def _column_best(product: Any, best: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The columns whose largest product reaches the (m,) best so far: their numbers, that product, and its row."""
    if is_tensor(product) and product.device.type != "cpu":
        value, row = (to_numpy(part) for part in product.max(0))
        some = np.flatnonzero(value >= best)
        return some, value[some], row[some]
    product = to_numpy(product)
    value = product.max(0)
    some = np.flatnonzero(value >= best)  # few after the first blocks: only those are looked for
    return some, value[some], product[:, some].argmax(0) if len(some) else some


def _above(product: Any, largest: np.ndarray, bounds: tuple[float, float]) -> tuple[np.ndarray, bool]:
    """(p, 2) rows and columns of a (q, m) block above a bound, and whether these are only what connects a crowd of them."""
    bound, sure = bounds
    rows = np.flatnonzero(largest > bound)
    if len(rows) == 0:
        return np.empty((0, 2), np.int64), False
    some = to_numpy(product[namespace(product).as_tensor(rows, device=product.device)]) if is_tensor(product) else product[rows]
    at, column = np.divmod(np.flatnonzero(some > bound), some.shape[1])
    pairs = np.stack([rows[at], column], axis=1)
    if len(pairs) <= MANY * sum(product.shape):
        return pairs, False
    return _connecting(pairs[some[at, column] > sure], *product.shape), True


def _connecting(pairs: np.ndarray, q: int, m: int) -> np.ndarray:
    """As few of (p, 2) pairs of rows and columns as connect what they all connect: a spanning forest."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    graph = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], q + pairs[:, 1])), shape=(q + m, q + m)).tocsr()
    _, part = connected_components(graph, directed=False)
    edges = []  # (e, 2) each
    for first in np.unique(part[pairs[:, 0]], return_index=True)[1]:
        order, before = breadth_first_order(graph, int(pairs[first, 0]), directed=False)
        edges.append(np.stack([before[order[1:]], order[1:]], axis=1))
    # Each edge joins a row and a column: rows have the smaller numbers.
    return np.sort(np.concatenate([np.empty((0, 2), np.int64), *edges]), axis=1) - [0, q]

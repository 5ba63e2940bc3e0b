"""For every sample its nearest samples of other classes, and the farthest or nearest of its own: exact, a tile at a time.

Samples are sorted by class, so that a tile of products holds pairs of one class, or of different ones; both only near the
diagonal. Products are symmetric: each tile serves its rows and its columns, and half of them are never made.

What is near enough to count is known before the search: the k-th best among a thousand samples is a bound that the k-th
best of all cannot fall below. A comparison with it leaves a few dozen candidates of each sample.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from hardsight.scores.search import SIDE, tiles
from hardsight.screen import Progress
from hardsight.threads import blocks, even_rows, num_workers, share

FIRST = 1024  # samples that give the first bound
SLACK = 1e-5  # a product in a tile of another shape may round otherwise
PENDING = 2  # candidates per row that wait to be taken in together
CROWD = 64  # candidates per row of one tile beyond which its k best are looked for instead


@dataclass(frozen=True)
class Classed:
    """Unit vectors sorted by class."""

    x: np.ndarray  # (n, d) float32
    code: np.ndarray  # (n,) 0, 0, ..., 1, 1, ...: which class
    start: np.ndarray  # (c + 1,) where each class begins; n at the end
    order: np.ndarray  # (n,) the row that each was

    @classmethod
    def sort(cls, unit: np.ndarray, labels: np.ndarray) -> Classed:
        """Sort (n, d) unit vectors by their (n,) labels; rows of a class keep their order."""
        order = np.argsort(labels, kind="stable")
        _, code, count = np.unique(labels[order], return_inverse=True, return_counts=True)
        return cls(np.ascontiguousarray(unit[order], np.float32), code, np.concatenate([[0], np.cumsum(count)]), order)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def sizes(self) -> np.ndarray:
        """(n,) samples in the class of each."""
        return np.diff(self.start)[self.code]


@dataclass(frozen=True)
class Window:
    """Bounds on the cosine of a negative: strictly below `upper`, and at least `lower`; (n,) each, in sorted order."""

    lower: np.ndarray
    upper: np.ndarray


class Own:
    """The farthest (or nearest) sample of each one's own class so far; among equals the first."""

    def __init__(self, n: int, *, farthest: bool = True) -> None:
        self.sign = 1 if farthest else -1
        self.cosine = np.full(n, np.inf, np.float32)  # times sign: the smallest counts
        self.at = np.full(n, -1)
        self.lock = threading.Lock()

    def take_in(self, rows: slice, cosine: np.ndarray, first: int) -> None:
        """(q, m) cosines of the rows to samples of their class, times sign; the first of these is number `first`."""
        column = cosine.argmin(1)
        value = cosine[np.arange(len(column)), column]
        best, at = self.cosine[rows], self.at[rows]
        with self.lock:
            better = (value < best) | ((value == best) & (column + first < at))
            better &= np.isfinite(value)  # alone in a tile with itself
            best[better], at[better] = value[better], column[better] + first


class Others:
    """The k nearest samples of other classes so far, and the bound that a further one has to reach."""

    def __init__(self, samples: Classed, k: int, window: Window | None = None) -> None:
        n = len(samples)
        self.k, self.window = k, window
        self.cosine = np.full((n, k), -np.inf, np.float32)
        self.at = np.full((n, k), -1)
        self.bound = np.full(n, -np.inf, np.float32) if window is None else window.lower.astype(np.float32)
        self.pending: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in range(0, n, SIDE)]
        self.locks = [threading.Lock() for _ in self.pending]
        self._first_bound(samples)

    @classmethod
    def found(cls, cosine: np.ndarray, at: np.ndarray) -> Others:
        """What another search found: (n, k) cosines, largest first, and numbers in sorted order, -1 for none."""
        others = cls.__new__(cls)
        others.k, others.window, others.cosine, others.at = cosine.shape[1], None, cosine, at
        return others

    def _first_bound(self, samples: Classed) -> None:
        """The k-th best of samples at even distances, who are of all classes."""
        some = even_rows(len(samples), FIRST)
        if len(some) < self.k:
            return

        def work(rows: slice) -> None:
            cosine = samples.x[rows] @ samples.x[some].T  # (q, m)
            cosine[samples.code[rows, None] == samples.code[some]] = -np.inf
            if self.window is not None:
                cosine[cosine >= self.window.upper[rows, None] - SLACK] = -np.inf
            least = np.partition(cosine, len(some) - self.k, axis=1)[:, len(some) - self.k]
            np.maximum(self.bound[rows], least - np.float32(SLACK), out=self.bound[rows])

        share(work, blocks(len(samples), SIDE))

    def take_in(self, first: int, cosine: np.ndarray, column: int, reached: np.ndarray) -> None:
        """Candidates of a (q, m) tile whose rows begin at `first` and whose columns begin at `column`; q <= SIDE."""
        bound = self.bound[first : first + len(cosine)]
        np.greater_equal(cosine, bound[:, None], out=reached)
        hits = np.flatnonzero(reached)
        if len(hits) > max(CROWD, 4 * self.k) * len(cosine):
            hits = _best_of_each_row(cosine, self.k)
        row, at = np.divmod(hits, cosine.shape[1])
        self._add(first, row, at + column, cosine.reshape(-1)[hits])

    def take_in_columns(self, first: int, cosine: np.ndarray, row: int, reached: np.ndarray) -> None:
        """The same for the columns of a tile, which begin at `first`, with its rows, which begin at `row`, as candidates."""
        bound = self.bound[first : first + cosine.shape[1]]
        np.greater_equal(cosine, bound, out=reached)
        hits = np.flatnonzero(reached)
        if len(hits) > max(CROWD, 4 * self.k) * cosine.shape[1]:
            return self.take_in(first, np.ascontiguousarray(cosine.T), row, reached.reshape(cosine.T.shape))
        at, column = np.divmod(hits, cosine.shape[1])
        order = np.argsort(column, kind="stable")
        self._add(first, column[order], at[order] + row, cosine.reshape(-1)[hits[order]])

    def _add(self, first: int, row: np.ndarray, at: np.ndarray, value: np.ndarray) -> None:
        """Let candidates wait, and take all of them in when there are many."""
        if len(row) == 0:
            return
        with self.locks[first // SIDE]:
            waiting = self.pending[first // SIDE]
            waiting.append((row, at, value))
            if sum(len(part[0]) for part in waiting) > PENDING * SIDE:
                self._settle(first)

    def _settle(self, first: int) -> None:
        waiting, self.pending[first // SIDE] = self.pending[first // SIDE], []
        if not waiting:
            return
        row, at, value = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        order = np.argsort(row, kind="stable")
        row, at, value = row[order], at[order], value[order]
        some, count = np.unique(row, return_counts=True)
        line = np.repeat(np.arange(len(some)), count)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)  # 0, 1, ... within each row
        width = self.k + int(count.max())
        cosine, place = np.full((len(some), width), -np.inf, np.float32), np.full((len(some), width), -1)
        cosine[:, : self.k], place[:, : self.k] = self.cosine[first + some], self.at[first + some]
        cosine[line, self.k + rank], place[line, self.k + rank] = value, at
        chosen = _nearest_first(cosine, place, self.k)
        self.cosine[first + some] = np.take_along_axis(cosine, chosen, 1)
        self.at[first + some] = np.take_along_axis(place, chosen, 1)
        self.bound[first + some] = np.maximum(self.bound[first + some], self.cosine[first + some, -1])

    def finish(self) -> None:
        """Take in all that waits."""
        share(self._settle, range(0, len(self.at), SIDE))


def _nearest_first(cosine: np.ndarray, at: np.ndarray, k: int) -> np.ndarray:
    """(q, k) columns of the largest of (q, m) cosines, largest first; among equals the one of the smaller number `at`."""
    order = np.argsort(-cosine, axis=1, kind="stable")
    ranked = np.take_along_axis(cosine, order, 1)
    tied = np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > -np.inf)).any(1))
    if len(tied):
        order[tied] = np.lexsort((at[tied], -cosine[tied]), axis=1)
    return order[:, :k]


def _best_of_each_row(cosine: np.ndarray, k: int) -> np.ndarray:
    """Flat indices of each row's k largest, the first among equals; not of those that are -inf."""
    least = np.partition(cosine, max(0, cosine.shape[1] - k), axis=1)[:, max(0, cosine.shape[1] - k), None]
    equal = cosine == least
    equal &= np.cumsum(equal, axis=1, dtype=np.int32) <= k
    return np.flatnonzero(((cosine > least) | equal) & (cosine > -np.inf))


def search_classes(samples: Classed, own: Own | None, others: Others | None, progress: Progress | None = None) -> None:
    """Let every pair of samples into `own` and `others`, as far as they concern it. Threads share the tiles.

    With a window on the negatives a tile serves its rows alone, since what is left of it depends on them.
    """
    n = len(samples)
    both_ways = others is None or others.window is None
    wanted = [tile for tile in tiles(slice(0, n), slice(0, n), SIDE, both_ways) if _wanted(samples, *tile, own, others)]
    wanted = [wanted[at] for at in np.random.default_rng(0).permutation(len(wanted))]  # near classes early and late alike
    memory = [(np.empty(SIDE * SIDE, np.float32), np.empty(SIDE * SIDE, bool)) for _ in range(num_workers(np))]
    done: list[None] = []

    def work(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        i, j = rows.start, columns.start
        shape = rows.stop - i, columns.stop - j
        buffers = memory.pop()  # popping is safe in threads
        cosine, reached = (buffer[: shape[0] * shape[1]].reshape(shape) for buffer in buffers)
        np.matmul(samples.x[rows], samples.x[columns].T, out=cosine)
        for row, column in _one_class(samples, rows, columns):
            part = cosine[row.start - i : row.stop - i, column.start - j : column.stop - j]
            if own is not None:
                _own_class(part, row, column, own)
            part[...] = -np.inf
        if others is not None:
            if others.window is not None:
                cosine[cosine >= others.window.upper[rows, None]] = -np.inf
            others.take_in(i, cosine, j, reached)
            if both_ways and i < j:
                others.take_in_columns(j, cosine, i, reached)
        memory.append(buffers)
        done.append(None)
        if progress is not None:
            progress(len(done), len(wanted))

    share(work, wanted)
    if others is not None:
        others.finish()


def _wanted(samples: Classed, rows: slice, columns: slice, own: Own | None, others: Others | None) -> bool:
    """Whether a tile has pairs that anyone asked for."""
    first, last = samples.code[[rows.start, columns.start]], samples.code[[rows.stop - 1, columns.stop - 1]]
    mixed = first.max() <= last.min()  # some class is in its rows and its columns
    alone = first.min() == last.max()
    return (own is not None and bool(mixed)) or (others is not None and not alone)


def _one_class(samples: Classed, rows: slice, columns: slice) -> list[tuple[slice, slice]]:
    """The parts of a tile whose pairs are of one class: its rows and its columns, one part a class."""
    first = max(samples.code[rows.start], samples.code[columns.start])
    last = min(samples.code[rows.stop - 1], samples.code[columns.stop - 1])
    parts = []
    for start, stop in zip(samples.start[first : last + 1].tolist(), samples.start[first + 1 : last + 2].tolist(), strict=True):
        row, column = (slice(max(start, side.start), min(stop, side.stop)) for side in (rows, columns))
        parts.append((row, column))
    return parts


def _own_class(part: np.ndarray, row: slice, column: slice, own: Own) -> None:
    """Let a (q, m) part of one class into `own`, from its rows and, off the diagonal, from its columns."""
    cosine = part if own.sign == 1 else -part
    if row == column:
        np.fill_diagonal(cosine, np.inf)  # no sample is its own positive
    own.take_in(row, cosine, column.start)
    if row != column:
        own.take_in(column, cosine.T, row.start)

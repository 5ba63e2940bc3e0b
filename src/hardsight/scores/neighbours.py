"""What the neighbours say: exact nearest neighbours by cosine, a block of products at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.scores.registry import FittedTo, Inputs, dataset_score
from hardsight.scores.sweep import Sweep
from hardsight.threads import share

QUERIES, CANDIDATES = 512, 8192  # one block of similarities: 16 MB for each thread
FIRST = 1024  # candidates that are sorted in full; afterwards only those nearer than the k-th so far are looked at


class Neighbours:
    """Unit features of all labeled samples, kept in memory as float32: n x d x 4 bytes."""

    terms: frozenset[str] = frozenset()
    labels = True

    def __init__(self, k: int = 10) -> None:
        self.k = check_count(k, "k", least=1)
        self.parts: list[np.ndarray] = []
        self.classes: list[np.ndarray] = []
        self.rows: list[np.ndarray] = []
        self.seen = 0  # rows passed by see, and then again by of
        self.asked = 0

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions and labels of a batch."""
        known = np.flatnonzero(_directed(rows))
        self.parts.append(_unit(x, known, rows.norm))
        self.classes.append(rows.labels[known])
        self.rows.append(self.seen + known)
        self.seen += len(rows.labels)

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) share of the k nearest that have the given class."""
        result = np.full(len(rows.labels), np.nan)
        scored = np.flatnonzero(_directed(rows))

        def ask(part: np.ndarray) -> None:
            result[part] = self._agreement(_unit(x, part, rows.norm), rows.labels[part], self.asked + part)

        parts = [scored[start : start + QUERIES] for start in range(0, len(scored), QUERIES)]
        share(ask, parts)
        self.asked += len(rows.labels)
        return result

    def _agreement(self, query: np.ndarray, labels: np.ndarray, own_row: np.ndarray) -> np.ndarray:
        """Share of each query's k nearest other samples that carry its label: (q, d) -> (q,)."""
        k = min(self.k, self.seen)
        best = np.full((len(query), k), -np.inf, dtype=np.float32)  # similarities so far, largest first
        label_of = np.full((len(query), k), -1)
        for unit, candidate_labels, row in self._candidates():
            similarity = query @ unit.T  # (q, m)
            own = np.searchsorted(row, own_row)
            here = np.flatnonzero(row[np.minimum(own, len(row) - 1)] == own_row)
            similarity[here, own[here]] = -np.inf  # nobody is their own neighbour
            _take_in(best, label_of, similarity, candidate_labels)
        is_neighbour = np.isfinite(best)
        with np.errstate(invalid="ignore"):
            return ((label_of == labels[:, None]) & is_neighbour).sum(1) / is_neighbour.sum(1)

    def _candidates(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Unit features, labels and rows, in order: small blocks first, while many are still near enough to count."""
        size = FIRST
        for unit, candidate_labels, row in zip(self.parts, self.classes, self.rows, strict=True):
            start = 0
            while start < len(unit):
                cut = slice(start, start + size)
                yield unit[cut], candidate_labels[cut], row[cut]
                start, size = start + size, min(2 * size, CANDIDATES)


def _take_in(best: np.ndarray, label_of: np.ndarray, similarity: np.ndarray, candidate_labels: np.ndarray) -> None:
    """Let a block of (q, m) similarities into the (q, k) best so far; among equals the earlier one stays ahead."""
    k = best.shape[1]
    if not np.isfinite(best[:, -1]).any():  # the first block: all of it counts
        both = np.concatenate([best, similarity], axis=1)
        order = _largest(both, k)
        labels = np.where(
            order < k, np.take_along_axis(label_of, np.minimum(order, k - 1), 1), candidate_labels[np.maximum(order - k, 0)]
        )
        best[...], label_of[...] = np.take_along_axis(both, order, 1), labels
        return
    at, column = np.divmod(np.flatnonzero(similarity > best[:, -1:]), similarity.shape[1])
    if len(at) == 0:
        return
    some, count = np.unique(at, return_counts=True)  # queries with anything new, and how much
    line = np.repeat(np.arange(len(some)), count)
    rank = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)  # 0, 1, ... within each query
    nearer = np.full((len(some), count.max()), -np.inf, dtype=similarity.dtype)
    its_label = np.full(nearer.shape, -1)
    nearer[line, rank], its_label[line, rank] = similarity[at, column], candidate_labels[column]
    both, labels = np.concatenate([best[some], nearer], axis=1), np.concatenate([label_of[some], its_label], axis=1)
    order = _largest(both, k)
    best[some], label_of[some] = np.take_along_axis(both, order, 1), np.take_along_axis(labels, order, 1)


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Columns of each row's k largest values, largest first, the earlier column among equals: (q, m) -> (q, k)."""
    least = np.partition(values, -k, axis=1)[:, -k, None]  # the k-th largest
    width = int((values >= least).sum(1).max())  # k, or more where it is tied
    some = np.sort(np.argpartition(-values, width - 1, axis=1)[:, :width], axis=1)
    order = np.argsort(-np.take_along_axis(values, some, 1), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(some, order, 1)


def _directed(rows: Sweep) -> np.ndarray:
    """(b,) whether a row has a label and a direction from zero; a Gaussian head may score one that is all zeros."""
    return rows.labeled & rows.ok & (rows.norm > 0)


def _unit(x: Any, rows: np.ndarray, norm: np.ndarray) -> np.ndarray:
    chosen = to_numpy(x[rows]).astype(np.float64)
    return (chosen / norm[rows, None]).astype(np.float32)


@dataset_score(
    lambda head: Neighbours(),
    hard="low",
    range="[0, 1]",
    formula="share of the k nearest samples by cosine that carry the same label, k = 10",
    source="k nearest neighbours",
)
def knn_agreement(features: Any, labels: Any, *, k: int = 10) -> FittedTo:
    """Share of a sample's k nearest neighbours (cosine, itself left out) that carry its label."""
    return Inputs(features, labels=labels), Neighbours(k)

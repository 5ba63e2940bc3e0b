"""What the neighbours say: exact nearest neighbours by cosine, a block of products at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scores.registry import AsDataset, dataset_score
from hardsight.scores.sweep import Sweep

QUERIES, CANDIDATES = 1024, 8192  # one block of similarities: 32 MB


class Neighbours:
    """Unit features of all labeled samples, kept in memory as float32: n x d x 4 bytes."""

    passes: frozenset[str] = frozenset()

    def __init__(self, k: int = 10) -> None:
        if k < 1:
            raise InputError(f"k must be at least 1, got {k}.")
        self.k = k
        self.parts: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []
        self.rows: list[np.ndarray] = []
        self.seen = 0  # rows passed by see, and then again by of
        self.asked = 0

    def see(self, x: Any, rows: Sweep) -> None:
        known = np.flatnonzero(rows.labeled & rows.ok)
        self.parts.append(_unit(x, known, rows.norm))
        self.labels.append(rows.labels[known])
        self.rows.append(self.seen + known)
        self.seen += len(rows.labels)

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        result = np.full(len(rows.labels), np.nan)
        scored = np.flatnonzero(rows.labeled & rows.ok)
        for part in np.array_split(scored, max(1, -(-len(scored) // QUERIES))):
            if len(part):
                result[part] = self._agreement(_unit(x, part, rows.norm), rows.labels[part], self.asked + part)
        self.asked += len(rows.labels)
        return result

    def _agreement(self, query: np.ndarray, labels: np.ndarray, own_row: np.ndarray) -> np.ndarray:
        """Share of each query's k nearest other samples that carry its label: (q, d) -> (q,)."""
        best = np.full((len(query), 0), -np.inf, dtype=np.float32)  # similarities so far, (q, up to k)
        label_of = np.full((len(query), 0), -1)
        for unit, given, row in zip(self.parts, self.labels, self.rows, strict=True):
            for start in range(0, len(unit), CANDIDATES):
                cut = slice(start, start + CANDIDATES)
                similarity = query @ unit[cut].T  # (q, candidates)
                similarity[own_row[:, None] == row[cut]] = -np.inf  # nobody is their own neighbour
                best = np.concatenate([best, similarity], axis=1)
                label_of = np.concatenate([label_of, np.broadcast_to(given[cut], similarity.shape)], axis=1)
                order = _largest(best, self.k)
                best, label_of = np.take_along_axis(best, order, 1), np.take_along_axis(label_of, order, 1)
        found = np.isfinite(best)
        with np.errstate(invalid="ignore"):
            return ((label_of == labels[:, None]) & found).sum(1) / found.sum(1)


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Columns of each row's k largest values, largest first, the earlier column among equals: (q, m) -> (q, k)."""
    if values.shape[1] <= k:
        return np.argsort(-values, axis=1, kind="stable")
    least = np.partition(values, -k, axis=1)[:, -k, None]  # the k-th largest
    width = int((values >= least).sum(1).max())  # k, or more where it is tied
    some = np.sort(np.argpartition(-values, width - 1, axis=1)[:, :width], axis=1)
    order = np.argsort(-np.take_along_axis(values, some, 1), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(some, order, 1)


def _unit(x: Any, rows: np.ndarray, norm: np.ndarray) -> np.ndarray:
    chosen = to_numpy(x[rows]).astype(np.float64)
    return (chosen / norm[rows, None]).astype(np.float32)


@dataset_score(
    Neighbours,
    hard="low",
    range="[0, 1]",
    formula="share of the k nearest samples by cosine that carry the same label, k = 10",
    source="k nearest neighbours",
)
def knn_agreement(features: Any, labels: Any, *, k: int = 10) -> AsDataset:
    """Share of a sample's k nearest neighbours (cosine, itself left out) that carry its label."""
    return AsDataset(features, None, labels, None, Neighbours(k))

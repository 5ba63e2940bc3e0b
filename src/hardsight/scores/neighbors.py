"""What the neighbors say: the labels of the nearest samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.scores.registry import FittedTo, ScoreInputs, dataset_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.scores.sweep import Sweep
from hardsight.threads import share


class Neighbors:
    """Unit features of all labeled samples, kept in memory as float32: n x d x 4 bytes."""

    terms: frozenset[str] = frozenset()
    labels = True

    def __init__(self, k: int = 10) -> None:
        self.k = check_count(k, "k", least=1)
        self.candidates = Candidates()
        self.classes = np.empty(0, np.int64)  # (n,) of the rows seen so far
        self.asked = 0  # rows passed by of

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions and labels of a batch."""
        known = np.flatnonzero(_directed(rows))
        self.candidates.add(unit_rows(x, known, rows.norm), len(self.classes) + known)
        self.classes = np.append(self.classes, rows.labels)

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) share of the k nearest that have the given class."""
        result = np.full(len(rows.labels), np.nan)
        scored = np.flatnonzero(_directed(rows))

        def ask(part: np.ndarray) -> None:
            _, nearest = self.candidates.nearest(unit_rows(x, part, rows.norm), self.k, self.asked + part)  # (q, k)
            there = nearest >= 0
            same = (self.classes[nearest] == rows.labels[part, None]) & there
            with np.errstate(invalid="ignore"):
                result[part] = same.sum(1) / there.sum(1)

        share(ask, [scored[start : start + QUERIES] for start in range(0, len(scored), QUERIES)])
        self.asked += len(rows.labels)
        return result


def _directed(rows: Sweep) -> np.ndarray:
    """(b,) whether a row has a label and a direction from zero; a Gaussian head may score one that is all zeros."""
    return rows.labeled & rows.ok & (rows.norm > 0)


def unit_rows(x: Any, rows: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Some rows of (n, d) features at unit length, as float32; norm (n,) are their lengths."""
    chosen = to_numpy(x[rows]).astype(np.float64)
    return (chosen / norm[rows, None]).astype(np.float32)


@dataset_score(
    lambda head, k: Neighbors(k),
    hard="low",
    range="[0, 1]",
    formula="share of the k nearest samples by cosine that carry the same label, k = 10",
    source="k nearest neighbors",
)
def knn_agreement(features: Any, labels: Any, *, k: int = 10) -> FittedTo:
    """Share of a sample's k nearest neighbors (cosine, itself left out) that carry its label."""
    return ScoreInputs(features, labels=labels), Neighbors(k)

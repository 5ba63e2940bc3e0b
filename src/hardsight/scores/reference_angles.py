"""Angles to a reference: to its samples of the own and of other classes, and to the class vectors, tempered by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.head import Head, as_head
from hardsight.scores.class_gaussians import LabeledReference, check_every_class, own_entries, own_loss, spread
from hardsight.scores.neighbors import unit_rows
from hardsight.scores.registry import FittedToReference, ScoreInputs, reference_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES
from hardsight.threads import blocks, share


class NeighborRatio:
    """Unit features of the reference by class, in memory as float32: n x d x 4 bytes."""

    terms: frozenset[str] = frozenset()
    labels = True
    every_class = True

    def __init__(self, k: int) -> None:
        self.k = check_count(k, "k", least=1)
        self.classes: dict[int, Candidates] = {}

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions of a batch under their labels."""
        known = np.flatnonzero(rows.labeled & rows.ok & (rows.norm > 0))
        for label in np.unique(rows.labels[known]).tolist():
            members = known[rows.labels[known] == label]
            own = self.classes.setdefault(label, Candidates())
            own.add(unit_rows(x, members, rows.norm), own.size + np.arange(len(members)))

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) angle to the own class over that plus the angle to the nearest other one."""
        result = np.full(len(rows.labels), np.nan)
        names = np.array(sorted(self.classes))
        check_every_class(names, int(names.max(initial=0)) + 1)
        scored = np.flatnonzero(rows.labeled & rows.ok & (rows.norm > 0) & (rows.labels < len(names)))

        def ask(part: slice) -> None:
            at = scored[part]
            query = unit_rows(x, at, rows.norm)
            angles = np.stack([self._angle(query, label) for label in names.tolist()], axis=1)  # (q, c)
            own = own_entries(angles, rows.labels[at])
            angles[np.arange(len(at)), rows.labels[at]] = np.inf
            result[at] = own / (own + angles.min(1))

        share(ask, blocks(len(scored), QUERIES))
        return result

    def _angle(self, query: np.ndarray, label: int) -> np.ndarray:
        """(q,) mean angle to the k nearest of a class."""
        cosine, _ = self.classes[label].nearest(query, self.k)  # (q, k), or as many as there are
        return np.asarray(np.arccos(np.clip(cosine, -1.0, 1.0)).mean(1, dtype=np.float64))


@reference_score(
    lambda head, k: NeighborRatio(k),
    hard="high",
    range="[0, 1]",
    formula="a_y / (a_y + min_{j != y} a_j); a_j the mean angle from x to its k nearest of class j in the reference, k = 10",
    source="Jiang et al., NeurIPS 2018 (trust score), with angles",
    labels=True,
)
def neighbor_ratio(features: Any, labels: Any, reference: Any, reference_labels: Any, *, k: int = 10) -> FittedToReference:
    """Angle to the nearest samples of the own class in the reference, against those of the nearest other class.

    1/2 is halfway between two classes, above it another class is nearer. A class of fewer than k counts with all it has.

    Example:
        >>> neighbor_ratio([[1.0, 1.0], [1.0, 0.0]], [0, 0], [[1.0, 0.0], [0.0, 1.0]], [0, 1], k=1).round(4)
        array([0.5, 0. ])
    """
    return ScoreInputs(features, labels=labels), NeighborRatio(k), ScoreInputs(reference, labels=reference_labels)


class AngularConfidence(LabeledReference):
    """How much the reference's cosines to their own class vectors vary."""

    terms = frozenset({ANGLES})
    every_class = False
    temperature: float | None = None

    def __init__(self, head: Head | None) -> None:
        super().__init__()
        self.head = head

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) probability of the given class."""
        assert self.head is not None
        result, known = np.full(len(rows.labels), np.nan), np.flatnonzero(rows.labeled & rows.ok)
        if not len(known):
            return result
        if self.temperature is None:
            some = self.spread_rows()
            cosine = np.cos(to_numpy(self.head.angles(self.joined()[some])))  # (r, c)
            self.temperature = spread(own_entries(cosine, self.classes[some]))
        cosine = np.cos(self.head.angles(to_numpy(x[known]))).astype(np.float64)
        result[known] = np.exp(-own_loss(cosine, rows.labels[known], self.temperature))
        return result


@reference_score(
    AngularConfidence,
    hard="low",
    range="[0, 1]",
    formula="softmax(cos angle(x, w_k) / T)_y, T the deviation of cos angle(x', w_y') in the reference",
    source="NormFace (Wang et al., ACM MM 2017), with a temperature from the reference",
    labels=True,
)
def angular_confidence(
    features: Any, head: Any, labels: Any, reference: Any, reference_labels: Any, *, bias: Any = None
) -> FittedToReference:
    """Probability of the given class by angles alone, tempered by how much they vary in the reference."""
    own = as_head(head, bias)
    return ScoreInputs(features, own, labels), AngularConfidence(own), ScoreInputs(reference, own, reference_labels)

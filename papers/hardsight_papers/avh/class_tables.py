"""Scores of an image from its angle and its logit to every class: all classes, a few drawn ones, or classes joined.

The angle to a joined class is the smallest angle to a member; its probability is the sum over the members, so its logit is the
logarithm of the sum of their exponentials.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from hardsight import Snapshot


@dataclass(frozen=True)
class ClassTables:
    """What a network says of every image and class; an angle of NaN, and a logit of -inf, is a class that does not take part."""

    angles: np.ndarray  # (n, c)
    logits: np.ndarray  # (n, c)
    labels: np.ndarray  # (n,)

    @classmethod
    def of(cls, network: Snapshot) -> ClassTables:
        """From features and head."""
        features, head = network.features, network.head
        assert features is not None and head is not None
        angles, logits = np.asarray(head.angles(features), np.float64), np.asarray(head.logits(features), np.float64)
        return cls(angles, logits, network.labels)

    @property
    def num_classes(self) -> int:
        """c."""
        return self.angles.shape[1]

    def drawn(self, count: int, seed: int) -> ClassTables:
        """The own class of each image in column 0, and count - 1 drawn classes, the same for all images."""
        others = np.random.default_rng(seed).permutation(self.num_classes)[: count - 1]
        rows, same = np.arange(len(self.labels)), others == self.labels[:, None]  # (n, count - 1)
        angles = np.column_stack([self.angles[rows, self.labels], np.where(same, np.nan, self.angles[:, others])])
        logits = np.column_stack([self.logits[rows, self.labels], np.where(same, -np.inf, self.logits[:, others])])
        return ClassTables(angles, logits, np.zeros(len(rows), np.int64))

    def joined(self, of_class: np.ndarray) -> ClassTables:
        """With the coarser class of each class."""
        members = [np.flatnonzero(of_class == k) for k in range(of_class.max() + 1)]
        angles = np.stack([self.angles[:, which].min(1) for which in members], axis=1)
        logits = np.stack([logsumexp(self.logits[:, which], axis=1) for which in members], axis=1)
        return ClassTables(angles, logits, of_class[self.labels])

    def scores(self) -> dict[str, np.ndarray]:
        """(n,) each, high is hard: four without the nearest competitor, four with it; the loss is confidence without ties."""
        angle, rival_angles = _own_and_others(self.angles, self.labels, np.nan)
        logit, rival_logits = _own_and_others(self.logits, self.labels, -np.inf)
        total = logsumexp(self.logits, axis=1)
        nearest, rival = np.nanmin(rival_angles, axis=1), rival_logits.max(1)
        return {
            "avh": angle / (angle + np.nansum(rival_angles, axis=1)),
            "avh_nearest": angle / (angle + nearest),
            "own_angle": angle,
            "angular_gap": angle - nearest,
            "confidence": -np.exp(logit - total).astype(np.float32),  # as `hardsight.score` gives it: near 1 it has ties
            "loss": total - logit,
            "probability_margin": np.exp(rival - total) - np.exp(logit - total),
            "own_logit": -logit,
            "logit_margin": rival - logit,
        }


def _own_and_others(table: np.ndarray, labels: np.ndarray, nothing: float) -> tuple[np.ndarray, np.ndarray]:
    """(n,) of the own class, and (n, c) of the others, with nothing in place of the own."""
    rows, others = np.arange(len(labels)), table.copy()
    others[rows, labels] = nothing
    return table[rows, labels], others


def margins_without_norms(network: Snapshot) -> dict[str, np.ndarray]:
    """From the logit margin to the angular gap, one part of the logit removed at a time; high is hard."""
    head, features = network.head, np.asarray(network.features, np.float64)
    assert head is not None
    weight = np.asarray(head.weight, np.float64)
    lengths, norms = np.linalg.norm(weight, axis=1), np.linalg.norm(features, axis=1, keepdims=True)
    scores = ClassTables.of(network).scores()
    without_bias = features @ weight.T
    parts = {
        "without the bias": without_bias,
        "and unit class vectors": without_bias / lengths,
        "and unit features": without_bias / lengths / norms,
    }
    margins = {name: _margin(logits, network.labels) for name, logits in parts.items()}
    return {"logit margin": scores["logit_margin"], **margins, "angular gap": scores["angular_gap"]}


def _margin(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    own, others = _own_and_others(logits, labels, -np.inf)
    return others.max(1) - own

"""One number for what people find hard: angles, Gaussians and logits, each on the scale of a reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.head import Head, as_head
from hardsight.scores.class_gaussians import (
    LabeledReference,
    ReferenceGaussians,
    check_every_class,
    own_entries,
    own_loss,
    spread,
)
from hardsight.scores.registry import FittedToReference, ScoreInputs, reference_score
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES, NEAREST


class HumanHardness(LabeledReference):
    """Class Gaussians, both temperatures, and the mean and deviation of each part over the reference."""

    terms = frozenset({ANGLES, NEAREST})

    def __init__(self, head: Head | None) -> None:
        super().__init__()
        self.head = head
        self.gaussians: ReferenceGaussians | None = None

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) mean of the standardized parts."""
        result, known = np.full(len(rows.labels), np.nan), np.flatnonzero(rows.labeled & rows.ok)
        if not len(known):
            return result
        if self.gaussians is None:
            self._fit()
        near = rows.own_angle[known] / (rows.own_angle[known] + rows.nearest_angle[known])
        parts = self._parts(to_numpy(x[known]), rows.labels[known], near)
        result[known] = ((parts - self.mean[:, None]) / self.scale[:, None]).mean(0)
        return result

    def _fit(self) -> None:
        assert self.head is not None
        check_every_class(self.classes, self.head.num_classes)
        features, some = self.joined(), self.spread_rows()
        x, labels = features[some], self.classes[some]  # (r, d), (r,)
        self.gaussians = ReferenceGaussians(features, self.classes)
        self.of_density = spread(own_entries(self.gaussians.log_density(x), labels))
        self.of_logits = spread(own_entries(to_numpy(self.head.logits(x)), labels))
        angles = to_numpy(self.head.angles(x)).astype(np.float64)  # (r, c)
        own = own_entries(angles, labels)
        angles[np.arange(len(labels)), labels] = np.inf
        parts = self._parts(x, labels, own / (own + angles.min(1)))
        self.mean, deviation = parts.mean(1), parts.std(1)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        self.parts = []  # not needed any more

    def _parts(self, x: np.ndarray, labels: np.ndarray, near: np.ndarray) -> np.ndarray:
        """(3, n) nearest-class AVH; the probability of another class by Gaussians; the loss of tempered logits."""
        assert self.gaussians is not None and self.head is not None
        miss = -np.expm1(-own_loss(self.gaussians.log_density(x), labels, self.of_density))
        return np.stack([near, miss, own_loss(to_numpy(self.head.logits(x)).astype(np.float64), labels, self.of_logits)])


@reference_score(
    HumanHardness,
    hard="high",
    range="(-inf, inf)",
    formula="mean of avh_nearest, 1 - qda_confidence and -log softmax(z / T)_y, each less its mean and over its deviation in the "
    "reference; T the deviation of the reference's own logits",
    source="hardsight: chosen on half of CIFAR-10H, checked on the other half",
    labels=True,
)
def human_hardness(
    features: Any, head: Any, labels: Any, reference: Any, reference_labels: Any, *, bias: Any = None
) -> FittedToReference:
    """What people are likely to find hard, without asking them: 0 is a typical sample of the reference, high is hard.

    Three views that err differently: the angle to the own class against the nearest other one, the class Gaussians of the
    reference, and logits at a temperature at which a sure model is less sure.
    """
    own = as_head(head, bias)
    return ScoreInputs(features, own, labels), HumanHardness(own), ScoreInputs(reference, own, reference_labels)

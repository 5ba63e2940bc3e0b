"""How near a sample is to the typical one of its class."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.geometry import SAME_DIRECTION, safe_row_norms
from hardsight.scores.registry import FittedTo, ScoreInputs, dataset_score
from hardsight.scores.sweep import Sweep

ROWS = 4096  # whose angles are taken at a time


class Centroids:
    """Means of the features of each given class, from sums that are gathered batch by batch."""

    terms: frozenset[str] = frozenset()
    labels = True

    def __init__(self) -> None:
        self.totals = np.zeros((0, 0))  # (classes seen so far, d): only their directions matter

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the sums of its given classes."""
        more = max(0, int(rows.labels.max(initial=-1)) + 1 - len(self.totals))
        self.totals = np.concatenate([self.totals.reshape(-1, x.shape[1]), np.zeros((more, x.shape[1]))])
        known = np.flatnonzero(rows.labeled & rows.ok)
        for part in np.array_split(known, max(1, len(known) // ROWS)):
            np.add.at(self.totals, rows.labels[part], to_numpy(x[part]).astype(np.float64))

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) angle to the mean of the given class; NaN where that mean is zero."""
        result = np.full(len(rows.labels), np.nan)
        length = safe_row_norms(self.totals, np)  # (c,)
        scored = np.flatnonzero(rows.labeled & rows.ok & (rows.norm > 0))
        scored = scored[length[rows.labels[scored]] > 0]
        for part in np.array_split(scored, max(1, len(scored) // ROWS)):
            own = rows.labels[part]
            x64 = to_numpy(x[part]).astype(np.float64)
            u = x64 / safe_row_norms(x64, np)[:, None]  # (b, d)
            w = self.totals[own] / length[own, None]
            angle = 2 * np.arctan2(np.linalg.norm(u - w, axis=1), np.linalg.norm(u + w, axis=1))  # exact near 0, too (Kahan)
            result[part] = np.where(angle < SAME_DIRECTION, 0.0, angle)
        return result


@dataset_score(
    lambda head: Centroids(),
    hard="high",
    range="[0, pi]",
    formula="angle(x, mean of x' of the same class)",
    source="Sorscher et al., NeurIPS 2022 (supervised prototypes)",
)
def prototypicality(features: Any, labels: Any) -> FittedTo:
    """Angle in radians to the mean feature of the given class: 0 is its prototype, large is unlike the others of its name.

    A class of one sample is its own prototype.

    Example:
        >>> prototypicality([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]], [0, 0, 0]).round(4)
        array([0.7854, 0.7854, 0.    ])
    """
    return ScoreInputs(features, labels=labels), Centroids()

"""A sample among all others: its class's prototype, and row scores on the scale of the dataset, as the AVH paper prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.geometry import SAME_DIRECTION, safe_row_norms
from hardsight.scores.registry import SCORES, Fitted, FittedTo, GivenArrays, dataset_score, row_values
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES

ROWS = 4096  # whose angles are taken at a time


class Centroids(Fitted):
    """Means of the features of each given class, from sums that are gathered batch by batch."""

    fits_labels = True

    def __init__(self) -> None:
        self.totals = np.zeros((0, 0))  # (classes seen so far, d): only their directions matter

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the sums of its given classes."""
        more = max(0, int(rows.labels.max(initial=-1)) + 1 - len(self.totals))
        self.totals = np.concatenate([self.totals.reshape(-1, x.shape[1]), np.zeros((more, x.shape[1]))])
        known = np.flatnonzero(rows.labeled & rows.ok)
        for part in np.array_split(known, max(1, len(known) // ROWS)):
            np.add.at(self.totals, rows.labels[part], to_numpy(x[part]).astype(np.float64))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
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
    return GivenArrays(features, labels=labels), Centroids()


class AvhScaled(Fitted):
    """AVH mapped linearly so that the dataset's smallest is 0 and its largest 1."""

    terms, fits_labels = frozenset({ANGLES}), True

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def see(self, x: Any, rows: Sweep) -> None:
        """Widen the range of AVH by a batch."""
        values = row_values(SCORES["avh"], rows)
        self.low = np.fmin(self.low, np.fmin.reduce(values, initial=np.inf))
        self.high = np.fmax(self.high, np.fmax.reduce(values, initial=-np.inf))

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) AVH of a batch within that range."""
        return _between(row_values(SCORES["avh"], rows), self.low, self.high)


class NormInClass(Fitted):
    """Norm mapped linearly so that the smallest of each given class is 0 and its largest 1."""

    fits_labels = True

    def __init__(self) -> None:
        self.low, self.high = np.empty(0), np.empty(0)  # (classes seen so far,)

    def see(self, x: Any, rows: Sweep) -> None:
        """Widen each class's range of norms by a batch."""
        known = rows.labeled & np.isfinite(rows.norm)
        classes = int(rows.labels.max(initial=-1)) + 1
        grow = max(0, classes - len(self.low))
        self.low = np.concatenate([self.low, np.full(grow, np.inf)])
        self.high = np.concatenate([self.high, np.full(grow, -np.inf)])
        np.minimum.at(self.low, rows.labels[known], rows.norm[known])
        np.maximum.at(self.high, rows.labels[known], rows.norm[known])

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) norm of a batch within the range of its class."""
        own = np.maximum(rows.labels, 0)
        if len(self.low) == 0:
            return np.full(len(own), np.nan)
        return np.where(rows.labeled, _between(rows.norm, self.low[own], self.high[own]), np.nan)


def _between(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """(value - low) / (high - low); 0 where all values are the same."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = (values - low) / (np.asarray(high) - low)
    return np.where(np.isfinite(values) & (np.asarray(high) == low), 0.0, scaled)


@dataset_score(
    lambda head: AvhScaled(),
    hard="high",
    range="[0, 1]",
    formula="(avh - min avh) / (max avh - min avh)",
    source="Chen et al., ICML 2020, Table 1",
)
def avh_scaled(features: Any, head: Any, labels: Any, *, bias: Any = None) -> FittedTo:
    """AVH scaled linearly to [0, 1] over the dataset, as the paper's tables show it; ranks do not change."""
    return GivenArrays(features, head, labels, bias), AvhScaled()


@dataset_score(
    lambda head: NormInClass(),
    hard="low",
    range="[0, 1]",
    formula="(|x| - min |x'|) / (max |x'| - min |x'|) over x' of the same class",
    source="Chen et al., ICML 2020, Table 1",
)
def norm_in_class(features: Any, labels: Any) -> FittedTo:
    """Norm scaled to [0, 1] within the given class: the norm the paper correlates with people's answers."""
    return GivenArrays(features, labels=labels), NormInClass()

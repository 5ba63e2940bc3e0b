"""Row scores put on the scale of the whole dataset, as the AVH paper's tables print them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.scores.registry import FittedTo, ScoreInputs, dataset_score
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import ANGLES


class AvhScaled:
    """AVH mapped linearly so that the dataset's smallest is 0 and its largest 1."""

    terms, labels = frozenset({ANGLES}), True

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def see(self, x: Any, rows: Sweep) -> None:
        """Widen the range of AVH by a batch."""
        values = self._avh(rows)
        self.low, self.high = (
            np.fmin(self.low, np.fmin.reduce(values, initial=np.inf)),
            np.fmax(self.high, np.fmax.reduce(values, initial=-np.inf)),
        )

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) AVH of a batch within that range."""
        return _between(self._avh(rows), self.low, self.high)

    @staticmethod
    def _avh(rows: Sweep) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(rows.labeled, rows.own_angle / rows.angle_sum, np.nan)


class NormInClass:
    """Norm mapped linearly so that the smallest of each given class is 0 and its largest 1."""

    terms: frozenset[str] = frozenset()
    labels = True

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

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
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
    return ScoreInputs(features, head, labels, bias), AvhScaled()


@dataset_score(
    lambda head: NormInClass(),
    hard="low",
    range="[0, 1]",
    formula="(|x| - min |x'|) / (max |x'| - min |x'|) over x' of the same class",
    source="Chen et al., ICML 2020, Table 1",
)
def norm_in_class(features: Any, labels: Any) -> FittedTo:
    """Norm scaled to [0, 1] within the given class: the norm the paper correlates with people's answers."""
    return ScoreInputs(features, labels=labels), NormInClass()

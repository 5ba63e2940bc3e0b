"""Whether a model that says 80 % is right in 80 % of cases: reliability, ECE, and temperature scaling.

Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from hardsight.checks import as_matrix, to_numpy
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.pandas_index import align, counted_by, in_class_order


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy in equal-width bins of confidence; NaN for an empty bin."""

    edges: np.ndarray  # (bins + 1,)
    count: np.ndarray  # (bins,)
    confidence: np.ndarray  # (bins,) mean confidence
    accuracy: np.ndarray  # (bins,)
    ece: float  # mean |accuracy - confidence|, weighted by count


def reliability(confidence: Any, correct: Any, bins: int = 15) -> Reliability:
    """Reliability diagram and expected calibration error. Bins are open below and closed above: (0, 1/bins], ...

    Args:
        confidence: (n,) probability of the predicted class.
        correct: (n,) whether the prediction is the given class.

    Example:
        >>> round(reliability([0.9, 0.9, 0.9, 0.9], [1, 1, 1, 0], bins=10).ece, 4)
        0.15
    """
    confidence = np.asarray(to_numpy(confidence), dtype=np.float64)
    correct = np.asarray(to_numpy(correct), dtype=np.float64)
    if confidence.shape != correct.shape or confidence.ndim != 1:
        raise InputError(f"confidence and correct must be (n,) both, got {confidence.shape} and {correct.shape}.")
    if len(confidence) == 0:
        raise InputError("calibration needs at least one sample.")
    outside = ~((confidence >= 0) & (confidence <= 1))  # NaN, too
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(f"confidence must be a probability, but row {row} holds {confidence[row]}.")
    bin_of = _bins(confidence, bins)
    count = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean, right = (np.bincount(bin_of, weights=values, minlength=bins) / count for values in (confidence, correct))
    ece = float(np.nansum(count * np.abs(right - mean)) / len(confidence))
    return Reliability(np.linspace(0.0, 1.0, bins + 1), count, mean, right, ece)


def ece_by_chance(confidence: np.ndarray, draws: int = 100, quantile: float = 0.95, bins: int = 15) -> float:
    """The ECE that a calibrated model with this (n,) confidence stays below in 19 of 20 cases.

    Each simulated sample is right with the probability that the model states. The seed is fixed, so the result is reproducible.

    Example:
        >>> ece_by_chance(np.array([0.0, 1.0])), ece_by_chance(np.array([0.5]))  # sure, and as unsure as can be
        (0.0, 0.5)
    """
    bin_of = _bins(confidence, bins)
    expected = np.bincount(bin_of, weights=confidence, minlength=bins)  # (bins,) right of each
    rng = np.random.default_rng(0)
    errors = np.empty(draws)
    for draw in range(draws):
        right = np.bincount(bin_of, weights=rng.random(len(confidence)) < confidence, minlength=bins)
        errors[draw] = np.abs(right - expected).sum() / len(confidence)
    return float(np.quantile(errors, quantile))


def _bins(confidence: np.ndarray, bins: int) -> np.ndarray:
    """(n,) the bin of each sample, open below and closed above."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    return np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)


def fit_temperature(logits: Any, labels: Any) -> float:
    """The temperature T at which softmax(logits / T) has the smallest cross-entropy on these (n, c) logits.

    A temperature above 1 means that the model was overconfident. The predicted class does not change.
    """
    from scipy.optimize import minimize_scalar  # slow to import

    logits = in_class_order(logits)
    labels = counted_by(align(labels, "labels", logits, "logits"), logits, 1)
    logits = np.asarray(to_numpy(as_matrix(logits, "logits")), dtype=np.float64)
    labels = whole_labels(labels, len(logits), logits.shape[1])
    labeled = labels >= 0
    logits, labels = logits[labeled], labels[labeled]
    if len(logits) == 0:
        raise InputError("fitting a temperature needs labeled samples, but there are none.")
    if not np.isfinite(logits).all():
        raise InputError(f"logits must be finite; row {int(np.flatnonzero(~np.isfinite(logits).all(1))[0])} is not.")
    rows = np.arange(len(logits))

    def cross_entropy(log_temperature: float) -> float:
        return float(-log_softmax(logits / np.exp(log_temperature), axis=1)[rows, labels].mean())

    best = minimize_scalar(cross_entropy, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x))

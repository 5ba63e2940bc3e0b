"""Cosines between samples: how evenly features spread over the sphere, and how near those of one class are.

    uniformity   log of the mean of exp(-t |u - v|^2) over all pairs of unit features, t = 2: the lower, the more evenly spread
    tolerance    mean cosine of two samples of one class: 1 where each class is one direction

Wang and Isola, ICML 2020; "Understanding the Behaviour of Contrastive Loss", CVPR 2021, whose dilemma is between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import check_count
from hardsight.dynamics.collapse import class_sums
from hardsight.dynamics.labeled import Labeled, labeled_features
from hardsight.errors import InputError
from hardsight.threads import blocks

T = 2.0
BINS = 40  # of a histogram from -1 to 1
LIMIT = 5000  # samples whose pairs are counted
ROWS = 512


@dataclass(frozen=True)
class CosineHistograms:
    """Cosines of pairs of one class, and of pairs of different ones."""

    edges: np.ndarray  # (bins + 1,) from -1 to 1
    positive: np.ndarray  # (bins,) how many pairs of one class
    negative: np.ndarray  # (bins,) how many pairs of different classes
    positive_mean: float  # NaN without a pair
    negative_mean: float


def uniformity(source: Any = None, *, features: Any = None, labels: Any = None, t: float = T, limit: int | None = LIMIT) -> float:
    """How evenly the features of a snapshot, or (n, d) features, lie on the sphere: at most 0, the lower the more evenly.

    Args:
        source: a Snapshot, or a path to one; or give arrays instead. Labels are not looked at.
        features, labels: (n, d) and (n,).
        t: how narrow the neighbourhood is that counts.
        limit: samples at even distances whose pairs are looked at; None for all.

    Example:
        >>> uniformity(features=np.array([[1.0, 0.0], [-1.0, 0.0]]), t=2)  # |u - v|^2 = 4
        -8.0
    """
    if not t > 0:
        raise InputError(f"t must be a number above 0, got {t}.")
    samples = _subsample(labeled_features(source, features=features, labels=labels, all_samples=True), limit)
    return _uniformity(samples.features, t)


def tolerance(source: Any = None, *, features: Any = None, labels: Any = None) -> float:
    """Mean cosine of two samples of one class, over all such pairs of a snapshot or of arrays; NaN if there is no pair.

    Example:
        >>> round(tolerance(features=np.array([[1.0, 0.0], [1.0, 1.0], [5.0, 0.0]]), labels=[0, 0, 1]), 4)  # 45 degrees
        0.7071
    """
    return _tolerance(labeled_features(source, features=features, labels=labels).unit())


def cosine_histograms(
    source: Any = None, *, features: Any = None, labels: Any = None, bins: int = BINS, limit: int | None = LIMIT
) -> CosineHistograms:
    """Histograms of the cosines of pairs of one class, and of pairs of different classes.

    Args:
        source: a Snapshot, or a path to one; or give arrays instead.
        features, labels: (n, d) and (n,).
        bins: how many, from -1 to 1.
        limit: samples at even distances whose pairs are counted; None for all.

    Example:
        >>> counted = cosine_histograms(features=np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), labels=[0, 0, 1], bins=4)
        >>> counted.positive, counted.negative
        (array([0, 0, 0, 1]), array([0, 0, 2, 0]))
    """
    samples = _subsample(labeled_features(source, features=features, labels=labels), limit)
    return _histograms(samples, check_count(bins, "bins", least=1))


def measured_cosines(samples: Labeled, pairs_of: int) -> tuple[dict[str, float], CosineHistograms]:
    """Everything above by name, of samples at hand: pairs of the first `pairs_of`, the tolerance of all."""
    unit = samples.unit()
    some = Labeled(unit.features[:pairs_of], unit.labels[:pairs_of])
    counted = _histograms(some, BINS)
    measures = {"uniformity": _uniformity(some.features, T), "tolerance": _tolerance(unit)}
    return measures | {"positive_cosine": counted.positive_mean, "negative_cosine": counted.negative_mean}, counted


def _subsample(samples: Labeled, limit: int | None) -> Labeled:
    return samples.subsample(None if limit is None else check_count(limit, "limit", least=2)).unit()


def _uniformity(unit: np.ndarray, t: float) -> float:
    n, parts = len(unit), []
    if n < 2:
        return float("nan")
    for rows in blocks(n, ROWS):
        square = np.maximum(2 - 2 * (unit[rows] @ unit.T), 0.0)  # (b, n)
        square[np.arange(len(square)), np.arange(rows.start, rows.stop)] = np.inf  # not to oneself
        nearest = square.min()
        parts.append(np.log(np.exp(-t * (square - nearest)).sum()) - t * nearest)
    return float(np.logaddexp.reduce(parts) - np.log(n * (n - 1)))


def _tolerance(samples: Labeled) -> float:
    _, code, count = np.unique(samples.labels, return_inverse=True, return_counts=True)
    total = class_sums(samples.features, code, len(count))  # (c, d); its square is the sum over all pairs, oneself included
    pairs = int((count * (count - 1)).sum())
    return float((np.vecdot(total, total) - count).sum() / pairs) if pairs else float("nan")


def _histograms(samples: Labeled, bins: int) -> CosineHistograms:
    x, labels, n = samples.features, samples.labels, len(samples.labels)
    counts, sums = np.zeros((2, bins), np.int64), np.zeros(2)
    for rows in blocks(n, ROWS):
        later = np.arange(n) > np.arange(rows.start, rows.stop)[:, None]  # (b, n) each pair once
        cosine = np.clip(x[rows] @ x.T, -1.0, 1.0)[later]
        same = (labels[rows, None] == labels)[later]
        place = np.minimum(((cosine + 1) * (bins / 2)).astype(np.int64), bins - 1)
        counts += np.bincount(place + bins * ~same, minlength=2 * bins).reshape(2, bins)
        sums += cosine[same].sum(), cosine[~same].sum()
    number = counts.sum(1)
    means = [float(total / many) if many else float("nan") for total, many in zip(sums, number, strict=True)]
    return CosineHistograms(np.linspace(-1, 1, bins + 1), counts[0], counts[1], means[0], means[1])

"""Cosines between samples: how evenly features spread over the sphere, and how close those of one class are.

    uniformity   log of the mean of exp(-t |u - v|^2) over all pairs of unit features, t = 2: lower is more even
    tolerance    mean cosine of two samples of one class: 1 if each class is a single direction

Wang and Isola, ICML 2020; "Understanding the Behavior of Contrastive Loss", CVPR 2021, on the trade-off between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardsight.checks import check_count
from hardsight.dynamics.collapse import Labeled, class_sums, labeled_features
from hardsight.errors import InputError
from hardsight.threads import blocks

T = 2.0
BINS = 40  # of a histogram from -1 to 1
LIMIT = 5000  # samples to form pairs from
ROWS = 512


@dataclass(frozen=True)
class CosineHistograms:
    """Cosine histograms of same-class pairs and of different-class pairs."""

    edges: np.ndarray  # (bins + 1,) from -1 to 1
    positive: np.ndarray  # (bins,) number of same-class pairs
    negative: np.ndarray  # (bins,) number of different-class pairs
    positive_mean: float  # NaN without a pair
    negative_mean: float


def uniformity(source: Any = None, *, features: Any = None, labels: Any = None, t: float = T, limit: int | None = LIMIT) -> float:
    """How evenly the features of a snapshot, or (n, d) features, spread over the sphere: at most 0, lower is more even.

    Args:
        source: a Snapshot, or a path to one; or pass arrays instead. Labels are ignored.
        features, labels: (n, d) and (n,).
        t: how narrow the neighborhood is.
        limit: number of samples to form pairs from, an even subsample; None for all.

    Example:
        >>> uniformity(features=np.array([[1.0, 0.0], [-1.0, 0.0]]), t=2)  # |u - v|^2 = 4
        -8.0
    """
    if not t > 0:
        raise InputError(f"t must be a number above 0, got {t}.")
    samples = _subsample(labeled_features(source, features=features, labels=labels, all_samples=True), limit)
    return _uniformity(_pairs(samples), t)


def tolerance(source: Any = None, *, features: Any = None, labels: Any = None) -> float:
    """Mean cosine of same-class pairs, over all such pairs of a snapshot or of arrays; NaN if there is no pair.

    Example:
        >>> round(tolerance(features=np.array([[1.0, 0.0], [1.0, 1.0], [5.0, 0.0]]), labels=[0, 0, 1]), 4)  # 45 degrees
        0.7071
    """
    return _tolerance(labeled_features(source, features=features, labels=labels).unit())


def cosine_histograms(
    source: Any = None, *, features: Any = None, labels: Any = None, bins: int = BINS, limit: int | None = LIMIT
) -> CosineHistograms:
    """Cosine histograms of same-class pairs and of different-class pairs.

    Args:
        source: a Snapshot, or a path to one; or pass arrays instead.
        features, labels: (n, d) and (n,).
        bins: number of bins from -1 to 1.
        limit: number of samples to form pairs from, an even subsample; None for all.

    Example:
        >>> counted = cosine_histograms(features=np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), labels=[0, 0, 1], bins=4)
        >>> counted.positive, counted.negative
        (array([0, 0, 0, 1]), array([0, 0, 2, 0]))
    """
    samples = _subsample(labeled_features(source, features=features, labels=labels), limit)
    return _histograms(_pairs(samples), check_count(bins, "bins", least=1))


def measured_cosines(samples: Labeled, pairs_of: int) -> tuple[dict[str, float], CosineHistograms]:
    """All metrics above by name: pairs of the first `pairs_of` samples, and the tolerance of all."""
    unit = samples.unit()
    first_ones = Labeled(unit.features[:pairs_of], unit.labels[:pairs_of])
    pairs = list(_pairs(first_ones))  # iterated twice
    counted = _histograms(pairs, BINS)
    measures = {"uniformity": _uniformity(pairs, T), "tolerance": _tolerance(unit)}
    return measures | {"positive_cosine": counted.positive_mean, "negative_cosine": counted.negative_mean}, counted


def _subsample(samples: Labeled, limit: int | None) -> Labeled:
    return samples.subsample(None if limit is None else check_count(limit, "limit", least=2)).unit()


class _Pairs(NamedTuple):
    """Pairs of samples, each pair once."""

    cosine: np.ndarray  # (p,)
    different: np.ndarray  # (p,) whether their classes differ


def _pairs(unit: Labeled) -> Iterator[_Pairs]:
    """All pairs of unit-length samples, a block of rows at a time."""
    x, labels = unit.features, unit.labels
    for rows in blocks(len(x), ROWS):
        block, after = x[rows], slice(rows.start, None)
        later = ~np.tri(len(block), len(x[after]), dtype=bool)  # (b, n - start)
        cosine = (block @ x[after].T)[later]
        yield _Pairs(np.clip(cosine, -1.0, 1.0, out=cosine), (labels[rows, None] != labels[after])[later])


def _uniformity(pairs: Iterable[_Pairs], t: float) -> float:
    count, parts = 0, []
    for cosine in (part.cosine for part in pairs if len(part.cosine)):
        nearest = cosine.max()
        terms = 2 * t * (cosine - nearest)
        parts.append(np.log(np.exp(terms, out=terms).sum()) - 2 * t * (1 - nearest))  # |u - v|^2 = 2 - 2 cos
        count += len(cosine)
    return float(np.logaddexp.reduce(parts) - np.log(count)) if count else float("nan")


def _tolerance(samples: Labeled) -> float:
    _, code, count = np.unique(samples.labels, return_inverse=True, return_counts=True)
    total = class_sums(samples.features, code, len(count))  # (c, d); its square sums over all pairs, including self-pairs
    pairs = int((count * (count - 1)).sum())
    return float((np.vecdot(total, total) - count).sum() / pairs) if pairs else float("nan")


def _histograms(pairs: Iterable[_Pairs], bins: int) -> CosineHistograms:
    counts, sums = np.zeros(2 * bins, np.int64), np.zeros(2)
    for cosine, different in pairs:
        bin_index = np.minimum(((cosine + 1) * (bins / 2)).astype(np.int64), bins - 1)
        counts += np.bincount(bin_index + bins * different, minlength=2 * bins)
        sums += cosine.sum(where=~different), cosine.sum(where=different)
    positive, negative = counts.reshape(2, bins)
    means = [
        float(total / many) if many else float("nan") for total, many in zip(sums, counts.reshape(2, -1).sum(1), strict=True)
    ]
    return CosineHistograms(np.linspace(-1, 1, bins + 1), positive, negative, means[0], means[1])

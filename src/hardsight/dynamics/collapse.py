"""Metrics of labeled features as a set: neural collapse and cosines of pairs.

Neural collapse is how close the features of each class are to a point, and these points to the corners of a simplex.

M is the class means minus their mean, S_B = M'M / c, and S_W the within-class covariance averaged over the classes:

    nc1            tr(S_W S_B^+) / c                                              0 if every class is a point
    nc1_quotient   tr S_W / tr S_B
    nc2            | MM' / |MM'| - (I - 11'/c) / sqrt(c - 1) |                    0 if the means are a simplex
    nc3            | WM' / |WM'| - (I - 11'/c) / sqrt(c - 1) |                    0 if the class vectors are the means, too
    nc4            share of samples whose prediction is their nearest mean        1 if the head is a nearest-mean classifier

All classes have equal weight, however many samples they have. Papyan, Han and Donoho, PNAS 2020; metrics as in "Perturbation
Analysis of Neural Collapse" (ICML 2023).

Cosines of pairs say how evenly features spread over the sphere, and how close those of one class are:

    uniformity   log of the mean of exp(-t |u - v|^2) over all pairs of unit features, t = 2: lower is more even
    tolerance    mean cosine of two samples of one class: 1 if each class is a single direction

Wang and Isola, ICML 2020; "Understanding the Behavior of Contrastive Loss", CVPR 2021, on the trade-off between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks, even_rows

NAMES = ("nc1", "nc1_quotient", "nc2", "nc3", "nc4")
RANK = 1e-6  # directions in which the means differ by less than this share of the largest spread are ignored
ROWS = 4096  # processed at a time, in float64


@dataclass(frozen=True)
class Labeled:
    """n samples with a label and finite features."""

    features: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,)
    head: Head | None = None

    def unit(self) -> Labeled:
        """The samples that have a direction, normalized to length 1 in float64."""
        x = self.features.astype(np.float64)
        largest = np.abs(x).max(axis=1, initial=0.0)
        rows = np.flatnonzero(largest > 0)
        x = x[rows] / largest[rows, None]  # only directions count: rescaled so that 1e300 does not overflow
        return Labeled(x / np.linalg.norm(x, axis=1)[:, None], self.labels[rows], self.head)


def labeled_features(
    source: Any = None, *, features: Any = None, labels: Any = None, head: Any = None, all_samples: bool = False
) -> Labeled:
    """The samples of a Snapshot, of a path to one, or of arrays.

    Samples that are not finite are left out, and unlabeled ones too, unless `all_samples` is set.
    """
    snapshot = Snapshot.open(source, head, labels, features=features)
    where = f"{snapshot.name}: " if snapshot.name else ""
    if snapshot.source.evidence != "features":
        raise InputError(f"{where}this needs features, but there are only {snapshot.source.evidence}.")
    batch = snapshot.in_memory()
    x = to_numpy(batch.values)
    if not all_samples and (not snapshot.source.labeled or (batch.labels < 0).all()):
        raise InputError(f"{where}no sample has a label: pass labels.")
    rows = np.flatnonzero(((batch.labels >= 0) | all_samples) & np.isfinite(x).all(axis=1))
    if len(rows) == 0:
        raise InputError(f"{where}no sample has finite features.")
    return Labeled(x[rows], batch.labels[rows], snapshot.head)


def neural_collapse(source: Any = None, *, features: Any = None, labels: Any = None, head: Any = None) -> dict[str, float]:
    """NC1 to NC4 of a snapshot, or of (n, d) features, (n,) labels and a head; NaN for what cannot be computed.

    Example:
        >>> features = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.0], [-1.0, 0.0]])  # two classes, one of them a point
        >>> measures = neural_collapse(features=features, labels=[0, 0, 1, 1], head=np.array([[2.0, 0.0], [-2.0, 0.0]]))
        >>> {name: round(value, 6) for name, value in measures.items()}  # nothing differs along the line of the means
        {'nc1': 0.0, 'nc1_quotient': 0.005, 'nc2': 0.0, 'nc3': 0.0, 'nc4': 1.0}
    """
    return measured_collapse(labeled_features(source, features=features, labels=labels, head=head))


def measured_collapse(samples: Labeled) -> dict[str, float]:
    """The metrics of n labeled, finite samples."""
    result = dict.fromkeys(NAMES, float("nan"))
    classes, code, count = np.unique(samples.labels, return_inverse=True, return_counts=True)
    c = len(classes)
    if c < 2:
        return result
    mean = class_sums(samples.features, code, c) / count[:, None]  # (c, d)
    between = mean - mean.mean(0)
    _, spread, axes = np.linalg.svd(between / np.sqrt(c), full_matrices=False)  # (r,), (r, d)
    kept = spread > RANK * max(spread[0], 1e-30)
    if not kept.any():
        return result  # all means are equal
    weight = 1 / (c * count[code])  # (n,) equal weight for every class
    along = across = 0.0
    for rows in blocks(len(code), ROWS):
        apart = samples.features[rows].astype(np.float64) - mean[code[rows]]  # (b, d)
        scaled = apart @ (axes[kept].T / spread[kept])  # (b, r)
        along += float(weight[rows] @ np.vecdot(scaled, scaled))
        across += float(weight[rows] @ np.vecdot(apart, apart))
    result |= {"nc1": along / c, "nc1_quotient": across / float((spread**2).sum()), "nc2": _off_simplex(between @ between.T)}
    if samples.head is not None and samples.head.num_classes > classes[-1]:
        vectors = to_numpy(samples.head.directions).astype(np.float64)[classes]
        result |= {"nc3": _off_simplex(vectors @ between.T), "nc4": _same_decision(samples, samples.head, mean, classes)}
    return result


def class_sums(x: np.ndarray, code: np.ndarray, c: int) -> np.ndarray:
    """(c, d) float64 sums of the (n, d) rows of each class."""
    sums = np.zeros((c, x.shape[1]))
    for rows in blocks(len(code), ROWS):
        order = np.argsort(code[rows], kind="stable")
        there, first = np.unique(code[rows][order], return_index=True)
        sums[there] += np.add.reduceat(x[rows][order].astype(np.float64), first)
    return sums


def _off_simplex(product: np.ndarray) -> float:
    """Distance of a normalized (c, c) product from that of a simplex."""
    c, length = len(product), np.linalg.norm(product)
    simplex = (np.eye(c) - 1 / c) / np.sqrt(c - 1)
    return float(np.linalg.norm(product / length - simplex)) if length > 0 else float("nan")


def _same_decision(samples: Labeled, head: Head, mean: np.ndarray, classes: np.ndarray) -> float:
    """Share of samples that the head assigns to the class with the nearest mean."""
    same = 0
    for rows in blocks(len(samples.labels), ROWS):
        x = samples.features[rows].astype(np.float64)
        nearest = (x @ mean.T - np.vecdot(mean, mean) / 2).argmax(1)  # (b,)
        same += int((classes[nearest] == to_numpy(head.logits(x)).argmax(1)).sum())
    return same / len(samples.labels)


# ---- cosines of pairs ----

T = 2.0
BINS = 40  # of a histogram from -1 to 1
LIMIT = 5000  # samples to form pairs from
PAIR_ROWS = 512  # whose pairs are formed at a time


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
    samples = labeled_features(source, features=features, labels=labels, all_samples=True)
    rows = even_rows(len(samples.labels), None if limit is None else check_count(limit, "limit", least=2))
    return _uniformity(_pairs(Labeled(samples.features[rows], samples.labels[rows]).unit()), t)


def tolerance(source: Any = None, *, features: Any = None, labels: Any = None) -> float:
    """Mean cosine of same-class pairs, over all such pairs of a snapshot or of arrays; NaN if there is no pair.

    Example:
        >>> round(tolerance(features=np.array([[1.0, 0.0], [1.0, 1.0], [5.0, 0.0]]), labels=[0, 0, 1]), 4)  # 45 degrees
        0.7071
    """
    return _tolerance(labeled_features(source, features=features, labels=labels).unit())


def measured_cosines(samples: Labeled, pairs_of: int) -> tuple[dict[str, float], dict[str, list[int]]]:
    """All metrics above by name: pairs of the first `pairs_of` samples, and the tolerance of all; and histograms of cosines."""
    unit = samples.unit()
    first_ones = Labeled(unit.features[:pairs_of], unit.labels[:pairs_of])
    pairs = list(_pairs(first_ones))  # iterated twice
    means, histograms = _histograms(pairs)
    return {"uniformity": _uniformity(pairs, T), "tolerance": _tolerance(unit), **means}, histograms


class _Pairs(NamedTuple):
    """Pairs of samples, each pair once."""

    cosine: np.ndarray  # (p,)
    different: np.ndarray  # (p,) whether their classes differ


def _pairs(unit: Labeled) -> Iterator[_Pairs]:
    """All pairs of unit-length samples, a block of rows at a time."""
    x, labels = unit.features, unit.labels
    for rows in blocks(len(x), PAIR_ROWS):
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


def _histograms(pairs: Iterable[_Pairs]) -> tuple[dict[str, float], dict[str, list[int]]]:
    """Of pairs of one class and of two: the mean cosine, NaN without a pair, and how many there are from a cosine of -1 to 1."""
    bins, counts, sums = BINS, np.zeros(2 * BINS, np.int64), np.zeros(2)
    for cosine, different in pairs:
        bin_index = np.minimum(((cosine + 1) * (bins / 2)).astype(np.int64), bins - 1)
        counts += np.bincount(bin_index + bins * different, minlength=2 * bins)
        sums += cosine.sum(where=~different), cosine.sum(where=different)
    means, histograms = {}, {}
    for kind, total, histogram in zip(("positive", "negative"), sums.tolist(), counts.reshape(2, bins), strict=True):
        means[f"{kind}_cosine"] = total / int(histogram.sum()) if histogram.any() else float("nan")
        histograms[f"{kind}_cosines"] = histogram.tolist()
    return means, histograms

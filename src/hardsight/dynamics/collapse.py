"""Neural collapse: how close the features of each class are to a point, and these points to the corners of a simplex.

M is the class means minus their mean, S_B = M'M / c, and S_W the within-class covariance averaged over the classes:

    nc1            tr(S_W S_B^+) / c                                              0 if every class is a point
    nc1_quotient   tr S_W / tr S_B
    nc2            | MM' / |MM'| - (I - 11'/c) / sqrt(c - 1) |                    0 if the means are a simplex
    nc3            | WM' / |WM'| - (I - 11'/c) / sqrt(c - 1) |                    0 if the class vectors are the means, too
    nc4            share of samples whose prediction is their nearest mean        1 if the head is a nearest-mean classifier

All classes have equal weight, however many samples they have. Papyan, Han and Donoho, PNAS 2020; metrics as in "Perturbation
Analysis of Neural Collapse" (ICML 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
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

    def subsample(self, limit: int | None) -> Labeled:
        """An even subsample."""
        rows = even_rows(len(self.labels), limit)
        return Labeled(self.features[rows], self.labels[rows], self.head)


def labeled_features(
    source: Any = None, *, features: Any = None, labels: Any = None, head: Any = None, all_samples: bool = False
) -> Labeled:
    """The samples of a Snapshot, of a path to one, or of arrays.

    Samples that are not finite are left out, and unlabeled ones too, unless `all_samples` is set.
    """
    if source is None and features is None:
        raise InputError("pass a snapshot, or features and labels.")
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

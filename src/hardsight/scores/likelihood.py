"""How typical a feature is: its likelihood under one Gaussian per class, the head's own or fitted to the dataset itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.head import Head, as_head
from hardsight.scores.registry import Fitted, FittedTo, GivenArrays, dataset_score
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import LOGITS
from hardsight.threads import blocks

ROWS = 4096  # whose distances are taken at a time
VARIANCE_FLOOR = 1e-9  # of the spread of all samples: a dimension that never varies within a class must not divide by zero


@dataclass(frozen=True)
class DiagonalGaussians:
    """A Gaussian per class: (c, d) means around a (d,) center, and (d,) or (c, d) variances."""

    mean: np.ndarray
    variance: np.ndarray
    center: Any = 0.0

    def distance(self, x: Any, classes: np.ndarray) -> np.ndarray:
        """(n,) 1/2 (x - mean_k)' S_k^-1 (x - mean_k), k the class of each row of (n, d) features."""
        result = np.empty(len(classes))
        for rows in blocks(len(classes), ROWS):
            z = to_numpy(x[rows]).astype(np.float64) - self.center - self.mean[classes[rows]]  # (b, d)
            v = self.variance if self.variance.ndim == 1 else self.variance[classes[rows]]
            result[rows] = 0.5 * (z * z / v).sum(1)
        return result

    def log_density(self, x: Any, classes: np.ndarray) -> np.ndarray:
        """(n,) log N(x; mean_k, S_k), k the class of each row."""
        volume = np.log(2 * np.pi * self.variance).sum(-1)  # () or (c,)
        return -self.distance(x, classes) - 0.5 * (volume if volume.ndim == 0 else volume[classes])

    def of_predicted(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) log-likelihood of a batch under the Gaussians of its predicted classes; NaN for rows that were not scored."""
        result, scored = np.full(len(rows.labels), np.nan), np.flatnonzero(rows.ok)
        result[scored] = self.log_density(x[scored], rows.predicted[scored])
        return result


def head_variance(head: Head) -> np.ndarray:
    """(d,) or (c, d) variances of a Gaussian head."""
    log_variance = np.zeros(head.num_features) if head.log_variance is None else to_numpy(head.log_variance)
    return np.exp(log_variance.astype(np.float64))


class ClassGaussians(Fitted):
    """Class means and a shared diagonal covariance, from sums that are gathered batch by batch.

    The variance is the pooled one: squared distances to the own class's mean, averaged over all labeled samples.
    """

    terms, fits_labels = frozenset({LOGITS}), True

    count: np.ndarray | None = None  # (c,)

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the sums of its given classes."""
        known = np.flatnonzero(rows.labeled & rows.ok)
        if self.count is None:
            c, d = rows.num_classes, x.shape[1]
            self.count, self.total, self.squares = np.zeros(c), np.zeros((c, d)), np.zeros(d)
            # Sums are taken around a first guess of the center, so that far-off features keep their digits.
            self.center = to_numpy(x[:4096]).astype(np.float64)[rows.ok[:4096]]
            self.center = self.center.mean(0) if len(self.center) else np.zeros(d)
        for part in np.array_split(known, max(1, len(known) // ROWS)):
            z = to_numpy(x[part]).astype(np.float64) - self.center  # (b, d)
            np.add.at(self.total, rows.labels[part], z)
            self.count += np.bincount(rows.labels[part], minlength=len(self.count))
            self.squares += np.einsum("bd,bd->d", z, z)

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) log-likelihood of a batch under the Gaussians of its predicted classes."""
        if self.count is None or self.count.sum() == 0:
            return np.full(len(rows.labels), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.total / self.count[:, None]  # (c, d), NaN for a class without samples
        n = self.count.sum()
        pooled = (self.squares - np.einsum("c,cd->d", self.count, np.nan_to_num(mean) ** 2)) / n
        spread = self.squares.mean() / n or 1.0
        return DiagonalGaussians(mean, np.maximum(pooled, VARIANCE_FLOOR * spread), self.center).of_predicted(x, rows)


class HeadGaussians(Fitted):
    """The means and variances of a Gaussian head as they were learned: nothing is fitted, and no label is needed."""

    terms = frozenset({LOGITS})

    def __init__(self, head: Head) -> None:
        # Around the origin of the head, far-off features keep their digits.
        self.gaussians = DiagonalGaussians(head.directions, head_variance(head), head.origin)

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) log-likelihood of a batch under the head's Gaussians of its predicted classes."""
        return self.gaussians.of_predicted(x, rows)


@dataset_score(
    lambda head: HeadGaussians(head) if head is not None and head.kind == "gaussian" else ClassGaussians(),
    hard="low", range="(-inf, inf)",
    formula="log N(x; mean_p, diag(v)), p the predicted class; mean and v of the head, or v pooled over classes",
    source="Wan et al., CVPR 2018 (likelihood of the L-GM loss)", labels=False,
)  # fmt: skip
def gm_likelihood(features: Any, head: Any, labels: Any = None, *, bias: Any = None) -> FittedTo:
    """Log-likelihood of a feature under the Gaussian of its predicted class: low is atypical.

    A Gaussian head (L-GM, GM) has learned its Gaussians: its own means and variances are used, as `LGMLoss.log_likelihood`
    does, and labels play no part.

    For any other head Gaussians are fitted: the class means of the labeled samples and one diagonal covariance for all
    classes. A predicted class without labeled samples gives NaN.
    """
    own = None if head is None else as_head(head, bias)
    if own is None or own.kind != "gaussian":
        return GivenArrays(features, head, labels, bias), ClassGaussians()
    return GivenArrays(features, own, labels), HeadGaussians(own)

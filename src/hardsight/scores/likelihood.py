"""How typical a feature is: its likelihood under one Gaussian per class, fitted to the dataset itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scores.registry import FittedTo, Inputs, dataset_score
from hardsight.scores.sweep import Sweep
from hardsight.scores.terms import LOGITS

VARIANCE_FLOOR = 1e-9  # of the spread of all samples: a dimension that never varies within a class must not divide by zero


class ClassGaussians:
    """Class means and a shared diagonal covariance, from sums that are gathered batch by batch.

    The variance is the pooled one: squared distances to the own class's mean, averaged over all labeled samples.
    """

    terms = frozenset({LOGITS})

    def __init__(self, covariance: str = "diagonal") -> None:
        if not isinstance(covariance, str) or covariance not in ("diagonal", "identity"):
            raise InputError(f'covariance must be "diagonal" or "identity", got {covariance!r}.')
        self.covariance = covariance
        self.count: np.ndarray | None = None  # (c,)

    def see(self, x: Any, rows: Sweep) -> None:
        """Add a batch to the sums of its given classes."""
        known = np.flatnonzero(rows.labeled & rows.ok)
        if self.count is None:
            c, d = rows.num_classes, x.shape[1]
            self.count, self.total, self.squares = np.zeros(c), np.zeros((c, d)), np.zeros(d)
            # Sums are taken around a first guess of the centre, so that far-off features keep their digits.
            self.centre = to_numpy(x[:4096]).astype(np.float64)[rows.ok[:4096]]
            self.centre = self.centre.mean(0) if len(self.centre) else np.zeros(d)
        for part in np.array_split(known, max(1, len(known) // 4096)):
            z = to_numpy(x[part]).astype(np.float64) - self.centre  # (b, d)
            np.add.at(self.total, rows.labels[part], z)
            self.count += np.bincount(rows.labels[part], minlength=len(self.count))
            self.squares += np.einsum("bd,bd->d", z, z)

    def of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) log-likelihood of a batch under the Gaussians of its predicted classes."""
        result = np.full(len(rows.labels), np.nan)
        if self.count is None or self.count.sum() == 0:
            return result
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.total / self.count[:, None]  # (c, d), NaN for a class without samples
        n = self.count.sum()
        pooled = (self.squares - np.einsum("c,cd->d", self.count, np.nan_to_num(mean) ** 2)) / n
        spread = self.squares.mean() / n or 1.0
        variance = np.maximum(pooled, VARIANCE_FLOOR * spread) if self.covariance == "diagonal" else np.ones_like(pooled)
        log_det = np.log(2 * np.pi * variance).sum()
        scored = np.flatnonzero(rows.ok)
        for part in np.array_split(scored, max(1, len(scored) // 4096)):
            z = to_numpy(x[part]).astype(np.float64) - self.centre - mean[rows.predicted[part]]
            result[part] = -0.5 * (np.einsum("bd,bd,d->b", z, z, 1 / variance) + log_det)
        return result


@dataset_score(
    ClassGaussians, hard="low", range="(-inf, inf)",
    formula="log N(x; mean_p, diag(v)), p the predicted class, v pooled over classes",
    source="Wan et al., CVPR 2018 (likelihood of the L-GM loss)", labels=False,
)  # fmt: skip
def gm_likelihood(features: Any, head: Any, labels: Any, *, bias: Any = None, covariance: str = "diagonal") -> FittedTo:
    """Log-likelihood of a feature under the Gaussian of its predicted class: low is atypical.

    The Gaussians have the class means of the labeled samples and one diagonal covariance for all classes
    (`covariance="identity"`: distances only). A predicted class without labeled samples gives NaN.
    """
    return Inputs(features, head, labels, bias), ClassGaussians(covariance)

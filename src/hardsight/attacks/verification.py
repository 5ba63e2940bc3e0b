"""How an input is verified: a score that is low where something is wrong with it, made of its feature alone.

The L-GM paper gives each loss its own, with p the predicted class:

    softmax      z_p = w_p . x + b_p                    the logit
    center       -1/2 |x - center_p|^2                  the centers that the loss moved, saved in loss.safetensors
    GM, L-GM     -1/2 (x - mean_p)' S_p^-1 (x - mean_p) the head's own means

It prints the last two as exponentials, which round to 0 for the inputs of interest; their logarithms rank the same.
The likelihood is that of all models alike: log N(x; mean_p, S_p), of the head's Gaussians or of Gaussians that are fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from hardsight.checks import to_numpy
from hardsight.head import Head

VARIANCE_FLOOR = 1e-9  # of the mean variance: a dimension that never varies must not divide by zero
ROWS = 4096  # whose distances are taken at a time


@dataclass(frozen=True)
class Gaussians:
    """A Gaussian per class with diagonal covariance: (c, d) means, and (d,) or (c, d) variances."""

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of_head(cls, head: Head) -> Self:
        """Those that a Gaussian head has learned."""
        log_variance = np.zeros(head.num_features) if head.log_variance is None else to_numpy(head.log_variance)
        return cls(to_numpy(head.weight).astype(np.float64), np.exp(log_variance.astype(np.float64)))

    @classmethod
    def fitted(cls, features: np.ndarray, labels: np.ndarray, num_classes: int) -> Self:
        """Means of the given classes, and one variance per dimension for all of them; a class without samples has no mean."""
        features = features.astype(np.float64)  # (n, d)
        count = np.bincount(labels, minlength=num_classes)  # (c,)
        total = np.zeros((num_classes, features.shape[1]))
        np.add.at(total, labels, features)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count[:, None]  # (c, d)
        variance = ((features - mean[labels]) ** 2).mean(0)  # (d,)
        return cls(mean, np.maximum(variance, VARIANCE_FLOOR * (variance.mean() or 1.0)))

    def distance(self, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(n,) 1/2 (x - mean_k)' S_k^-1 (x - mean_k), k the class of each row."""
        result = np.empty(len(features))
        for at in range(0, len(features), ROWS):
            own = classes[at : at + ROWS]
            gap = features[at : at + ROWS].astype(np.float64) - self.mean[own]  # (b, d)
            variance = self.variance if self.variance.ndim == 1 else self.variance[own]
            result[at : at + ROWS] = 0.5 * (gap**2 / variance).sum(1)
        return result

    def log_density(self, features: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(n,) log N(x; mean_k, S_k), k the class of each row."""
        volume = np.log(2 * np.pi * self.variance).sum(-1)  # () or (c,)
        return -self.distance(features, classes) - 0.5 * (volume if volume.ndim == 0 else volume[classes])


@dataclass(frozen=True)
class VerificationScore:
    """The score of a loss, and the Gaussians that the likelihood is taken of.

    Attributes:
        head: what predicts.
        centers: (c, d) of the center loss.
        gaussians: the head's own or fitted ones.
    """

    head: Head
    centers: np.ndarray | None
    gaussians: Gaussians

    @property
    def name(self) -> str:
        """What the score is, in words."""
        if self.head.kind == "gaussian":
            return "-distance to the mean of the predicted class"
        return "logit of the predicted class" if self.centers is None else "-distance to the center of the predicted class"

    def score(self, features: np.ndarray, predicted: np.ndarray, max_logit: np.ndarray) -> np.ndarray:
        """(n,) verification score: low is abnormal."""
        if self.head.kind == "gaussian":
            return -Gaussians.of_head(self.head).distance(features, predicted)
        if self.centers is None:
            return max_logit
        return -Gaussians(self.centers, np.ones(features.shape[1])).distance(features, predicted)

    def likelihood(self, features: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """(n,) log-likelihood under the Gaussian of the predicted class."""
        return self.gaussians.log_density(features, predicted)


def verification(
    head: Head, centers: np.ndarray | None, reference: tuple[np.ndarray, np.ndarray] | None, clean: tuple[np.ndarray, np.ndarray]
) -> VerificationScore:
    """How this model's inputs are verified.

    Args:
        centers: of the center loss, if it was trained with it.
        reference: features and labels of the training data, where they are at hand: Gaussians are fitted to them.
        clean: features and labels of the clean inputs, which take their place where they are not.
    """
    if head.kind == "gaussian":
        return VerificationScore(head, None, Gaussians.of_head(head))
    features, labels = clean if reference is None else reference
    return VerificationScore(head, centers, Gaussians.fitted(features, labels, head.num_classes))

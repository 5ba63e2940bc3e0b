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

import numpy as np

from hardsight.checks import to_numpy
from hardsight.head import Head
from hardsight.scores.likelihood import DiagonalGaussians, head_variance

VARIANCE_FLOOR = 1e-9  # of the mean variance: a dimension that never varies must not divide by zero


def fitted_gaussians(features: np.ndarray, labels: np.ndarray, num_classes: int) -> DiagonalGaussians:
    """Means of the given classes, and one variance per dimension for all of them; a class without samples has no mean."""
    features = features.astype(np.float64)  # (n, d)
    count = np.bincount(labels, minlength=num_classes)  # (c,)
    total = np.zeros((num_classes, features.shape[1]))
    np.add.at(total, labels, features)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count[:, None]  # (c, d)
    variance = ((features - mean[labels]) ** 2).mean(0)  # (d,)
    return DiagonalGaussians(mean, np.maximum(variance, VARIANCE_FLOOR * (variance.mean() or 1.0)))


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
    gaussians: DiagonalGaussians

    @property
    def name(self) -> str:
        """What the score is, in words."""
        if self.head.kind == "gaussian":
            return "-distance to the mean of the predicted class"
        return "logit of the predicted class" if self.centers is None else "-distance to the center of the predicted class"

    def score(self, features: np.ndarray, predicted: np.ndarray, max_logit: np.ndarray) -> np.ndarray:
        """(n,) verification score: low is abnormal."""
        if self.head.kind == "gaussian":
            return -self.gaussians.distance(features, predicted)
        if self.centers is None:
            return max_logit
        return -DiagonalGaussians(self.centers, np.ones(features.shape[1])).distance(features, predicted)

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
        mean = to_numpy(head.weight).astype(np.float64)
        return VerificationScore(head, None, DiagonalGaussians(mean, head_variance(head)))
    features, labels = clean if reference is None else reference
    return VerificationScore(head, centers, fitted_gaussians(features, labels, head.num_classes))

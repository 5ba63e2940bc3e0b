"""A generative head on frozen features: Gaussian naive Bayes, shared variance (Zheng et al., ICML 2023, arXiv:2302.02334).

It needs no training, only counts, means and squared deviations, accumulated over batches in any order. Its logits are those
of L-GM with a shared diagonal covariance; with few samples per class it often beats a linear layer.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.losses.contract import check_batch, in_full_precision

VARIANCE_FLOOR = 1e-9  # added to the variance, so that a constant dimension does not divide by zero


class GaussianNaiveBayes(nn.Module):
    """log prior_k - 1/2 sum_j (x_j - mean_kj)^2 / variance_j; fitted by `update`, batch by batch.

    The variance is the within-class variance, weighted by class size. A class without samples is never predicted.

    Example:
        >>> model = GaussianNaiveBayes(2, 2)
        >>> for x, y in ([[0.0, 0.0], [0.0, 2.0]], [0, 0]), ([[4.0, 0.0], [4.0, 2.0]], [1, 1]):
        ...     _ = model.update(torch.tensor(x), torch.tensor(y))
        >>> model.mean.tolist(), model.variance.tolist()[1]
        ([[0.0, 1.0], [4.0, 1.0]], 1.000000001)
    """

    count: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        wide = torch.float64  # for sums of many numbers
        self.register_buffer("count", torch.zeros(num_classes, dtype=wide))  # (c,)
        self.register_buffer("mean", torch.zeros(num_classes, num_features, dtype=wide))
        self.register_buffer("deviation", torch.zeros(num_features, dtype=wide))  # sum of squared deviations from the class mean

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> Self:
        """Add a batch: counts, means and squared deviations are merged in a numerically stable way."""
        check_batch(features, labels, self.mean.shape[1], len(self.mean))
        x = features.to(self.mean)
        new = torch.bincount(labels, minlength=len(self.count)).to(self.count)  # (c,)
        share = (1 / new.clamp_min(1))[:, None]
        mean = torch.zeros_like(self.mean).index_add_(0, labels, x) * share  # (c, d), of this batch
        within = (x - mean[labels]).square().sum(0)  # (d,)
        both = self.count + new
        apart = mean - self.mean  # (c, d)
        between = (self.count * new / both.clamp_min(1)) @ apart.square()  # (d,)
        self.mean = self.mean + apart * (new / both.clamp_min(1))[:, None]
        self.deviation, self.count = self.deviation + within + between, both
        return self

    @property
    def variance(self) -> Tensor:
        """(d,) shared variance."""
        if not bool(self.count.sum() > 0):
            raise InputError("fit first: call update(features, labels) on at least one batch.")
        return self.deviation / self.count.sum() + VARIANCE_FLOOR

    @property
    def center(self) -> Tensor:
        """(d,) mean of all samples."""
        return self.count @ self.mean / self.count.sum()

    def _means(self) -> Tensor:
        """(c, d) means; a class without samples is placed at the center, so that the others lose no precision."""
        return torch.where(self.count[:, None] > 0, self.mean, self.center)

    @property
    def log_prior(self) -> Tensor:
        """(c,) log of each class's share; very low, but finite, for a class without samples."""
        return (self.count / self.count.sum()).clamp_min(1e-300).log()

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, c), in at least float32."""
        (features,) = in_full_precision(features)
        deviation = self.variance.sqrt()
        center = self.center  # leaves distances unchanged, and keeps the precision of far-off features
        mean = ((self._means() - center) / deviation).to(features.dtype)  # (c, d)
        x = ((features.to(center.dtype) - center) / deviation).to(features.dtype)  # (n, d)
        square = x.square().sum(1, keepdim=True) - 2 * x @ mean.T + mean.square().sum(1)
        return self.log_prior.to(features.dtype) - 0.5 * square.clamp_min(0)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) features -> (n, c) logits."""
        return self.logits(features)

    @property
    def head(self) -> Head:
        """A gaussian head with the fitted means, variances and prior."""
        return Head("gaussian", self._means(), log_variance=self.variance.log(), log_prior=self.log_prior)

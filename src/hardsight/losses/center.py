"""Center loss: softmax, plus a pull of each feature towards the center of its class (Wen et al., ECCV 2016)."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from hardsight.losses.contract import Reducing, check_batch, check_not_negative, in_full_precision, reduce
from hardsight.losses.softmax import SoftmaxLoss, softmax_loss


def center_loss(features: Tensor, centers: Tensor, labels: Tensor, **reducing: Unpack[Reducing]) -> Tensor:
    """1/2 |x - center_y|^2."""
    features, centers = in_full_precision(features, centers)
    return reduce(0.5 * ((features - centers[labels]) ** 2).sum(1), labels, **reducing)


def moved_centers(centers: Tensor, features: Tensor, labels: Tensor, rate: float) -> Tensor:
    """Centers moved towards their samples: center_k - rate * sum_{i of k} (center_k - x_i) / (1 + n_k)."""
    features = features.to(centers.dtype)
    delta = torch.zeros_like(centers).index_add_(0, labels, centers[labels] - features)  # (c, d)
    count = torch.bincount(labels, minlength=len(centers)).to(centers.dtype)  # (c,)
    return centers - rate * delta / (1 + count)[:, None]


class CenterLoss(SoftmaxLoss):
    """Softmax cross-entropy + `pull` * `center_loss`. Predictions come from the linear layer.

    Args:
        pull: weight of the center term.
        rate: step size of the centers, which follow the paper's update rule, not the optimizer.
    """

    centers: Tensor

    def __init__(self, num_features: int, num_classes: int, *, pull: float = 0.01, rate: float = 0.5, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.pull, self.rate = check_not_negative("pull", pull), check_not_negative("rate", rate)
        self.register_buffer("centers", torch.zeros(num_classes, num_features))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels; in training mode the centers are then updated."""
        check_batch(features, labels, self.num_features, self.num_classes)
        softmax = softmax_loss(features, self.weight, self.bias, labels, **self.reducing)
        loss = softmax + self.pull * center_loss(features, self.centers, labels, **self.reducing)
        if self.training:
            self.centers = moved_centers(self.centers, features.detach(), labels, self.rate)
        return loss

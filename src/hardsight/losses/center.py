"""Center loss: softmax, plus a pull of each feature towards the centre of its class (Wen et al., ECCV 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hardsight.losses.contract import Reduction, check_batch, check_not_negative, in_full_precision, reduce
from hardsight.losses.softmax import SoftmaxLoss, softmax_loss


def center_loss(
    features: Tensor, centres: Tensor, labels: Tensor, *, reduction: Reduction = "mean", class_weight: Tensor | None = None
) -> Tensor:
    """1/2 |x - centre_y|^2."""
    features, centres = in_full_precision(features, centres)
    return reduce(0.5 * ((features - centres[labels]) ** 2).sum(1), labels, reduction, class_weight)


def moved_centres(centres: Tensor, features: Tensor, labels: Tensor, rate: float) -> Tensor:
    """Centres moved towards their samples: centre_k - rate * sum_{i of k} (centre_k - x_i) / (1 + n_k)."""
    features = features.to(centres.dtype)
    delta = torch.zeros_like(centres).index_add_(0, labels, centres[labels] - features)  # (c, d)
    count = torch.bincount(labels, minlength=len(centres)).to(centres.dtype)  # (c,)
    return centres - rate * delta / (1 + count)[:, None]


class CenterLoss(SoftmaxLoss):
    """Softmax cross-entropy + `pull` * `center_loss`. Predictions come from the linear layer.

    Args:
        pull: weight of the centre term.
        rate: step size of the centres, which follow the paper's update rule, not the optimizer.
    """

    centres: Tensor

    def __init__(self, num_features: int, num_classes: int, *, pull: float = 0.01, rate: float = 0.5, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.pull, self.rate = check_not_negative("pull", pull), check_not_negative("rate", rate)
        self.register_buffer("centres", torch.zeros(num_classes, num_features))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels; in training mode the centres are then updated."""
        check_batch(features, labels, self.num_features, self.num_classes)
        softmax = softmax_loss(features, self.weight, self.bias, labels, **self.reducing)
        loss = softmax + self.pull * center_loss(features, self.centres, labels, **self.reducing)
        if self.training:
            self.centres = moved_centres(self.centres, features.detach(), labels, self.rate)
        return loss

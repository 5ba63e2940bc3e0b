"""NormFace: softmax on scaled cosines, with a learned or fixed scale (Wang et al., ACM MM 2017, arXiv:1704.06369)."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, check_positive, reduce
from hardsight.losses.cosine_softmax import cosine_cross_entropy, cosines


def normface_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, scale: float | Tensor = 20.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on scale * cos."""
    losses = cosine_cross_entropy(features, weight, labels, scale=scale)  # (n,)
    return reduce(losses, labels, **reducing)


class NormFaceLoss(HeadLoss):
    """`normface_loss` with its own class vectors.

    Args:
        scale: initial scale.
        learn_scale: whether to train it, as its logarithm so that it stays positive.
    """

    def __init__(
        self, num_features: int, num_classes: int, *, scale: float = 20.0, learn_scale: bool = True, **common: Any
    ) -> None:
        super().__init__(num_features, num_classes, **common)
        log_scale = torch.tensor(check_positive("scale", scale)).log()
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale, persistent=False)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return normface_loss(features, self.weight, labels, scale=self.log_scale.exp(), **self.reducing)

    def logits(self, features: Tensor) -> Tensor:
        """scale * cos: (n, d) -> (n, c)."""
        return self.log_scale.exp() * cosines(features, self.weight)

    @property
    def head(self) -> Head:
        """A cosine head with the current scale."""
        return Head("cosine", self.weight.detach(), scale=self.log_scale.exp().item())

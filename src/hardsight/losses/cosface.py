"""CosFace, also AM-softmax: a margin subtracted from the own cosine (Wang et al., CVPR 2018, arXiv:1801.09414)."""

from __future__ import annotations

from typing import Any, Unpack

from torch import Tensor

from hardsight.losses.contract import Reducing, check_batch, check_not_negative, check_positive, reduce
from hardsight.losses.cosine_softmax import ScaledCosineLoss, cosine_cross_entropy


def cosface_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, margin: float = 0.35, scale: float = 64.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on scale * cos, with scale * (cos - margin) for the own class."""
    losses = cosine_cross_entropy(features, weight, labels, scale=scale, margin=lambda own: own - margin)  # (n,)
    return reduce(losses, labels, **reducing)


class CosFaceLoss(ScaledCosineLoss):
    """`cosface_loss` with its own class vectors."""

    def __init__(self, num_features: int, num_classes: int, *, margin: float = 0.35, scale: float = 64.0, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.margin, self.scale = check_not_negative("margin", margin), check_positive("scale", scale)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return cosface_loss(features, self.weight, labels, margin=self.margin, scale=self.scale, **self.reducing)

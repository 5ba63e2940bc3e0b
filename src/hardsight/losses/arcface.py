"""ArcFace: a margin added to the own angle (Deng et al., CVPR 2019, arXiv:1801.07698).

cos(angle + margin) increases again once the angle exceeds pi - margin: a sample opposite to its class would be rewarded
for staying there. Beyond that point we use cos(angle) - margin * sin(margin), which keeps decreasing.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import Reducing, check_batch, check_positive, reduce
from hardsight.losses.cosine_softmax import ScaledCosineLoss, cosine_cross_entropy


def arcface_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, margin: float = 0.5, scale: float = 64.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on scale * cos, with scale * cos(angle + margin) for the own class; margin in radians."""
    losses = cosine_cross_entropy(features, weight, labels, scale=scale, margin=lambda own: added_angle(own, margin))  # (n,)
    return reduce(losses, labels, **reducing)


def added_angle(cosine: Tensor, margin: float) -> Tensor:
    """cos(angle + margin), continued past pi - margin so that it never increases: (n,) -> (n,)."""
    smallest = torch.finfo(cosine.dtype).eps  # the square root's slope is infinite at 0
    sine = (1 - cosine**2).clamp_min(smallest).sqrt()
    shifted = cosine * math.cos(margin) - sine * math.sin(margin)
    return torch.where(cosine > -math.cos(margin), shifted, cosine - margin * math.sin(margin))


class ArcFaceLoss(ScaledCosineLoss):
    """`arcface_loss` with its own class vectors; margin in radians (0.5 is 28.6 degrees)."""

    def __init__(self, num_features: int, num_classes: int, *, margin: float = 0.5, scale: float = 64.0, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        if not 0 <= margin < math.pi / 2:
            raise InputError(f"margin is in radians and must be in [0, pi/2), got {margin}.")
        self.margin, self.scale = margin, check_positive("scale", scale)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return arcface_loss(features, self.weight, labels, margin=self.margin, scale=self.scale, **self.reducing)

"""The AVH loss: cross-entropy on the negative scaled angles (Chen et al., Angular Visual Hardness, ICML 2020, eq. 5).

The paper prints exp(s(pi - angle_y)) / sum_k exp(s(pi - angle_k)), a probability. We take the loss to be its negative
logarithm; pi cancels, which leaves cross-entropy on -s * angle. Unlike a cosine, an angle has the same slope everywhere,
so a sample that points away from its class gets as large a gradient as any other.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from torch import Tensor

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, check_positive, reduce
from hardsight.losses.cosine_softmax import arccos, cosine_cross_entropy, cosines


def avh_logits(features: Tensor, weight: Tensor, *, scale: float = 10.0) -> Tensor:
    """-scale * angle: (n, d), (c, d) -> (n, c)."""
    return -scale * arccos(cosines(features, weight))


def avh_loss(features: Tensor, weight: Tensor, labels: Tensor, *, scale: float = 10.0, **reducing: Unpack[Reducing]) -> Tensor:
    """`F.cross_entropy(avh_logits(features, weight), labels)`, in about the time of a linear layer.

    Angles are computed in float32 or better, whatever the input dtype and autocast. The gradient of a sample is at most
    2 * scale over its length. A feature of zeros is at a right angle to everything and has a gradient of 0.

    Example:
        >>> import torch
        >>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # the sample halfway between two classes: log 2
        >>> avh_loss(torch.tensor([[3.0, 3.0]]), weight, torch.tensor([0]))
        tensor(0.6931)
    """
    losses = cosine_cross_entropy(features, weight, labels, scale=scale, logit="angular")  # (n,)
    return reduce(losses, labels, **reducing)


def smallest_scale(num_classes: int, probability: float) -> float:
    """The smallest scale at which a sample can reach this probability of its own class.

    At best, a sample lies along its class vector and the others are spread evenly: at an angle of arccos(-1/(c-1)).

    Example:
        >>> round(smallest_scale(1000, 0.99), 2)
        7.32
    """
    if num_classes < 2 or not 0 < probability < 1:
        raise InputError(f"two classes and a probability between 0 and 1 are needed, got {num_classes} and {probability}.")
    apart = math.acos(-1 / (num_classes - 1))
    return math.log(probability * (num_classes - 1) / (1 - probability)) / apart


class AVHLoss(HeadLoss):
    """`avh_loss` with its own class vectors.

    Args:
        scale: inverse temperature. The paper sets it by cross-validation; 10 works for up to about 100 classes, 20 to 30
            for 1000 (see `smallest_scale`).
    """

    def __init__(self, num_features: int, num_classes: int, *, scale: float = 10.0, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.scale = check_positive("scale", scale)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return avh_loss(features, self.weight, labels, scale=self.scale, **self.reducing)

    def logits(self, features: Tensor) -> Tensor:
        """-scale * angle: (n, d) -> (n, c)."""
        return avh_logits(features, self.weight, scale=self.scale)

    @property
    def head(self) -> Head:
        """An angular head with this scale."""
        return Head("angular", self.weight.detach(), scale=self.scale)

"""LeNet in its usual modern form: two 5 x 5 convolutions, two poolings, one hidden layer (LeCun et al., 1998)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hardsight.models.preprocessing import Preprocessing
from hardsight.models.sphere_conv import SphereConv2d

NETWORKS = ("lenet",)


class LeNet(nn.Module):
    """(b, 1, 28, 28) -> (b, c) logits: a trunk that ends in `num_features` features, and a linear head."""

    def __init__(self, trunk: nn.Sequential, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        self.trunk, self.head = trunk, nn.Linear(num_features, num_classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a step takes two thirds of the time on a CPU

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


def lenet(
    num_classes: int = 10, num_features: int = 128, relu: bool = True, hidden: int | None = None,
    channels: Sequence[int] = (20, 50), prelu: bool = False, sphere: bool = False,
) -> LeNet:  # fmt: skip
    """LeNet for 28 x 28 gray images.

    Args:
        num_classes: rows of the head.
        num_features: inputs of the head.
        relu: whether a ReLU follows the features; without it they may point anywhere.
        hidden: units of a layer before them, which few features need; None for none.
        channels: of the two convolutions.
        prelu: a learned slope below zero in the place of every other ReLU.
        sphere: hyperspherical convolutions, which leave norms out.
    """
    convolution = SphereConv2d if sphere else nn.Conv2d
    (first, second), bend = channels, nn.PReLU if prelu else nn.ReLU
    trunk = nn.Sequential(
        convolution(1, first, 5), nn.MaxPool2d(2), bend(),  # 28 -> 24 -> 12; pooled first, as that leaves less to bend
        convolution(first, second, 5), nn.MaxPool2d(2), bend(),  # 12 -> 8 -> 4
        nn.Flatten(), *([nn.Linear(16 * second, hidden), bend()] if hidden else []),
        nn.Linear(hidden or 16 * second, num_features), *([nn.ReLU()] if relu else []),
    )  # fmt: skip
    return LeNet(trunk, num_features, num_classes)

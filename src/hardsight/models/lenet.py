"""LeNet in its usual modern form: two 5 x 5 convolutions, two poolings, one hidden layer (LeCun et al., 1998)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hardsight.models.preprocessing import Preprocessing

NETWORKS = ("lenet",)


class LeNet(nn.Module):
    """LeNet for (b, 1, 28, 28) gray images: a trunk that ends in `num_features` features, and a linear head.

    Args:
        num_classes: rows of the head.
        num_features: inputs of the head.
        relu: whether a ReLU follows the features; without it they may point anywhere.
        hidden: units of a layer before them, which few features need; None for none.
        channels: of the two convolutions.
        prelu: a learned slope below zero in the place of every other ReLU.
    """

    convolution: type[nn.Conv2d] = nn.Conv2d  # for subclasses with another one

    def __init__(
        self, num_classes: int = 10, num_features: int = 128, relu: bool = True, hidden: int | None = None,
        channels: Sequence[int] = (20, 50), prelu: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        (first, second), bend = channels, nn.PReLU if prelu else nn.ReLU
        self.trunk = nn.Sequential(
            self.convolution(1, first, 5), nn.MaxPool2d(2), bend(),  # 28 -> 24 -> 12; pooled first: that leaves less to bend
            self.convolution(first, second, 5), nn.MaxPool2d(2), bend(),  # 12 -> 8 -> 4
            nn.Flatten(), *([nn.Linear(16 * second, hidden), bend()] if hidden else []),
            nn.Linear(hidden or 16 * second, num_features), *([nn.ReLU()] if relu else []),
        )  # fmt: skip
        self.head = nn.Linear(num_features, num_classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a step takes two thirds of the time on a CPU

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


lenet = LeNet  # by its name on the command line

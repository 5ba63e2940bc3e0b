"""LeNet in its usual modern form: two 5 x 5 convolutions, two poolings, one hidden layer (LeCun et al., 1998)."""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.models.preprocessing import Preprocessing

NETWORKS = ("lenet",)


class LeNet(nn.Module):
    """(b, 1, 28, 28) -> (b, c) logits, on `num_features` features.

    Args:
        relu: whether a ReLU follows the features; without it they may point anywhere.
        hidden: units of a layer before them, which few features need; None for none.
    """

    def __init__(self, num_classes: int = 10, num_features: int = 128, relu: bool = True, hidden: int | None = None) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),  # 28 -> 24 -> 12
            nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),  # 12 -> 8 -> 4
            nn.Flatten(), *([nn.Linear(800, hidden), nn.ReLU()] if hidden else []),
            nn.Linear(hidden or 800, num_features), *([nn.ReLU()] if relu else []),
        )  # fmt: skip
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


def lenet(num_classes: int = 10, num_features: int = 128, relu: bool = True, hidden: int | None = None) -> LeNet:
    """LeNet for 28 x 28 grey images."""
    return LeNet(num_classes, num_features, relu, hidden)

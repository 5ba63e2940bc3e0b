"""LeNet with two features and nothing after them: small enough to train in a minute, and its features fill the plane."""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.models.preprocessing import Preprocessing

NETWORKS = ("planar_lenet",)


class PlanarLeNet(nn.Module):
    """(b, 1, 28, 28) -> (b, c) logits on two features."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2),  # 28 -> 14
            nn.Conv2d(16, 32, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2),  # 14 -> 7
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 128),
            nn.PReLU(),
            nn.Linear(128, 2),
        )
        self.head = nn.Linear(2, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


def planar_lenet(num_classes: int = 10) -> PlanarLeNet:
    """LeNet with two features."""
    return PlanarLeNet(num_classes)

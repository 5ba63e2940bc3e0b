"""The small network of the benchmarks on 32 x 32 color images: three convolutions and 128 features."""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """(b, 3, 32, 32) -> (b, c) logits on 128 features."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(32), nn.ReLU(),  # 32 -> 16
            nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),  # 16 -> 8
            nn.Conv2d(64, 96, 3, padding=1, bias=False), nn.BatchNorm2d(96), nn.ReLU(), nn.MaxPool2d(2),  # 8 -> 4
            nn.Flatten(), nn.Linear(96 * 4 * 4, 128), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(128, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


def small_cnn(num_classes: int = 10) -> SmallCNN:
    """The small network of the benchmarks."""
    return SmallCNN(num_classes)

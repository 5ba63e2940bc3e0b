"""The small CNN of `hardsight demo`: 8 x 8 gray digits, 64 features, a linear head."""

from __future__ import annotations

from torch import Tensor, nn

NETWORKS = ("DigitsCNN",)  # what a config.json may name


class DigitsCNN(nn.Module):
    """Two convolutions, a hidden layer of 64 features, and a linear head on it.

    Args:
        num_classes: rows of the head.
        dropout: before the hidden layer and the head.
    """

    convolution: type[nn.Conv2d] = nn.Conv2d  # for subclasses with another one

    def __init__(self, num_classes: int = 10, dropout: float = 0.0) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            self.convolution(1, 16, 3, padding=1),
            nn.ReLU(),
            self.convolution(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),  # (b, 32, 4, 4)
            nn.Flatten() if dropout == 0 else nn.Sequential(nn.Flatten(), nn.Dropout(dropout)),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),  # (b, 64) the features
        )
        self.dropout = nn.Identity() if dropout == 0 else nn.Dropout(dropout)
        self.head = nn.Linear(64, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, 1, 8, 8) -> (b, c)"""
        logits: Tensor = self.head(self.dropout(self.trunk(images)))
        return logits

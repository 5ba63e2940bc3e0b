"""Points, and a small network on them, for tests that train one: "point_mlp:PointMLP"."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn


def points(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds in space, and which one each point is of."""
    labels = np.arange(n) % 3
    noise = np.random.default_rng(seed).normal(0, 0.4, (n, 3))
    return (np.eye(3)[labels] * 2 + noise).astype(np.float32), labels


class PointMLP(nn.Module):
    """(b, 3) -> (b, c) logits on two features, the hidden layer after its tanh."""

    def __init__(self, num_classes: int = 2) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.Tanh())
        self.head = nn.Linear(2, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(inputs))
        return logits

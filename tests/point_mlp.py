"""A small network on points, for tests that train one: "point_mlp:PointMLP"."""

from __future__ import annotations

from torch import Tensor, nn


class PointMLP(nn.Module):
    """(b, 3) -> (b, c) logits on two features, the hidden layer after its tanh."""

    def __init__(self, num_classes: int = 2) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.Tanh())
        self.head = nn.Linear(2, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(inputs))
        return logits

"""A small classifier on frozen features: one hidden layer with a ReLU, then the classes.

What follows a backbone in self-training: a linear layer to 512 features, a ReLU, a linear layer to the classes. The
features of this network are those after the ReLU.
"""

from __future__ import annotations

from torch import Tensor, nn

NETWORKS = ("feature_head",)


class FeatureHead(nn.Module):
    """(b, num_inputs) -> (b, c) logits on `num_features` features, the hidden layer after its ReLU."""

    def __init__(self, num_classes: int, num_inputs: int, num_features: int = 512) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_inputs, num_features)
        self.relu = nn.ReLU()
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, num_inputs) -> (b, c) logits."""
        logits: Tensor = self.head(self.relu(self.hidden(inputs)))
        return logits


def feature_head(num_classes: int, num_inputs: int, num_features: int = 512) -> FeatureHead:
    """A hidden layer and a linear head on frozen features."""
    return FeatureHead(num_classes, num_inputs, num_features)

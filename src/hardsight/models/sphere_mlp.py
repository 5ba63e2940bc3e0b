"""The MLP of the AVH paper's toy example: points on a sphere, one hidden layer of two (Chen et al., ICML 2020, appendix A).

The paper does not say what follows the hidden layer. Here it is tanh: after a ReLU, many of the points would have two
features of 0 and so no direction at all.
"""

from __future__ import annotations

from torch import Tensor, nn

NETWORKS = ("sphere_mlp",)


class SphereMLP(nn.Module):
    """(b, num_inputs) -> (b, c) logits on `num_features` features, the hidden layer after its tanh."""

    def __init__(self, num_classes: int = 2, num_inputs: int = 3, num_features: int = 2) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(num_inputs, num_features), nn.Tanh())
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, num_inputs) -> (b, c) logits."""
        logits: Tensor = self.head(self.hidden(inputs))
        return logits


def sphere_mlp(num_classes: int = 2, num_inputs: int = 3, num_features: int = 2) -> SphereMLP:
    """The MLP of the AVH paper's toy example."""
    return SphereMLP(num_classes, num_inputs, num_features)

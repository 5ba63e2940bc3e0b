"""A head of two layers: one hidden layer with a ReLU, then the classes.

What follows a backbone in self-training: a linear layer to 512 features, a ReLU, a linear layer to the classes. The
features are those after the ReLU. It is a network by itself on frozen features, or the end of another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

NETWORKS = ("feature_head",)


class FeatureHead(nn.Module):
    """(b, num_inputs) -> (b, c) logits on `num_features` features, the hidden layer after its ReLU."""

    def __init__(self, num_classes: int, num_inputs: int, num_features: int = 512) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_inputs, num_features)
        self.relu = nn.ReLU()
        self.head: nn.Module = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, num_inputs) -> (b, c) logits."""
        logits: Tensor = self.head(self.relu(self.hidden(inputs)))
        return logits


feature_head = FeatureHead  # by its name on the command line


@dataclass(frozen=True)
class HiddenLayer:
    """A hidden layer before the head of a network, as a config.json has it.

    Attributes:
        layer: the last layer of the network, which it takes the place of; the head is then `layer`.head.
        num_inputs: what that layer was given.
        num_features: hidden units.
    """

    layer: str
    num_inputs: int
    num_features: int

    def put_into(self, module: nn.Module) -> FeatureHead:
        """A head of two layers in the place of the last one; its second layer is to be replaced, too."""
        both = FeatureHead(1, self.num_inputs, self.num_features)
        module.set_submodule(self.layer, both, strict=True)
        return both

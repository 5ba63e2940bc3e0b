"""The network that teaches itself: everything up to its features, and one linear layer that is the head."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from hardsight.head import Head
from hardsight.models.head_layer import HeadLayer, shape_of
from hardsight.models.trainable import Trainable, cut_off


class Learner(nn.Module):
    """Inputs in, features and logits out.

    Args:
        source: the network; its last layer is taken out, and a linear one of our own follows.
        sample: (b, ...) a few inputs, to find that layer by.
        num_classes: c.
    """

    def __init__(self, source: Trainable, sample: Tensor, num_classes: int) -> None:
        super().__init__()
        self.source, self.network = source, source.module
        last, self.cut, _ = cut_off(self.network, sample)
        self.layer = last.tap.layer
        self.last = nn.Linear(last.head.num_features, num_classes)
        self.taught = source.learned and last.head.kind == "linear" and last.head.num_classes == num_classes
        if self.taught:
            with torch.no_grad():
                self.last.weight.copy_(torch.as_tensor(last.head.weight))
                self.last.bias.copy_(torch.zeros(num_classes) if last.head.bias is None else torch.as_tensor(last.head.bias))
        self.batch_norm = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in self.network.modules())

    def features(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, d)."""
        self.network(inputs)
        features, self.cut.features = self.cut.features, None
        assert features is not None
        return features

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.last(self.features(inputs))
        return logits

    @property
    def head(self) -> Head:
        return Head("linear", self.last.weight.detach().cpu().numpy().copy(), self.last.bias.detach().cpu().numpy().copy())

    def whole_network(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network from inputs to logits: its state dict, and what a config.json says of its head."""
        head = self.head
        state = dict(self.network.state_dict())
        state |= {f"{self.layer}.{name}": x for name, x in HeadLayer.of(head).state_dict().items()}
        return state, {"layer": self.layer, **shape_of(head)}

    def averaged(self) -> Learner:
        """A copy that follows this one as a moving average."""
        return copy.deepcopy(self).requires_grad_(False)


@torch.no_grad()
def follow(average: Learner, learner: Learner, decay: float) -> None:
    """average <- decay * average + (1 - decay) * learner; counts and other whole numbers are taken over."""
    for mean, now in zip(average.state_dict().values(), learner.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(now, 1 - decay)
        else:
            mean.copy_(now)

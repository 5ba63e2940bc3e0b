"""The network that teaches itself: everything up to its features, and one linear layer that is the head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardsight.head import Head
from hardsight.models.trainable import Trainable
from hardsight.training.network import CutNetwork


class Learner(CutNetwork):
    """Inputs in, logits out.

    Args:
        source, sample: see `CutNetwork`; a linear layer of our own follows the features.
        num_classes: c.
    """

    heads = ("last",)

    def __init__(self, source: Trainable, sample: Tensor, num_classes: int) -> None:
        super().__init__(source, sample)
        self.last = nn.Linear(self.num_features, num_classes)
        before = self.learned_head
        if before is not None and before.kind == "linear" and before.num_classes == num_classes:
            with torch.no_grad():
                self.last.weight.copy_(torch.as_tensor(before.weight))
                self.last.bias.copy_(torch.zeros(num_classes) if before.bias is None else torch.as_tensor(before.bias))
        self.has_batch_norm = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in self.network.modules())

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, c) logits."""
        logits: Tensor = self.last(self.features(inputs))
        return logits

    @property
    def batch_norm(self) -> bool:
        """Whether the samples of a batch are normalized by each other in training."""
        return self.has_batch_norm and not self.freeze_statistics

    @property
    def head(self) -> Head:
        """What the learner predicts with, as it is."""
        return Head("linear", self.last.weight.detach().cpu().numpy().copy(), self.last.bias.detach().cpu().numpy().copy())

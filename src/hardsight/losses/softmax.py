"""Softmax cross-entropy on a linear layer: the baseline for all other heads."""

from __future__ import annotations

from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, cross_entropy


def softmax_loss(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, **reducing: Unpack[Reducing]) -> Tensor:
    """Cross-entropy on features @ weight.T + bias."""
    return cross_entropy(F.linear(features, weight, bias), labels, **reducing)


class SoftmaxLoss(HeadLoss):
    """`softmax_loss` with its own class vectors and bias: `nn.Linear` and cross-entropy in one."""

    def __init__(self, num_features: int, num_classes: int, *, bias: bool = True, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return softmax_loss(features, self.weight, self.bias, labels, **self.reducing)

    def logits(self, features: Tensor) -> Tensor:
        """features @ weight.T + bias: (n, d) -> (n, c)."""
        return F.linear(features, self.weight, self.bias)

    @property
    def head(self) -> Head:
        """A linear head with this weight and bias."""
        return Head("linear", self.weight.detach(), None if self.bias is None else self.bias.detach())

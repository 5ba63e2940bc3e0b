"""A-Softmax (SphereFace): class vectors of length 1, the own angle multiplied by m (Liu et al., CVPR 2017, arXiv:1704.08063)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reduction, check_batch, in_full_precision
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.multiplied_angle import annealed, check_multiple, psi


def a_softmax_loss(
    features: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    m: int = 4,
    plain: float = 0.0,
    reduction: Reduction = "mean",
    class_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy on |x| cos, the own class's being |x| (plain * cos + psi) / (1 + plain)."""
    features, weight = in_full_precision(features, weight)
    with torch.autocast(features.device.type, enabled=False):
        cosine = cosines(features, weight)  # (n, c)
        own = cosine.gather(1, labels[:, None])  # (n, 1)
        own = (plain * own + psi(own, m)) / (1 + plain)
        logits = cosine.scatter(1, labels[:, None], own) * torch.linalg.vector_norm(features, dim=1, keepdim=True)
        return F.cross_entropy(logits, labels, class_weight, reduction=reduction)


class ASoftmaxLoss(HeadLoss):
    """`a_softmax_loss` with its own class vectors, and the share of the plain cosine annealed over training steps.

    Args:
        m: by how much the own angle is multiplied.
        base, gamma, power, smallest: the plain cosine's share is base * (1 + gamma * step)^-power, never below smallest.
    """

    step: Tensor

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        m: int = 4,
        base: float = 1500.0,
        gamma: float = 0.1,
        power: float = 1.0,
        smallest: float = 5.0,
        **common: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **common)
        self.m = check_multiple(m)
        self.base, self.gamma, self.power, self.smallest = base, gamma, power, smallest
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))  # training steps so far; resumes with the rest

    @property
    def plain(self) -> float:
        """The plain cosine's share now."""
        return annealed(int(self.step), base=self.base, gamma=self.gamma, power=self.power, smallest=self.smallest)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        check_batch(features, labels, self.num_features, self.num_classes)
        options: Any = {"m": self.m, "plain": self.plain, "reduction": self.reduction, "class_weight": self.class_weight}
        loss = a_softmax_loss(features, self.weight, labels, **options)
        if self.training:
            self.step += 1
        return loss

    def logits(self, features: Tensor) -> Tensor:
        features, weight = in_full_precision(features, self.weight)
        return cosines(features, weight) * torch.linalg.vector_norm(features, dim=1, keepdim=True)

    @property
    def head(self) -> Head:
        weight = self.weight.detach()
        return Head("linear", weight / torch.linalg.vector_norm(weight, dim=1, keepdim=True))

"""A-Softmax (SphereFace): unit class vectors, with the own angle multiplied by m (Liu et al., CVPR 2017, arXiv:1704.08063)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from hardsight.head import Head
from hardsight.losses.contract import Reducing, cross_entropy, in_full_precision
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.multiplied_angle import Annealing, MultipliedAngleLoss, psi


def a_softmax_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, m: int = 4, plain: float = 0.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on |x| cos, with |x| (plain * cos + psi) / (1 + plain) for the own class."""
    features, weight = in_full_precision(features, weight)
    with torch.autocast(features.device.type, enabled=False):
        cosine = cosines(features, weight)  # (n, c)
        own = cosine.gather(1, labels[:, None])  # (n, 1)
        own = (plain * own + psi(own, m)) / (1 + plain)
        logits = cosine.scatter(1, labels[:, None], own) * torch.linalg.vector_norm(features, dim=1, keepdim=True)
        return cross_entropy(logits, labels, **reducing)


class ASoftmaxLoss(MultipliedAngleLoss):
    """`a_softmax_loss` with its own class vectors, and the share of the plain cosine annealed over training steps."""

    loss = staticmethod(a_softmax_loss)
    paper = Annealing(base=1500.0, gamma=0.1, power=1.0, smallest=5.0)

    def logits(self, features: Tensor) -> Tensor:
        """|x| cos, without the multiple: (n, d) -> (n, c)."""
        features, weight = in_full_precision(features, self.weight)
        return cosines(features, weight) * torch.linalg.vector_norm(features, dim=1, keepdim=True)

    @property
    def head(self) -> Head:
        """A linear head of unit class vectors, without bias."""
        weight = self.weight.detach()
        return Head("linear", weight / torch.linalg.vector_norm(weight, dim=1, keepdim=True))

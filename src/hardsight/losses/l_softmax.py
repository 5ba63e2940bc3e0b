"""L-Softmax: a linear layer with the own angle multiplied by m (Liu et al., ICML 2016, arXiv:1612.02295)."""

from __future__ import annotations

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.head import Head
from hardsight.losses.contract import Reducing, cross_entropy, in_full_precision
from hardsight.losses.cosine_softmax import inverse_norms
from hardsight.losses.multiplied_angle import Annealing, MultipliedAngleLoss, psi


def l_softmax_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, m: int = 4, plain: float = 0.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on |w| |x| cos, with |w| |x| (plain * cos + psi) / (1 + plain) for the own class."""
    features, weight = in_full_precision(features, weight)
    with torch.autocast(features.device.type, enabled=False):
        own_weight = weight[labels]  # (n, d)
        product = (features * own_weight).sum(1)  # (n,)
        cosine = product * inverse_norms(features) * inverse_norms(own_weight)
        length = torch.linalg.vector_norm(features, dim=1) * torch.linalg.vector_norm(own_weight, dim=1)
        own = (plain * product + length * psi(cosine, m)) / (1 + plain)  # (n,)
        logits = (features @ weight.T).scatter(1, labels[:, None], own[:, None])  # (n, c)
        return cross_entropy(logits, labels, **reducing)


class LSoftmaxLoss(MultipliedAngleLoss):
    """`l_softmax_loss` with its own class vectors, and the share of the plain cosine annealed over training steps."""

    loss = staticmethod(l_softmax_loss)
    paper = Annealing(base=1000.0, gamma=2e-5, power=45.0, smallest=0.0)

    def logits(self, features: Tensor) -> Tensor:
        """The logits of a linear layer: (n, d) -> (n, c)."""
        return F.linear(features, self.weight)

    @property
    def head(self) -> Head:
        """A linear head without bias."""
        return Head("linear", self.weight.detach())

"""Losses that multiply the own angle by m: L-Softmax and A-Softmax (SphereFace), with psi and its annealing, which both use.

L-Softmax is a linear layer (Liu et al., ICML 2016, arXiv:1612.02295); A-Softmax has unit class vectors (Liu et al., CVPR 2017,
arXiv:1704.08063).

psi(angle) = (-1)^k cos(m angle) - 2k for angle in [k pi/m, (k+1) pi/m]: cos(m angle), continued so that it always decreases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.checks import check_count
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, cross_entropy, in_full_precision
from hardsight.losses.cosine_softmax import cosines, inverse_norms


def psi(cosine: Tensor, m: int) -> Tensor:
    """psi from the cosine, by Chebyshev's recursion: without arccos, so the slope is at most m^2. (n,) -> (n,)

    Example:
        >>> psi(torch.tensor([1.0, 0.0, -1.0]), 4)  # 0, 90 and 180 degrees
        tensor([ 1., -3., -7.])
    """
    m = check_count(m, "m", 1)
    with torch.no_grad():
        k = (cosine.clamp(-1, 1).acos() * (m / math.pi)).floor().clamp_max(m - 1)
    before, cos_m = torch.ones_like(cosine), cosine
    for _ in range(m - 1):  # cos((j + 1) angle) = 2 cos(angle) cos(j angle) - cos((j - 1) angle)
        before, cos_m = cos_m, 2 * cosine * cos_m - before
    return (1 - 2 * (k % 2)) * cos_m - 2 * k


class Annealing(NamedTuple):
    """The share of the plain cosine: base * (1 + gamma * step)^-power, never below `smallest`.

    Example:
        >>> Annealing(base=1000.0, gamma=2e-5, power=45.0, smallest=0.0).at(0)
        1000.0
    """

    base: float
    gamma: float
    power: float
    smallest: float

    def at(self, step: int) -> float:
        """The share of the plain cosine at a training step."""
        return max(self.smallest, self.base * (1 + self.gamma * step) ** -self.power)


class MultipliedAngleLoss(HeadLoss):
    """A loss that multiplies the own angle by m, with the share of the plain cosine annealed over training steps.

    Args:
        m: factor that multiplies the own angle.
        base: share of the plain cosine at the start; None as in the paper, see `paper`.

    Attributes:
        loss: function of (features, weight, labels, m=, plain=, ...).
        paper: annealing as the authors use it.
    """

    loss: ClassVar[Callable[..., Tensor]]
    paper: ClassVar[Annealing]
    step: Tensor

    def __init__(self, num_features: int, num_classes: int, *, m: int = 4, base: float | None = None, **common: Any) -> None:
        super().__init__(num_features, num_classes, **common)
        self.m = check_count(m, "m", 1)
        self.annealing = self.paper if base is None else self.paper._replace(base=base)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))  # training steps so far; part of checkpoints

    @property
    def plain(self) -> float:
        """The share of the plain cosine at the current step."""
        return self.annealing.at(int(self.step))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss at the current step; in training mode the step counter then increases."""
        check_batch(features, labels, self.num_features, self.num_classes)
        loss = type(self).loss(features, self.weight, labels, m=self.m, plain=self.plain, **self.reducing)
        if self.training:
            self.step += 1
        return loss


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

"""psi, the multiplied angle of L-Softmax and A-Softmax, and its annealing, shared by the two losses.

psi(angle) = (-1)^k cos(m angle) - 2k for angle in [k pi/m, (k+1) pi/m]: cos(m angle), continued so that it always decreases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from hardsight.checks import check_count
from hardsight.losses.contract import HeadLoss, check_batch


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

"""ICNN: how well a sample's neighbors match its class, as a score and as a loss (SuSana Distancia, arXiv:2305.09062).

The paper's score has a part that counts neighbors and a part that measures distances; how we combine them is our choice,
described below. It also measures the quality of an embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import PairLoss, Reduction, checked_pairs, reduce_plain
from hardsight.losses.contrastive import pair_squares

NO_DISTANCE = 1e-12  # if all samples coincide, all distances count as 0


def icnn_scores(features: Tensor, labels: Tensor, *, neighbors: int = 5) -> Tensor:
    """(n,) scores in [0, 1], 1 is best: the mean of a share and a closeness, both over the nearest neighbors.

    The share counts neighbors of the own class; it has no gradient. The closeness is the mean of 1 - u over neighbors of
    the own class and u over the others, where u is the distance divided by that to the farthest sample of the batch.
    """
    features = checked_pairs(features, labels)
    if neighbors < 1:
        raise InputError(f"there must be at least one neighbor, got {neighbors}.")
    if len(labels) < 2:
        raise InputError("neighbors need at least two samples.")
    square = pair_squares(features)
    hidden = square.detach().clone().fill_diagonal_(torch.inf)
    near = hidden.topk(min(neighbors, len(labels) - 1), largest=False).indices  # (n, k)
    same = labels[near] == labels[:, None]  # (n, k)
    distance = torch.where(square > 0, square, 1).sqrt() * (square > 0)  # slope 0 if two samples coincide
    u = distance.gather(1, near) / distance.amax(1, keepdim=True).clamp_min(NO_DISTANCE)  # (n, k)
    closeness = torch.where(same, 1 - u, u).mean(1)
    return (same.to(u.dtype).mean(1) + closeness) / 2


def icnn_loss(features: Tensor, labels: Tensor, *, neighbors: int = 5, reduction: Reduction = "mean") -> Tensor:
    """-log of the scores, clamped at 1e-6."""
    return reduce_plain(-icnn_scores(features, labels, neighbors=neighbors).clamp_min(1e-6).log(), reduction)


class ICNNLoss(PairLoss):
    """`icnn_loss` as a module."""

    def __init__(self, *, neighbors: int = 5, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.neighbors = neighbors

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        return icnn_loss(features, labels, neighbors=self.neighbors, reduction=self.reduction)

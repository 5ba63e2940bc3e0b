"""Contrastive loss, squared and halved as in the L-GM slides (Hadsell et al., CVPR 2006)."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import PairLoss, Reduction, check_positive, checked_pairs, reduce_plain
from hardsight.losses.triplet import Miner, mined_by

PairMining = Literal["all", "hard"]


def contrastive_loss(
    features: Tensor, labels: Tensor, *, margin: float = 1.0, mining: PairMining | Miner = "all", reduction: Reduction = "mean"
) -> Tensor:
    """For each pair of a batch: 1/2 |x_i - x_j|^2 if of one class, else 1/2 max(0, margin - |x_i - x_j|)^2.

    "mean" is over all these pairs, including those with zero loss. Without pairs the loss is 0.

    Args:
        features: (n, d).
        labels: (n,) any integers.
        margin: distance beyond which samples of different classes are far enough apart.
        mining: "all" pairs; "hard": for each sample, the farthest of its class and the nearest of another class, by the
            distance of this loss, each pair once. Or a miner: a function of features and labels that returns index tensors of
            triplets (a, p, n) or of pairs (a, p, a, n), such as those of pytorch-metric-learning.
        reduction: "mean", "sum" or "none".

    Example:
        >>> features = torch.tensor([[0.0, 0.0], [0.6, 0.8], [0.0, 0.5]])  # 1, 0.5 and 0.67 apart
        >>> contrastive_loss(features, torch.tensor([0, 0, 1]), reduction="none")
        tensor([0.5000, 0.1250, 0.0542])
    """
    features = checked_pairs(features, labels)
    if not callable(mining) and mining not in get_args(PairMining):
        raise InputError(f"mining must be one of {', '.join(get_args(PairMining))}, or a miner, got {mining!r}.")
    squares = pair_squares(features)  # (n, n)
    i, j = _pairs(mining, features.detach(), labels, squares.detach())  # (pairs,) each
    if not len(i):
        return features.sum() * 0
    same = labels[i] == labels[j]
    square = squares[i, j]  # (pairs,)
    distance = torch.where(square > 0, square, 1).sqrt() * (square > 0)  # slope 0 if two samples coincide
    losses = 0.5 * torch.where(same, square, (margin - distance).clamp_min(0) ** 2)
    return reduce_plain(losses, reduction)


def _pairs(mining: PairMining | Miner, features: Tensor, labels: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the pairs to use."""
    if mining == "all" or len(labels) == 0:
        i, j = torch.triu_indices(len(labels), len(labels), 1, device=labels.device)
        return i, j
    if callable(mining):
        named = mined_by(mining, features, labels)
        a, p, b, n = named if len(named) == 4 else (named[0], named[1], named[0], named[2])
        return _distinct(torch.cat([a, b]), torch.cat([p, n]), len(labels))
    same, itself = labels[:, None] == labels, torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    own = squares.masked_fill(~same | itself, -torch.inf)
    other = squares.masked_fill(same, torch.inf)
    (to_own, farthest), (to_other, nearest) = own.max(1), other.min(1)  # (n,) each
    has_own, has_other = (to.isfinite().nonzero()[:, 0] for to in (to_own, to_other))
    return _distinct(torch.cat([has_own, has_other]), torch.cat([farthest[has_own], nearest[has_other]]), len(labels))


def _distinct(i: Tensor, j: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Each pair once, with the smaller index first."""
    pair = (torch.minimum(i, j) * n + torch.maximum(i, j)).unique()
    return pair // n, pair % n


def pair_squares(features: Tensor) -> Tensor:
    """(n, d) -> (n, n) squared distances, 0 on the diagonal; centered first to keep the precision of far-off features."""
    with torch.autocast(features.device.type, enabled=False):
        x = features - features.detach().mean(0)
        square = x.square().sum(1)
        between = (square[:, None] - 2 * x @ x.T + square).clamp_min(0)
        return between * (1 - torch.eye(len(x), dtype=x.dtype, device=x.device))


class ContrastiveLoss(PairLoss):
    """`contrastive_loss` as a module."""

    def __init__(self, *, margin: float = 1.0, mining: PairMining | Miner = "all", reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin, self.mining = check_positive("margin", margin), mining

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        return contrastive_loss(features, labels, margin=self.margin, mining=self.mining, reduction=self.reduction)

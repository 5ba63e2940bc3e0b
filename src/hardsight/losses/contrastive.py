"""Contrastive loss, squared and halved as in the L-GM slides (Hadsell et al., CVPR 2006)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardsight.losses.contract import Reduction, check_pairs, check_positive, check_reduction, in_full_precision, reduce_plain


def contrastive_loss(features: Tensor, labels: Tensor, *, margin: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Over all pairs of a batch: 1/2 |x_i - x_j|^2 if of one class, else 1/2 max(0, margin - |x_i - x_j|)^2.

    "mean" is over all pairs, those at zero loss too. Without a pair the loss is 0.

    Example:
        >>> features = torch.tensor([[0.0, 0.0], [0.6, 0.8], [0.0, 0.5]])  # 1, 0.5 and 0.67 apart
        >>> contrastive_loss(features, torch.tensor([0, 0, 1]), reduction="none")
        tensor([0.5000, 0.1250, 0.0542])
    """
    check_pairs(features, labels)
    (features,) = in_full_precision(features)
    i, j = torch.triu_indices(len(labels), len(labels), 1, device=labels.device)  # (pairs,) each
    if not len(i):
        return features.sum() * 0
    same = labels[i] == labels[j]
    square = pair_squares(features)[i, j]  # (pairs,)
    distance = torch.where(square > 0, square, 1).sqrt() * (square > 0)  # slope 0 where two samples coincide
    losses = 0.5 * torch.where(same, square, (margin - distance).clamp_min(0) ** 2)
    return reduce_plain(losses, reduction)


def pair_squares(features: Tensor) -> Tensor:
    """(n, d) -> (n, n) squared distances, 0 on the diagonal; centred first so that far-off features keep their digits."""
    with torch.autocast(features.device.type, enabled=False):
        x = features - features.detach().mean(0)
        square = x.square().sum(1)
        between = (square[:, None] - 2 * x @ x.T + square).clamp_min(0)
        return between * (1 - torch.eye(len(x), dtype=x.dtype, device=x.device))


class ContrastiveLoss(nn.Module):
    """`contrastive_loss` as a module."""

    def __init__(self, *, margin: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.margin, self.reduction = check_positive("margin", margin), check_reduction(reduction)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        return contrastive_loss(features, labels, margin=self.margin, reduction=self.reduction)

"""The Z-loss: softplus of the own logit's z-score among all logits (de Brebisson and Vincent, arXiv:1604.08859).

It is not the (log Z)^2 penalty of language models, which is also called z-loss; hence the name.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, Reduction, check_positive, checked_logits, reduce_plain


def znorm_loss(
    logits: Tensor, labels: Tensor, *, sharpness: float = 1.0, target: float | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """log(1 + exp(a (b - z_y))) / a, with z the logits minus their mean, divided by their standard deviation over classes.

    a is `sharpness`, b is `target`. A z-score is at most sqrt(c - 1), and b must be below that; the default is half of it.
    Adding a number to all logits, or multiplying them by a positive one, changes nothing. So with two classes z_y is always
    +1 or -1 and there is nothing to learn: use more classes.
    """
    logits = checked_logits(logits, labels)
    highest = math.sqrt(logits.shape[1] - 1)
    b = highest / 2 if target is None else target
    if b >= highest:
        raise InputError(f"target must be below sqrt(c - 1) = {highest:.4g}, the highest possible z-score, got {b}.")
    centered = logits - logits.mean(1, keepdim=True)  # (n, c)
    variance = centered.square().mean(1, keepdim=True).clamp_min(torch.finfo(logits.dtype).tiny ** 0.5)
    z = centered.gather(1, labels[:, None])[:, 0] * variance[:, 0].rsqrt()  # (n,)
    return reduce_plain(F.softplus(sharpness * (b - z)) / sharpness, reduction)


class ZNormLoss(LogitLoss):
    """`znorm_loss` as a module."""

    def __init__(self, *, sharpness: float = 1.0, target: float | None = None, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.sharpness, self.target = check_positive("sharpness", sharpness), target

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels."""
        return znorm_loss(logits, labels, sharpness=self.sharpness, target=self.target, reduction=self.reduction)

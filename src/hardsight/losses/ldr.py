"""LDR-KL: label-distributionally robust loss with a KL ball (Zhu, Ying, Yang, ICML 2023, arXiv:2112.14869).

lambda * log( (1/c) sum_k exp((z_k - z_y + margin [k != y]) / lambda) ): lambda near 0 is the Crammer-Singer hinge, lambda = 1
without margin is cross-entropy minus log c.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, Reduction, check_not_negative, check_positive, checked_logits, reduce_plain

Normalize = Literal["none", "softplus", "l1"]


def ldr_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    margin: float = 2.0,
    normalize: Normalize = "softplus",
    reduction: Reduction = "mean",
) -> Tensor:
    """The formula above, with lambda = temperature: one number, or (n,) one per sample."""
    logits = checked_logits(logits, labels)
    gaps = margin_gaps(normalized(logits, normalize), labels, margin)  # (n, c)
    t = torch.as_tensor(temperature, dtype=gaps.dtype, device=gaps.device).reshape(-1, 1)  # (1, 1) or (n, 1)
    losses = t[:, 0] * (torch.logsumexp(gaps / t, dim=1) - math.log(gaps.shape[1]))  # (n,)
    return reduce_plain(losses, reduction)


def margin_gaps(logits: Tensor, labels: Tensor, margin: float) -> Tensor:
    """z_k - z_y + margin for the other classes, 0 for the own class: (n, c)."""
    own = labels[:, None]
    gaps = logits - logits.gather(1, own) + margin
    return gaps.scatter(1, own, 0.0)


def normalized(logits: Tensor, how: Normalize) -> Tensor:
    """Normalized logits: "softplus" divides by its mean, "l1" by the mean absolute value; otherwise unchanged."""
    if how not in get_args(Normalize):
        raise InputError(f"normalize must be one of {', '.join(get_args(Normalize))}, got {how!r}.")
    if how == "none":
        return logits
    size = F.softplus(logits) if how == "softplus" else logits
    smallest = torch.finfo(logits.dtype).tiny ** 0.5  # all-zero logits stay zero
    return size / size.abs().mean(1, keepdim=True).clamp_min(smallest)


class LDRLoss(LogitLoss):
    """`ldr_loss` as a module."""

    def __init__(
        self, *, temperature: float = 1.0, margin: float = 2.0, normalize: Normalize = "softplus", reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.temperature, self.margin = check_positive("temperature", temperature), check_not_negative("margin", margin)
        self.normalize = normalize

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels."""
        return ldr_loss(
            logits,
            labels,
            temperature=self.temperature,
            margin=self.margin,
            normalize=self.normalize,
            reduction=self.reduction,
        )

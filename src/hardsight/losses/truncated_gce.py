"""Truncated generalized cross-entropy: unlikely samples are ignored (Zhang and Sabuncu, NeurIPS 2018).

(1 - p_y^q) / q if p_y is above k, and the constant (1 - k^q) / q below: a label that is probably wrong has no gradient.
Before a network has learned anything, that would be every label, so the first epochs are not truncated.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.comp_sum import comp_sum_loss
from hardsight.losses.contract import LogitLoss, Reduction, check_not_negative, reduce_plain


def truncated_gce_loss(
    logits: Tensor, labels: Tensor, *, q: float = 0.7, k: float = 0.5, reduction: Reduction = "mean"
) -> Tensor:
    """min((1 - p_y^q) / q, (1 - k^q) / q).

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.0, 0.0, 0.0, 0.0]])  # p_y = 1/4, below k
        >>> truncated_gce_loss(logits, torch.tensor([0]), q=1.0, k=0.5)
        tensor(0.5000)
    """
    _check(q, k)
    largest = (1 - k**q) / q
    losses = comp_sum_loss(logits, labels, tau=1 + q, reduction="none")  # (n,)
    return reduce_plain(losses.clamp_max(largest), reduction)


class TruncatedGCELoss(LogitLoss):
    """`truncated_gce_loss` as a module.

    Args:
        q: from cross-entropy (towards 0) to mean absolute error (1).
        k: probability of the own class below which a sample is ignored.
        warmup_epochs: number of initial epochs in which every sample counts; set the epoch with `set_epoch`.
    """

    def __init__(self, *, q: float = 0.7, k: float = 0.5, warmup_epochs: float = 0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        _check(q, k)
        self.q, self.k = q, k
        self.warmup_epochs, self.epoch = check_not_negative("warmup_epochs", warmup_epochs), 0.0

    @classmethod
    def default_options(cls, epochs: int) -> dict[str, Any]:
        """40 of 120 epochs in the paper; without any, nothing would ever be learned."""
        return {"warmup_epochs": epochs / 3}

    def set_epoch(self, epoch: float) -> None:
        """Set the epoch, counted from 0, for the warm-up."""
        self.epoch = epoch

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels, without truncation during the warm-up."""
        k = self.k if self.epoch >= self.warmup_epochs else 0.0
        return truncated_gce_loss(logits, labels, q=self.q, k=k, reduction=self.reduction)


def _check(q: float, k: float) -> None:
    if not 0 < q <= 1:
        raise InputError(f"q must be above 0 and at most 1, got {q}.")
    if not 0 <= k < 1:
        raise InputError(f"k must be a probability below 1, got {k}.")

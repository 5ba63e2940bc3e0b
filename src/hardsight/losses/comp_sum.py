"""The comp-sum family: tau interpolates between sum-exponential, cross-entropy and MAE (Mao et al., ICML 2023, arXiv:2304.07288).

With u = sum_{k != y} exp(z_k - z_y) = 1/p_y - 1, the loss is ((1 + u)^(1 - tau) - 1) / (1 - tau), and log(1 + u) at tau = 1:

    tau = 0    1/p_y - 1                            sum-exponential
    tau = 1    -log p_y                             cross-entropy
    1 < tau < 2   (1 - p_y^(tau - 1)) / (tau - 1)   generalized cross-entropy
    tau = 2    1 - p_y                              mean absolute error (half of it)

Truncated generalized cross-entropy ignores unlikely samples (Zhang and Sabuncu, NeurIPS 2018): (1 - p_y^q) / q if p_y is above k,
and the constant (1 - k^q) / q below: a label that is probably wrong has no gradient. Before a network has learned anything, that
would be every label, so the first epochs are not truncated.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, Reduction, check_not_negative, checked_logits, reduce_plain


def comp_sum_loss(logits: Tensor, labels: Tensor, *, tau: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Phi_tau(u) from log p_y, which is accurate at both ends.

    Example:
        >>> logits = torch.zeros(1, 4)  # p_y = 1/4
        >>> [round(float(comp_sum_loss(logits, torch.tensor([0]), tau=tau)), 4) for tau in (0, 1, 1.5, 2)]
        [3.0, 1.3863, 1.0, 0.75]
    """
    check_not_negative("tau", tau)
    logits = checked_logits(logits, labels)
    log_p = -F.cross_entropy(logits, labels, reduction="none")  # (n,)
    largest = 0.5 * math.log(torch.finfo(log_p.dtype).max)  # keeps 1/p of a hopeless sample (p < 1e-19) finite
    losses = -log_p if tau == 1 else torch.expm1(((tau - 1) * log_p).clamp_max(largest)) / (1 - tau)
    return reduce_plain(losses, reduction)


class CompSumLoss(LogitLoss):
    """`comp_sum_loss` as a module. tau = 1.7 is generalized cross-entropy with q = 0.7, for noisy labels."""

    def __init__(self, *, tau: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.tau = check_not_negative("tau", tau)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels."""
        return comp_sum_loss(logits, labels, tau=self.tau, reduction=self.reduction)


def truncated_gce_loss(
    logits: Tensor, labels: Tensor, *, q: float = 0.7, k: float = 0.5, reduction: Reduction = "mean"
) -> Tensor:
    """min((1 - p_y^q) / q, (1 - k^q) / q).

    Example:
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
        self.warmup_epochs = check_not_negative("warmup_epochs", warmup_epochs)

    @classmethod
    def default_options(cls, epochs: int) -> dict[str, Any]:
        """40 of 120 epochs in the paper; without any, nothing would ever be learned."""
        return {"warmup_epochs": epochs / 3}

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels, without truncation during the warm-up."""
        k = self.k if self.epoch >= self.warmup_epochs else 0.0
        return truncated_gce_loss(logits, labels, q=self.q, k=k, reduction=self.reduction)


def _check(q: float, k: float) -> None:
    if not 0 < q <= 1:
        raise InputError(f"q must be above 0 and at most 1, got {q}.")
    if not 0 <= k < 1:
        raise InputError(f"k must be a probability below 1, got {k}.")

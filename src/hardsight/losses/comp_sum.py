"""The comp-sum family: tau interpolates between sum-exponential, cross-entropy and MAE (Mao et al., ICML 2023, arXiv:2304.07288).

With u = sum_{k != y} exp(z_k - z_y) = 1/p_y - 1, the loss is ((1 + u)^(1 - tau) - 1) / (1 - tau), and log(1 + u) at tau = 1:

    tau = 0    1/p_y - 1                            sum-exponential
    tau = 1    -log p_y                             cross-entropy
    1 < tau < 2   (1 - p_y^(tau - 1)) / (tau - 1)   generalized cross-entropy
    tau = 2    1 - p_y                              mean absolute error (half of it)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

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

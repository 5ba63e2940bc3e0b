"""EnsLoss: for two classes, a new random convex calibrated loss at every step (Dai, ICML 2025, arXiv:2409.00908).

Only the slopes of the loss are drawn: negative, and smaller in magnitude for larger margins, as for any convex calibrated
loss. The returned value has those slopes; the value itself has no meaning.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, Reduction, checked_logits, reduce_plain


def ens_loss(
    logits: Tensor, labels: Tensor, *, reduction: Reduction = "mean", generator: torch.Generator | None = None
) -> Tensor:
    """slope * margin, with fixed slopes; margin = z_1 - z_0 for class 1, z_0 - z_1 for class 0."""
    logits = checked_logits(logits, labels)
    if logits.shape[1] != 2:
        raise InputError(f"EnsLoss is for two classes, got logits {tuple(logits.shape)}.")
    margin = (logits[:, 1] - logits[:, 0]) * (2 * labels - 1)  # (n,)
    slopes = random_slopes(margin.detach(), generator)
    return reduce_plain(slopes * margin, reduction)


def random_slopes(margin: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """(n,) negative slopes: -exp(normal), at least -1, the steepest at the smallest margin, divided by margins above 1."""
    normal = torch.randn(margin.shape, generator=generator, dtype=margin.dtype, device=margin.device)
    drawn = (-normal.exp()).clamp_min(-1).sort().values  # ascending: steepest first
    slopes = torch.empty_like(drawn)
    slopes[margin.argsort()] = drawn
    return torch.where(margin > 1, slopes / margin.clamp_min(1), slopes) - 1e-6


class EnsLoss(LogitLoss):
    """`ens_loss` as a module; pass a generator for reproducible slopes."""

    def __init__(self, *, reduction: Reduction = "mean", generator: torch.Generator | None = None) -> None:
        super().__init__(reduction=reduction)
        self.generator = generator

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, 2) logits and (n,) labels, with newly drawn slopes."""
        return ens_loss(logits, labels, reduction=self.reduction, generator=self.generator)

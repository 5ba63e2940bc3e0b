"""EnsLoss: for two classes, a new random convex calibrated loss at every step (Dai, ICML 2025, arXiv:2409.00908).

Only the slopes of the loss are drawn: negative, and smaller in magnitude for larger margins, as for any convex calibrated
loss. The returned value has those slopes; the value itself has no meaning. The slopes are those of normal numbers z through the
inverse Box-Cox transform,

    -(1 + lambda z)^(1/lambda),    -exp(z) at lambda = 0,    0 where 1 + lambda z <= 0 < lambda

whose lambda is drawn anew, uniformly from -1 to 1, every `period` epochs; in the first period it is 0, as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hardsight.checks import check_count
from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, Reduction, checked_logits, reduce_plain


def ens_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    power: float = 0.0,
    reduction: Reduction = "mean",
    generator: torch.Generator | None = None,
) -> Tensor:
    """slope * margin, with fixed slopes; margin = z_1 - z_0 for class 1, z_0 - z_1 for class 0; `power` is lambda."""
    logits = checked_logits(logits, labels)
    if logits.shape[1] != 2:
        raise InputError(f"EnsLoss is for two classes, got logits {tuple(logits.shape)}.")
    margin = (logits[:, 1] - logits[:, 0]) * (2 * labels - 1)  # (n,)
    slopes = random_slopes(margin.detach(), power, generator)
    return reduce_plain(slopes * margin, reduction)


def random_slopes(margin: Tensor, power: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
    """(n,) negative slopes, at least -1, the steepest at the smallest margin, divided by margins above 1."""
    normal = torch.randn(margin.shape, generator=generator, dtype=margin.dtype, device=margin.device)
    drawn = (-inverse_box_cox(normal, power)).clamp_min(-1).sort().values  # ascending: steepest first
    slopes = torch.empty_like(drawn)
    slopes[margin.argsort()] = drawn
    return torch.where(margin > 1, slopes / margin.clamp_min(1), slopes) - 1e-6


def inverse_box_cox(z: Tensor, power: float) -> Tensor:
    """(1 + lambda z)^(1/lambda), where that has no value 0 for lambda above 0 and infinity below: (n,) -> (n,).

    Example:
        >>> z = torch.tensor([-2.0, 0.0, 0.5])
        >>> inverse_box_cox(z, 1.0), inverse_box_cox(z, -1.0)
        (tensor([0.0000, 1.0000, 1.5000]), tensor([0.3333, 1.0000, 2.0000]))
    """
    return z.exp() if abs(power) < 1e-6 else (1 + power * z).clamp_min(0) ** (1 / power)


class EnsLoss(LogitLoss):
    """`ens_loss` as a module; pass a generator for reproducible slopes.

    Args:
        period: epochs after which lambda is drawn anew; set the epoch with `set_epoch`.
    """

    power: Tensor
    number: Tensor

    def __init__(self, *, period: int = 10, generator: torch.Generator | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.period, self.generator = check_count(period, "period", least=1), generator
        self.register_buffer("power", torch.zeros(()))  # lambda; part of checkpoints, as is the number of its period
        self.register_buffer("number", torch.zeros((), dtype=torch.int64))

    def set_epoch(self, epoch: float) -> None:
        """Set the epoch, counted from 0: in a new period, lambda is drawn."""
        if int(epoch // self.period) != int(self.number):
            self.number.fill_(int(epoch // self.period))
            self.power.uniform_(-1, 1, generator=self.generator)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, 2) logits and (n,) labels, with newly drawn slopes."""
        return ens_loss(logits, labels, power=float(self.power), reduction=self.reduction, generator=self.generator)

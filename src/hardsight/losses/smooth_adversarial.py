"""Smooth adversarial comp-sum: a comp-sum loss, and how far the margins can be moved (Mao et al., ICML 2023, arXiv:2304.07288).

The paper's experiments leave nu and the search for the worst input open; the defaults here are our choice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hardsight.losses.comp_sum import comp_sum_loss
from hardsight.losses.contract import Reduction, check_logits, check_not_negative, check_positive, check_reduction, reduce_plain


def smooth_adversarial_comp_sum_loss(
    model: Callable[[Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
    *,
    tau: float = 1.0,
    rho: float = 1.0,
    nu: float = 6.0,
    radius: float = 8 / 255,
    step: float = 2 / 255,
    steps: int = 10,
    low: float | None = 0.0,
    high: float | None = 1.0,
    reduction: Reduction = "mean",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Phi_tau of the margins over rho, plus nu times how far the margins move within a ball around the input.

    The margins are z_y - z_k for k != y. The move is |margins(x') - margins(x)|, at its largest over |x' - x| <= radius
    in each coordinate, found by projected gradient steps.
    """
    logits = model(inputs)  # (n, c)
    check_logits(logits, labels)
    start, still = inputs.detach(), logits.detach()
    noise = torch.empty_like(start).uniform_(-1, 1, generator=generator)
    moved = _within(start + 1e-3 * radius * noise, low, high)  # at the input itself, nothing has moved and no slope leads on
    for _ in range(steps):
        moved.requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(_margin_change(model(moved), still, labels).sum(), moved)
        moved = start + (moved.detach() + step * slope.sign() - start).clamp(-radius, radius)
        moved = _within(moved, low, high)
    change = _margin_change(model(moved), logits, labels)  # (n,)
    return reduce_plain(comp_sum_loss(logits / rho, labels, tau=tau, reduction="none") + nu * change, reduction)


def _within(inputs: Tensor, low: float | None, high: float | None) -> Tensor:
    return inputs if low is None and high is None else inputs.clamp(low, high)


def _margin_change(moved: Tensor, still: Tensor, labels: Tensor) -> Tensor:
    """(n, c), (n, c) logits -> (n,) Euclidean distance of their margins; its gradient is 0 where nothing moved."""
    change = moved - still
    return torch.linalg.vector_norm(change.gather(1, labels[:, None]) - change, dim=1)


class SmoothAdversarialCompSumLoss(nn.Module):
    """`smooth_adversarial_comp_sum_loss` as a module: takes `(model, inputs, labels)`.

    Args:
        tau: as in `comp_sum_loss`.
        rho: scale of the margins. nu: weight of the adversarial term; the theory asks for nu >= sqrt(c - 1) / rho.
        radius, step, steps: the ball around each input and the search in it, in the input's units.
        low, high: the range of an input; None for none.
    """

    def __init__(
        self,
        *,
        tau: float = 1.0,
        rho: float = 1.0,
        nu: float = 6.0,
        radius: float = 8 / 255,
        step: float = 2 / 255,
        steps: int = 10,
        low: float | None = 0.0,
        high: float | None = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.tau, self.rho, self.nu = check_not_negative("tau", tau), check_positive("rho", rho), check_not_negative("nu", nu)
        self.radius, self.step, self.steps = check_positive("radius", radius), check_positive("step", step), steps
        self.low, self.high, self.reduction = low, high, check_reduction(reduction)

    def forward(self, model: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        return smooth_adversarial_comp_sum_loss(
            model,
            inputs,
            labels,
            tau=self.tau,
            rho=self.rho,
            nu=self.nu,
            radius=self.radius,
            step=self.step,
            steps=self.steps,
            low=self.low,
            high=self.high,
            reduction=self.reduction,
        )

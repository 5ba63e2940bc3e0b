"""Smooth adversarial comp-sum: a comp-sum loss, plus how far the margins can move (Mao et al., ICML 2023, arXiv:2304.07288).

The paper does not specify nu and the search for the worst input; the defaults here are our choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from hardsight.losses.comp_sum import comp_sum_loss
from hardsight.losses.contract import Loss, Reduction, check_not_negative, check_positive, checked_logits, reduce_plain

Network = Callable[[Tensor], Tensor]


class Search(NamedTuple):
    """The ball around each input, in the input's units, and the projected gradient steps in it; low, high: the input range."""

    radius: float = 8 / 255
    step: float = 2 / 255
    steps: int = 10
    low: float | None = 0.0
    high: float | None = 1.0
    generator: torch.Generator | None = None  # for the initial noise


def smooth_adversarial_comp_sum_loss(
    model: Network, inputs: Tensor, labels: Tensor, *,
    tau: float = 1.0, rho: float = 1.0, nu: float = 6.0, reduction: Reduction = "mean", **search: Any,
) -> Tensor:  # fmt: skip
    """Phi_tau of the margins over rho, plus nu times how far the margins move within a ball around the input.

    The margins are z_y - z_k for k != y. The move is the largest |margins(x') - margins(x)| over |x' - x| <= radius
    in each coordinate, found by projected gradient steps. `search` takes the fields of `Search`: radius, step, steps, low,
    high and generator.
    """
    logits = model(inputs)  # (n, c)
    checked_logits(logits, labels)
    worst = worst_inputs(model, inputs.detach(), logits.detach(), labels, Search(**search))
    change = _margin_change(model(worst), logits, labels)  # (n,)
    return reduce_plain(comp_sum_loss(logits / rho, labels, tau=tau, reduction="none") + nu * change, reduction)


def worst_inputs(model: Network, inputs: Tensor, logits: Tensor, labels: Tensor, search: Search) -> Tensor:
    """Inputs in the ball whose margins are as far as possible from those of `logits`, the model's output at the center."""
    radius, step, steps, low, high, generator = search
    noise = torch.empty_like(inputs).uniform_(-1, 1, generator=generator)
    moved = _within(inputs + 1e-3 * radius * noise, low, high)  # at the input itself the gradient is zero
    for _ in range(steps):
        moved.requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(_margin_change(model(moved), logits, labels).sum(), moved)
        moved = inputs + (moved.detach() + step * slope.sign() - inputs).clamp(-radius, radius)
        moved = _within(moved, low, high)
    return moved


def _within(inputs: Tensor, low: float | None, high: float | None) -> Tensor:
    return inputs if low is None and high is None else inputs.clamp(low, high)


def _margin_change(moved: Tensor, still: Tensor, labels: Tensor) -> Tensor:
    """(n, c), (n, c) logits -> (n,) Euclidean distance of their margins; its gradient is 0 if nothing moved."""
    change = moved - still
    return torch.linalg.vector_norm(change.gather(1, labels[:, None]) - change, dim=1)


class SmoothAdversarialCompSumLoss(Loss):
    """`smooth_adversarial_comp_sum_loss` as a module: takes `(model, inputs, labels)`.

    Args:
        tau: as in `comp_sum_loss`.
        rho: scale of the margins. nu: weight of the adversarial term; the theory requires nu >= sqrt(c - 1) / rho.
        radius, step, steps: the ball around each input and the search in it, in the input's units.
        low, high: the range of an input; None for none.
    """

    family = "inputs"
    without_range: ClassVar = {"low": None, "high": None}

    def __init__(
        self, *, tau: float = 1.0, rho: float = 1.0, nu: float = 6.0,
        radius: float = 8 / 255, step: float = 2 / 255, steps: int = 10, low: float | None = 0.0, high: float | None = 1.0,
        reduction: Reduction = "mean",
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        self.tau, self.rho, self.nu = check_not_negative("tau", tau), check_positive("rho", rho), check_not_negative("nu", nu)
        self.search = Search(check_positive("radius", radius), check_positive("step", step), steps, low, high)

    def forward(self, model: Network, inputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, ...) inputs and (n,) labels under this model."""
        options: dict[str, Any] = {"tau": self.tau, "rho": self.rho, "nu": self.nu, "reduction": self.reduction}
        return smooth_adversarial_comp_sum_loss(model, inputs, labels, **options, **self.search._asdict())

"""MetaReg, a method of `generalize` (Balaji et al., NeurIPS 2018): a regularizer of the head that is learned on pairs of domains.

    R_phi(w) = sum_k phi_k |w_k|        over the entries of the head's class vectors

In the first half of a training, every training domain i has a head w_i of its own; at every step

    network, w_i <- a step down the loss of domain i, for one domain after the other
    b_1 = w_a,   b_j+1 = b_j - rate * gradient of  L_a(b_j) + R_phi(b_j)        for two domains a and b, drawn at random
    phi <- a step down L_b(b_steps): what is learned on one domain must do well on another

In the second half phi is fixed, and the head that is kept, newly drawn, is trained with the network on all domains:
L(w) + R_phi(w). The paper does not say how long each half is, nor where phi starts; here they are equal, and it starts at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hardsight.domains.meta_steps import MetaMethod, MetaStep, descended
from hardsight.options import option
from hardsight.training.objective import Objective

HALF = 0.5  # of the steps, in which the regularizer is learned
VECTORS = "classes.weight"  # the class vectors among a head's parameters


class Regularizer(nn.Module):
    """phi, one number for each entry of the class vectors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.zeros(size))

    def forward(self, weight: Tensor) -> Tensor:
        """(c, d) class vectors -> the penalty."""
        return (self.phi * weight.abs().reshape(-1)).sum()


@dataclass(frozen=True)
class MetaReg(MetaMethod):
    """The method `metareg`."""

    in_phases = True  # the head that is kept is trained in the second half
    steps: int = option(4, "Inner steps on one domain before the other judges them.", least=1)

    def parts(self, make: Callable[[], Objective], num_features: int, num_domains: int) -> dict[str, nn.Module]:
        """A head for each domain, and the regularizer."""
        heads = [make() for _ in range(num_domains)]
        return {"heads": nn.ModuleList(heads), "regularizer": Regularizer(heads[0].classes.weight.numel())}

    def step(self, step: MetaStep) -> None:
        """Of the first half or of the second."""
        regularizer: Any = step.student.own["regularizer"]
        if step.progress >= HALF:
            objective = step.student.objective
            penalty = regularizer(objective.classes.weight)
            step.updater.update(step.loss(step.features()) + penalty, _parameters(step.student.network, objective))
            return
        heads: Any = step.student.own["heads"]
        present = step.present()
        for domain in present:
            here = step.of(domain)
            step.updater.update(
                here.loss(here.features(), objective=heads[domain]), _parameters(step.student.network, heads[domain])
            )
        if len(present) > 1:
            step.updater.update(self._transferred(step, *present[:2]), _parameters(regularizer))

    def _transferred(self, step: MetaStep, a: int, b: int) -> Tensor:
        """The loss on domain b of the head of domain a after some regularized steps on a."""
        heads: Any = step.student.own["heads"]
        regularizer, first, second = step.student.own["regularizer"], step.of(a), step.of(b)
        ours, theirs = first.features().detach(), second.features().detach()
        head = {name: p.detach().requires_grad_() for name, p in heads[a].named_parameters()}
        for _ in range(self.steps):
            (head,) = descended(first.loss(ours, head, heads[a]) + regularizer(head[VECTORS]), step.rate, head)
        return second.loss(theirs, head, heads[b])


def _parameters(*modules: nn.Module) -> list[nn.Parameter]:
    return [p for module in modules for p in module.parameters()]

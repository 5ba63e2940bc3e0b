"""Methods of `generalize` that play "unseen domain" among the training domains at every step: MLDG, MetaReg and Feature-Critic.

A method is a file with a class whose fields are its options and whose `step` trains on a batch of all training domains. Networks
of its own, such as a critic, are its `parts`; they are trained and resumed with the student.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from hardsight.domains.drm import Student
from hardsight.options import Options
from hardsight.training.objective import Objective
from hardsight.training.optimization import Updater
from hardsight.training.processes import gathered

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class MetaStep:
    """One step: a batch of all training domains, and what learns from it.

    Attributes:
        inputs, labels, rows: (b, ...), (b,) classes and (b,) which training samples these are.
        domains: (b,) training domain of each, counted from 0.
        rate: the learning rate as it is now.
        progress: how far the training has come, from 0 to 1.
        rng: for what the method draws; the same in all processes.
    """

    student: Student
    updater: Updater
    inputs: Tensor
    labels: Tensor
    rows: Tensor
    domains: Tensor
    rate: float
    progress: float
    rng: np.random.Generator

    def present(self) -> list[int]:
        """The domains that have samples in this batch, in an order that is drawn anew at every step."""
        everywhere = gathered(self.domains[:, None].float())[0]
        numbers: list[int] = self.rng.permutation(np.unique(everywhere.int().cpu().numpy())).tolist()
        return numbers

    def of(self, domain: int) -> MetaStep:
        """The samples of one domain."""
        here = self.domains == domain
        picked = {name: getattr(self, name)[here] for name in ("inputs", "labels", "rows", "domains")}
        return replace(self, **picked)

    def features(self, network: Tensors | None = None) -> Tensor:
        """(b, d), by these parameters in the place of the network's own."""
        return self.student.features(self.inputs, network)

    def loss(self, features: Tensor, head: Tensors | None = None, objective: Objective | None = None) -> Tensor:
        """The mean loss of (b, d) features, of all processes together, by these parameters in the place of the head's own."""
        objective = self.student.objective if objective is None else objective
        batch = gathered(features, self.labels, self.rows)
        loss: Tensor = functional_call(objective, dict(head or {}), batch)
        return loss


@dataclass(frozen=True)
class MetaMethod(Options):
    """The base of these methods."""

    in_phases: ClassVar[bool] = False  # whether a training has phases, so that it must not be stopped early

    def parts(self, make: Callable[[], Objective], num_features: int, num_domains: int) -> dict[str, nn.Module]:
        """Networks of its own, by name, newly drawn; `make` draws a head with its loss."""
        return {}

    def step(self, step: MetaStep) -> None:
        """Learn from a batch of all training domains."""
        raise NotImplementedError


def descended(loss: Tensor, rate: float, *groups: Tensors) -> list[dict[str, Tensor]]:
    """Groups of parameters after a plain step down the gradient, through which gradients flow back."""
    leaves = [x for parameters in groups for x in parameters.values()]
    gradients = iter(torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True))
    return [{name: _moved(x, next(gradients), rate) for name, x in parameters.items()} for parameters in groups]


def _moved(x: Tensor, gradient: Tensor | None, rate: float) -> Tensor:
    return x if gradient is None else x - rate * gradient

"""MCD, a stage of a method (maximum classifier discrepancy: Saito et al., CVPR 2018): two heads judge the target.

    A    min over network and heads      L(source)
    B    min over heads                  L(source) - disc(target)     the heads part where the target is unlike the source
    C    min over network, n times       disc(target)                 the network brings the target back

    disc = mean |p_1 - p_2| over target samples and classes,    L = cross-entropy of both heads

The first head is that of the source model, the second one is newly drawn. What is kept is the mean of both, which for linear
heads is the sum of their outputs that the authors' code calls the ensemble.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hardsight.training.trainee import Trainee


@dataclass(frozen=True)
class MCD(PairedMethod):
    """The stage `mcd`."""

    steps: int = option(4, "Steps of the network against the discrepancy, for each step of the heads.", least=1)

    def parts(self, num_features: int, num_classes: int) -> dict[str, nn.Module]:
        """The second head."""
        from torch import nn

        return {"second_head": nn.Linear(num_features, num_classes)}

    def step(self, step: Step) -> None:
        """A, B and C."""
        network, heads = step.learner.network, (step.learner.objective, step.learner.own["second_head"])
        step.minimize(self._source_loss(step, *step.features()[:2]), network, *heads)
        source, labels, target = step.features()
        step.minimize(self._source_loss(step, source, labels) - self._discrepancy(step, target), *heads)
        for _ in range(self.steps):
            step.minimize(self._discrepancy(step, step.target_features()), network)

    def _source_loss(self, step: Step, features: Tensor, labels: Tensor) -> Tensor:
        return step.loss(step.logits(features), labels) + step.loss(step.learner.own["second_head"](features), labels)

    def _discrepancy(self, step: Step, features: Tensor) -> Tensor:
        first, second = step.logits(features).softmax(1), step.learner.own["second_head"](features).softmax(1)  # (m, c)
        return (first - second).abs().mean()

    def kept(self, learner: Trainee) -> Trainee:
        """The network with the mean of both heads."""
        import torch

        mean = copy.deepcopy(learner)
        first: Any = mean.objective.classes
        second: Any = learner.own["second_head"]
        with torch.no_grad():
            first.weight.copy_((first.weight + second.weight) / 2)
            first.bias.copy_((first.bias + second.bias) / 2)
        return mean

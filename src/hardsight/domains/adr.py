"""ADR, a stage of a method (adversarial dropout regularization: Saito et al., ICLR 2018): dropout plays the critic.

    A    min over network and head    L(source)
    B    min over head                L(source) - d(target)     the head becomes sensitive to dropout on the target
    C    min over network, n times    d(target)                 the network moves the target to where it is not

    d = mean over target samples of 1/2 [ KL(p_1 | p_2) + KL(p_2 | p_1) ] / c

p_1 and p_2 are the predictions of the same head by two random dropouts of the features. What is kept is a second head, the
paper's C': it learns the source from the same features without changing them, and no step makes it sensitive.

Equation 1 of the paper is this without the division by the c classes (`per_class=false`). With it, B can win: training collapses.
The authors' code divides, and `neighbors`, which needs no target labels, prefers it on every tuning pair, so it is the default
(papers/docs/results.md). That code differs in two more ways that the paper does not name and that are not here: it takes the
softmax twice, and lets the gradient through one side of each KL only.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hardsight.training.trainee import Trainee


@dataclass(frozen=True)
class ADR(PairedMethod):
    """The stage `adr`."""

    steps: int = option(4, "Steps of the network against the sensitivity, for each step of the head.", least=1)
    dropout: float = option(0.5, "Share of the features that dropout sets to 0.", above=0, below=1)
    per_class: bool = option(
        True, "Divide the sensitivity by the number of classes, as the authors' code does; equation 1 of the paper does not."
    )

    def parts(self, num_features: int, num_classes: int) -> dict[str, nn.Module]:
        """The head that is kept."""
        from torch import nn

        return {"kept_head": nn.Linear(num_features, num_classes)}

    def step(self, step: Step) -> None:
        """A, B and C."""
        network, head, kept = step.learner.network, step.learner.objective, step.learner.own["kept_head"]
        if step.progress == 0:  # all that is kept starts from the source model
            kept.load_state_dict(head.classes.state_dict())
        source, labels, _ = step.features()
        own = step.loss(kept(self._dropped(source.detach())), labels)
        step.minimize(self._source_loss(step, source, labels) + own, network, head, kept)
        source, labels, target = step.features()
        step.minimize(self._source_loss(step, source, labels) - self._sensitivity(step, target), head)
        for _ in range(self.steps):
            step.minimize(self._sensitivity(step, step.target_features()), network)

    def _source_loss(self, step: Step, features: Tensor, labels: Tensor) -> Tensor:
        return step.loss(step.logits(self._dropped(features)), labels)

    def _sensitivity(self, step: Step, features: Tensor) -> Tensor:
        first, second = (step.logits(self._dropped(features)).log_softmax(1) for _ in range(2))  # (m, c)
        both = (first.exp() - second.exp()) * (first - second)  # both KL in one
        return (both.mean(1) if self.per_class else both.sum(1)).mean() / 2

    def _dropped(self, features: Tensor) -> Tensor:
        import torch.nn.functional as F

        return F.dropout(features, self.dropout)

    def kept(self, learner: Trainee) -> Trainee:
        """The network with the second head."""
        other = copy.deepcopy(learner)
        other.objective.classes.load_state_dict(learner.own["kept_head"].state_dict())
        return other

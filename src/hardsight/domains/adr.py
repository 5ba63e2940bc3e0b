"""ADR, a stage of a method (adversarial dropout regularization: Saito et al., ICLR 2018): dropout plays the critic.

    A    min over network and head    L(source)
    B    min over head                L(source) - d(target)     the head becomes sensitive to dropout on the target
    C    min over network, n times    d(target)                 the network moves the target to where it is not

    d = mean over target samples of 1/(2 c) [ KL(p_1 | p_2) + KL(p_2 | p_1) ]

p_1 and p_2 are the predictions of the same head by two random dropouts of the features. The mean over the c classes is that of
the authors' code; without it, B wins: from MNIST to USPS accuracy then falls to 17 %. That code also lets the gradient through
one side of each KL only, which the paper does not say; here it goes through both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ADR(PairedMethod):
    """The stage `adr`."""

    steps: int = option(4, "Steps of the network against the sensitivity, for each step of the head.", least=1)
    dropout: float = option(0.5, "Share of the features that dropout sets to 0.", above=0, below=1)

    def step(self, step: Step) -> None:
        """A, B and C."""
        network, head = step.learner.network, step.learner.objective
        source, labels, _ = step.features()
        step.minimize(self._source_loss(step, source, labels), network, head)
        source, labels, target = step.features()
        step.minimize(self._source_loss(step, source, labels) - self._sensitivity(step, target), head)
        for _ in range(self.steps):
            step.minimize(self._sensitivity(step, step.target_features()), network)

    def _source_loss(self, step: Step, features: Tensor, labels: Tensor) -> Tensor:
        return step.loss(self._dropped(step, features), labels)

    def _sensitivity(self, step: Step, features: Tensor) -> Tensor:
        first, second = (self._dropped(step, features).log_softmax(1) for _ in range(2))  # (m, c)
        return ((first.exp() - second.exp()) * (first - second)).mean() / 2  # both KL in one

    def _dropped(self, step: Step, features: Tensor) -> Tensor:
        """(n, c) logits by a random dropout of the (n, d) features."""
        import torch.nn.functional as F

        return step.logits(F.dropout(features, self.dropout))

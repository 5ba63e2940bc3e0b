"""Stages that are trained in rounds, and among them those that see a batch of each domain at every step: MMD, Deep CORAL, ...

A method is a file with a class whose fields are its options and whose `step` trains on one batch of both domains. Networks of
its own, such as a discriminator, are its `parts`; they are trained and resumed with the network, and left out at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.options import Options

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hardsight.domains.adapt_training import TargetView
    from hardsight.domains.pseudo_labels import PseudoLabels
    from hardsight.training.optimization import Updater
    from hardsight.training.trainee import Trainee


@dataclass(frozen=True, eq=False)
class Step:
    """One step: a batch of both domains, and what learns from it.

    Attributes:
        source, labels: (b, ...) inputs and (b,) classes.
        target: (m, ...) inputs.
        progress: how far the method has come, from 0 to 1.
    """

    learner: Trainee
    updater: Updater
    source: Tensor
    labels: Tensor
    target: Tensor
    progress: float

    def features(self) -> tuple[Tensor, Tensor, Tensor]:
        """(b, d) features of the source, (b,) their labels, and (m, d) features of the target; of all processes together."""
        import torch

        from hardsight.training.processes import gathered

        inputs, unlabeled = torch.cat([self.source, self.target]), torch.full((len(self.target),), -1, device=self.labels.device)
        features, labels = gathered(self.learner.features(inputs), torch.cat([self.labels, unlabeled]))
        known = labels >= 0
        return features[known], labels[known], features[~known]

    def target_features(self) -> Tensor:
        """(m, d) features of the target alone, of all processes together."""
        from hardsight.training.processes import gathered

        return gathered(self.learner.features(self.target))[0]

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) features -> (n, c) by the network's head."""
        return self.learner.objective.classes.logits(features)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy: (n, c), (n,) -> its mean."""
        import torch.nn.functional as F

        return F.cross_entropy(logits, labels)

    def minimize(self, loss: Tensor, *modules: nn.Module) -> None:
        """One step down the gradient, of these modules alone; of all where none are named."""
        self.updater.update(loss, [p for module in modules for p in module.parameters()] or None)


@dataclass(frozen=True)
class RoundStage(Options):
    """A stage that is trained in rounds: a `PairedMethod`, or one with the target samples of a round and their loss.

    The latter have `target` and `loss`: self_training.py and entropy.py.
    """

    def choose(self, name: str, view: TargetView, portion: float) -> PseudoLabels | None:
        """The pseudo-labels of a round, if it has any; `name` is that of the stage."""
        return None

    def parts(self, num_features: int, num_classes: int) -> dict[str, nn.Module]:
        """Networks of its own, by name, newly drawn."""
        return {}

    def kept(self, learner: Trainee) -> Trainee:
        """The network that is evaluated and kept."""
        return learner


@dataclass(frozen=True)
class PairedMethod(RoundStage):
    """The base of methods with a step of their own."""

    def step(self, step: Step) -> None:
        """Learn from a batch of both domains."""
        raise NotImplementedError

"""DANN, a stage of a method (Ganin and Lempitsky, ICML 2015): features from which nobody can tell the domain.

    discriminator    min  L_d = mean_s -log (1 - D(x)) + mean_t -log D(x)
    network          min  cross-entropy on the source  -  weight lambda L_d,    lambda = 2 / (1 + exp(-10 p)) - 1

Both by one step: between the network and the discriminator, the gradient is multiplied by -weight lambda. p is the share of
the steps that are done, so that the discriminator learns something before the network works against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor, nn

STEEPNESS = 10  # of lambda, as published


@dataclass(frozen=True)
class DANN(PairedMethod):
    """The stage `dann`."""

    weight: float = option(1.0, "Weight of the reversed gradient, after its schedule.", above=0)
    hidden: int = option(1024, "Units of each of the discriminator's two hidden layers.", least=1)

    def parts(self, num_features: int, num_classes: int) -> dict[str, nn.Module]:
        """The discriminator: (n, d) features -> (n, 1) logits of being of the target."""
        from torch import nn

        h = self.hidden
        layers = nn.Linear(num_features, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1)
        return {"discriminator": nn.Sequential(*layers)}

    def step(self, step: Step) -> None:
        """Learn the source and to tell domains apart, and unlearn what tells them apart."""
        import torch
        import torch.nn.functional as F

        source, labels, target = step.features()
        factor = self.weight * reversal(step.progress)
        told = step.learner.own["discriminator"](reversed_gradient(torch.cat([source, target]), factor)).squeeze(1)
        ours, theirs = told[: len(source)], told[len(source) :]
        domains = F.softplus(ours).mean() + F.softplus(-theirs).mean()  # -log (1 - D) and -log D
        step.minimize(step.loss(step.logits(source), labels) + domains)


def reversal(progress: float) -> float:
    """lambda: from 0 at the beginning to almost 1 at the end.

    Example:
        >>> [round(reversal(p), 3) for p in (0.0, 0.1, 0.5, 1.0)]
        [0.0, 0.462, 0.987, 1.0]
    """
    return 2 / (1 + math.exp(-STEEPNESS * progress)) - 1


def reversed_gradient(features: Tensor, factor: float) -> Tensor:
    """The same features, whose gradient is multiplied by minus the factor on its way back."""
    # With a = -factor: the value is a x + (1 - a) x = x, and only the first term has a gradient.
    return -factor * features + (1 + factor) * features.detach()

"""MLDG, a method of `generalize` (meta-learning for domain generalization: Li et al., AAAI 2018).

At every step one training domain, drawn at random, plays the unseen one:

    F(w) = mean over the other domains of their losses,    G(w) = the loss on the domain that is left out

    w <- w - rate * gradient of  F(w) + weight G( w - inner_rate * rate * gradient of F(w) )

so a step that helps the others must help a domain that had no part in it. The gradient of G goes through the inner step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hardsight.domains.meta_steps import MetaMethod, MetaStep, descended
from hardsight.options import option


@dataclass(frozen=True)
class MLDG(MetaMethod):
    """The method `mldg`."""

    weight: float = option(1.0, "Weight of the loss on the domain that is left out of the inner step.", above=0)
    inner_rate: float = option(1.0, "Learning rate of the inner step, times the learning rate.", above=0)

    def step(self, step: MetaStep) -> None:
        """One step of the network and its head."""
        left_out, *others = step.present()
        seen = [step.of(domain) for domain in others or [left_out]]
        loss = torch.stack([each.loss(each.features()) for each in seen]).mean()
        if others:
            network, head = (dict(module.named_parameters()) for module in (step.student.network, step.student.objective))
            moved_network, moved_head = descended(loss, self.inner_rate * step.rate, network, head)
            unseen = step.of(left_out)
            loss = loss + self.weight * unseen.loss(unseen.features(moved_network), moved_head)
        step.updater.update(loss)

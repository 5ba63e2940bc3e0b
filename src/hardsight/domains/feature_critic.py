"""Feature-Critic, a method of `generalize` (Li et al., ICML 2019): a critic of features that learns what helps elsewhere.

At every step one training domain, drawn at random, is held out for validation. On the others, with h the critic:

    w_old = w - rate * gradient of L,        w_new = w_old - rate * gradient of  weight mean h(features)
    critic    min  tanh( L_val(w_new) - L_val(w_old) )         the critic's advice must help on the held-out domain
    network   min  L + weight mean h(features)

L is the sum of the losses of the other domains, w the network without its head. h is the paper's MLP variant: a hidden layer,
ReLU, and a softplus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call

from hardsight.domains.meta_steps import MetaMethod, MetaStep, descended
from hardsight.options import option
from hardsight.training.objective import Objective


@dataclass(frozen=True)
class FeatureCritic(MetaMethod):
    """The method `feature-critic`."""

    weight: float = option(0.01, "Weight of the critic's loss in the loss.", above=0)
    critic_rate: float = option(2.0, "Learning rate of the critic, times the learning rate.", above=0)
    hidden: int = option(512, "Hidden units of the critic.", least=1)

    def parts(self, make: Callable[[], Objective], num_features: int, num_domains: int) -> dict[str, nn.Module]:
        """The critic: (n, d) features -> (n, 1)."""
        layers = nn.Linear(num_features, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1), nn.Softplus()
        return {"critic": nn.Sequential(*layers)}

    def step(self, step: MetaStep) -> None:
        """One step of the network, its head and the critic, all from where they are now."""
        held_out, *others = step.present()
        seen, critic = [step.of(domain) for domain in others or [held_out]], step.student.own["critic"]
        features = [each.features() for each in seen]
        own = torch.stack([each.loss(x) for each, x in zip(seen, features, strict=True)]).sum()
        fixed = {name: p.detach() for name, p in critic.named_parameters()}
        advised = torch.stack([functional_call(critic, fixed, x).mean() for x in features]).sum()
        loss = own + self.weight * advised
        if others:
            loss = loss + self.critic_rate * self._regret(step, seen, step.of(held_out), critic)
        step.updater.update(loss)

    def _regret(self, step: MetaStep, seen: list[MetaStep], held_out: MetaStep, critic: nn.Module) -> torch.Tensor:
        """How much worse the critic's advice makes the held-out domain; its gradient reaches the critic alone."""
        network = {name: p.detach().requires_grad_() for name, p in step.student.network.named_parameters()}
        head = {name: p.detach() for name, p in step.student.objective.named_parameters()}
        features = [each.features(network) for each in seen]
        own = torch.stack([each.loss(x, head) for each, x in zip(seen, features, strict=True)]).sum()
        advised = self.weight * torch.stack([critic(x).mean() for x in features]).sum()
        (old,), (new,) = (descended(loss, step.rate, network) for loss in (own, own + advised))
        after, before = (held_out.loss(held_out.features(weights), head) for weights in (new, old))
        return torch.tanh(after - before.detach())

"""What learns from several domains: a network with one head for all of them, or (DRM) one for each as well.

Domain-specific risk minimization (Zhang et al., KDD 2023): over the training domains i,

    loss = mean_i 1/2 [ L(head_i) + L(head of all) ]    on the samples of domain i

and on a new domain the heads of the domains vote, each the more the surer it is: with H the entropy of its probabilities p_i,

    p = sum_i v_i p_i,    v_i proportional to H(p_i)^(-gamma)

The head of all domains shapes the features and has no vote, as in the authors' code. arriving.py has what follows: heads
that learn from the new domain.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hardsight.domains.generalization.settings import DRM_GAMMA
from hardsight.models.trainable import Trainable
from hardsight.training.network import CutNetwork
from hardsight.training.objective import Objective
from hardsight.training.processes import gathered
from hardsight.training.trainee import LossChoice

SMALLEST = 1e-6  # entropy that counts as none: a head sure of everything would have infinite weight


class Student(CutNetwork):
    """Inputs in; a loss, or probabilities, out.

    Args:
        source, sample: see `CutNetwork`.
        loss: which one.
        num_domains: as many heads beside the common one; 0 for none.
        gamma: how much more a sure head's vote counts; see `voted`.
    """

    heads = ("common", "own")

    def __init__(
        self, source: Trainable, sample: Tensor, loss: LossChoice, num_domains: int = 0, gamma: float = DRM_GAMMA
    ) -> None:
        super().__init__(source, sample)
        self.gamma = gamma
        self.common = loss.objective(self.num_features)
        self.own = nn.ModuleList(loss.objective(self.num_features) for _ in range(num_domains))

    def forward(self, inputs: Tensor, labels: Tensor, rows: Tensor, domains: Tensor) -> Tensor:
        """The loss of a batch, of all processes together; `domains` (b,) counts the training domains from 0."""
        features, labels, rows, domains = gathered(self.features(inputs), labels, rows, domains)
        if not len(self.own):
            return self.common(features, labels, rows)
        losses = []
        for i, head in enumerate(self.own):
            here = domains == i
            if here.any():
                some = (features[here], labels[here], rows[here])
                losses.append(0.5 * (head(*some) + self.common(*some)))
        return torch.stack(losses).mean()

    def probabilities(self, inputs: Tensor) -> Tensor:
        """(b, c) on a domain that may be new."""
        features = self.features(inputs)
        if not len(self.own):
            return torch.softmax(self.common.classes.logits(features), 1)
        return voted(torch.softmax(head_logits(self.own, features), 2), self.gamma)

    def set_epoch(self, epoch: float) -> None:
        """Tell the epoch, from 0 on, to losses that warm up."""
        for objective in (self.common, *objectives(self.own)):
            objective.set_epoch(epoch)


def objectives(heads: nn.ModuleList) -> Iterator[Objective]:
    """The heads of the domains, as what they are."""
    return (head for head in heads if isinstance(head, Objective))


def head_logits(heads: nn.ModuleList, features: Tensor) -> Tensor:
    """(b, d) features -> (heads, b, c) logits of every head."""
    return torch.stack([head.classes.logits(features) for head in objectives(heads)])


def voted(probabilities: Tensor, gamma: float = DRM_GAMMA) -> Tensor:
    """(heads, b, c) -> (b, c): each head by its entropy to the power of -gamma; gamma below 0 takes the surest head alone."""
    entropy = -torch.special.xlogy(probabilities, probabilities).sum(2)  # (heads, b)
    if gamma < 0:
        surest = entropy.argmin(0)  # (b,)
        return probabilities[surest, torch.arange(probabilities.shape[1], device=probabilities.device)]
    votes = torch.softmax(-gamma * entropy.clamp(min=SMALLEST).log(), 0)  # entropy^-gamma over its sum, for any gamma
    return (votes[:, :, None] * probabilities).sum(0)

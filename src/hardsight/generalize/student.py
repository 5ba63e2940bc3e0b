"""What learns from several domains: a network with one head for all of them, or (DRM) one for each as well.

Domain-specific risk minimisation (Zhang et al., KDD 2023): over the training domains i,

    loss = mean_i 1/2 [ L(head_i) + L(head of all) ]    on the samples of domain i

and on a new domain the heads of the domains vote, each the more the surer it is: with H the entropy of its probabilities p_i,

    p = sum_i v_i p_i,    v_i proportional to H(p_i)^(-gamma)

The head of all domains shapes the features and has no vote, as in the authors' code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardsight.models.trainable import Trainable
from hardsight.training.network import CutNetwork
from hardsight.training.objective import Objective
from hardsight.training.trainee import LossChoice

GAMMA = 1.0
SMALLEST = 1e-6  # entropy that counts as none: a head sure of everything would have infinite weight


class Student(CutNetwork):
    """Inputs in; a loss, or probabilities, out.

    Args:
        source, sample: see `CutNetwork`.
        loss: which one.
        num_domains: as many heads beside the common one; 0 for none.
    """

    heads = ("common", "own")

    def __init__(self, source: Trainable, sample: Tensor, loss: LossChoice, num_domains: int = 0) -> None:
        super().__init__(source, sample)
        self.common = loss.objective(self.num_features)
        self.own = nn.ModuleList(loss.objective(self.num_features) for _ in range(num_domains))

    def forward(self, inputs: Tensor, labels: Tensor, rows: Tensor, domains: Tensor) -> Tensor:
        """The loss of a batch; `domains` (b,) counts the training domains from 0."""
        features = self.features(inputs)
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
        return voted(torch.stack([torch.softmax(head.classes.logits(features), 1) for head in self._own()]))

    def set_epoch(self, epoch: float) -> None:
        """Tell the epoch, from 0 on, to losses that warm up."""
        for objective in (self.common, *self._own()):
            objective.set_epoch(epoch)

    def _own(self) -> list[Objective]:
        return [head for head in self.own if isinstance(head, Objective)]


def voted(probabilities: Tensor, gamma: float = GAMMA) -> Tensor:
    """(heads, b, c) -> (b, c): each head by its entropy to the power of -gamma; gamma below 0 takes the surest head alone."""
    entropy = -torch.special.xlogy(probabilities, probabilities).sum(2)  # (heads, b)
    if gamma < 0:
        surest = entropy.argmin(0)  # (b,)
        return probabilities[surest, torch.arange(probabilities.shape[1], device=probabilities.device)]
    votes = entropy.clamp(min=SMALLEST) ** -gamma
    votes = votes / votes.sum(0)
    return (votes[:, :, None] * probabilities).sum(0)

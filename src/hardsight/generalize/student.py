"""What learns from several domains: a network with one head for all of them, or (DRM) one for each as well.

Domain-specific risk minimisation (Zhang et al., KDD 2023): over the training domains i,

    loss = mean_i 1/2 [ L(head_i) + L(head of all) ]    on the samples of domain i

and on a new domain the heads of the domains vote, each the more the surer it is: with H the entropy of its probabilities p_i,

    p = sum_i v_i p_i,    v_i proportional to H(p_i)^(-gamma)

The head of all domains shapes the features and has no vote, as in the authors' code.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardsight.models.trainable import Trainable, cut_off
from hardsight.training.objective import Objective

GAMMA = 1.0
SMALLEST = 1e-6  # entropy that counts as none: a head sure of everything would have infinite weight


class Student(nn.Module):
    """Inputs in; a loss, or probabilities, out.

    Args:
        source: the network, whose last layer is taken out.
        sample: (b, ...) a few inputs, to find that layer by.
        loss, options: by name, see `hardsight.training.objective`.
        num_classes, num_samples: of the training data.
        num_domains: as many heads beside the common one; 0 for none.
    """

    def __init__(
        self, source: Trainable, sample: Tensor, loss: str, options: dict[str, Any], num_classes: int, num_samples: int,
        num_domains: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.source, self.network = source, source.module
        last, self.cut, _ = cut_off(self.network, sample)
        self.common = Objective(loss, last.head.num_features, num_classes, num_samples, options)
        self.own = nn.ModuleList(
            Objective(loss, last.head.num_features, num_classes, num_samples, options) for _ in range(num_domains)
        )

    def features(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, d)."""
        self.network(inputs)
        features, self.cut.features = self.cut.features, None
        assert features is not None
        return features

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

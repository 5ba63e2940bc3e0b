"""A network trained on several domains: with one head for all of them, or (DRM) with one more for each domain.

Domain-specific risk minimization (Zhang et al., KDD 2023): over the training domains i,

    loss = mean_i 1/2 [ L(head_i) + L(common head) ]    on the samples of domain i

On a new domain, the heads of the domains vote, and a surer head counts more: with H the entropy of its probabilities p_i,

    p = sum_i v_i p_i,    v_i proportional to H(p_i)^(-gamma)

The common head shapes the features and has no vote, as in the authors' code.

With test-time adaptation (drm-tta), the heads keep learning while samples of the new domain arrive. Each batch is predicted
first and learned from afterwards, without its labels:

    S = { x : max_k p_k(x) >= confidence }        the samples it is sure of; k(x) is the class of each
    head_i <- head_i - rate * gradient of mean_S -log p_i,k(x)        for every head i

Features do not change, nor do the student's own heads: copies learn, from the first batch of a domain to its last.

The authors' code takes a softmax of p, which is a probability already, before it compares: with seven classes no sample then
reaches 0.32. Here p itself is compared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.models.trainable import Trainable
from hardsight.options import Options, option
from hardsight.training.objective import Objective
from hardsight.training.processes import gathered
from hardsight.training.trainee import LossChoice, Trainee

GAMMA = 1.0  # how much more a sure head's vote counts
SMALLEST = 1e-6  # entropy that counts as none: a head sure of everything would have infinite weight


@dataclass(frozen=True)
class DRM(Options):
    """The method `drm`."""

    gamma: float = option(
        GAMMA,
        "Heads vote by their entropy to the power of minus gamma: 0 for equal votes; below 0 the surest head decides alone.",
    )


@dataclass(frozen=True)
class DRMTTA(DRM):
    """The method `drm-tta`."""

    confidence: float = option(
        0.9, "Minimum confidence at which it learns from its own prediction of an incoming sample.", least=0, most=1
    )
    rate: float = option(1.0, "Learning-rate multiplier of the heads on incoming samples.", above=0)
    steps: int = option(1, "Steps on each batch of incoming samples.", least=1)
    batch_size: int = option(32, "Batch size of incoming samples.", least=1)


class Student(Trainee):
    """A `Trainee` that learns from several domains and predicts a new one.

    Args:
        source, sample, loss: see `Trainee`.
        num_domains: number of heads beside the common one; 0 for none.
        gamma: how much more a sure head's vote counts; see `voted`.
    """

    heads = ("objective", "own", "domain_heads")

    def __init__(self, source: Trainable, sample: Tensor, loss: LossChoice, num_domains: int = 0, gamma: float = GAMMA) -> None:
        super().__init__(source, sample, loss)
        self.gamma = gamma
        self.domain_heads = nn.ModuleList(loss.objective(self.num_features) for _ in range(num_domains))

    def domain_loss(self, inputs: Tensor, labels: Tensor, rows: Tensor, domains: Tensor) -> Tensor:
        """The loss of a batch, of all processes together; `domains` (b,) counts the training domains from 0."""
        features, labels, rows, domains = gathered(self.features(inputs), labels, rows, domains)
        if not len(self.domain_heads):
            return self.objective(features, labels, rows)
        losses = []
        for i, head in enumerate(self.domain_heads):
            here = domains == i
            if here.any():
                batch = (features[here], labels[here], rows[here])
                losses.append(0.5 * (head(*batch) + self.objective(*batch)))
        return torch.stack(losses).mean()

    def probabilities(self, inputs: Tensor) -> Tensor:
        """(b, c) on a domain that may be new."""
        if not len(self.domain_heads):
            return torch.softmax(self.logits(inputs), 1)
        return voted(torch.softmax(head_logits(self.domain_heads, self.features(inputs)), 2), self.gamma)

    def set_epoch(self, epoch: float) -> None:
        """Tell the epoch, from 0 on, to losses that warm up."""
        for objective in (self.objective, *objectives(self.domain_heads)):
            objective.loss.set_epoch(epoch)


def objectives(heads: nn.ModuleList) -> Iterator[Objective]:
    """The heads of the domains, as what they are."""
    return (head for head in heads if isinstance(head, Objective))


def head_logits(heads: nn.ModuleList, features: Tensor) -> Tensor:
    """(b, d) features -> (heads, b, c) logits of every head."""
    return torch.stack([head.classes.logits(features) for head in objectives(heads)])


def voted(probabilities: Tensor, gamma: float = GAMMA) -> Tensor:
    """(heads, b, c) -> (b, c): each head by its entropy to the power of -gamma; gamma below 0 takes the surest head alone."""
    entropy = -torch.special.xlogy(probabilities, probabilities).sum(2)  # (heads, b)
    if gamma < 0:
        surest = entropy.argmin(0)  # (b,)
        return probabilities[surest, torch.arange(probabilities.shape[1], device=probabilities.device)]
    votes = torch.softmax(-gamma * entropy.clamp(min=SMALLEST).log(), 0)  # entropy^-gamma over its sum, for any gamma
    return (votes[:, :, None] * probabilities).sum(0)


class ArrivingHeads:
    """Inputs of an unseen domain in, in the order of their arrival; probabilities out. It learns from each batch.

    Args:
        student: with a head per training domain; it is not changed.
        options: confidence, rate and steps.
        lr: the learning rate that `rate` multiplies.
    """

    def __init__(self, student: Student, options: DRMTTA, lr: float) -> None:
        self.student, self.options = student, options
        self.heads = copy.deepcopy(student.domain_heads)
        self.optimizer = torch.optim.SGD(self.heads.parameters(), lr=lr * options.rate)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(b, ...) -> (b, c)."""
        with torch.no_grad():
            features = self.student.features(inputs)  # (b, d)
            probabilities = self._vote(head_logits(self.heads, features))
        for _ in range(self.options.steps):
            self._learn(features)
        return probabilities

    def _vote(self, logits: Tensor) -> Tensor:
        """(heads, b, c) -> (b, c)."""
        return voted(torch.softmax(logits, 2), self.student.gamma)

    @torch.enable_grad()
    def _learn(self, features: Tensor) -> None:
        """One step of each head on the samples that all of them together are sure of."""
        logits = head_logits(self.heads, features)  # (heads, b, c)
        confidence, labels = self._vote(logits.detach()).max(1)  # (b,) each
        sure = confidence >= self.options.confidence
        if not sure.any():
            return
        loss = sum(F.cross_entropy(head[sure], labels[sure]) for head in logits)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[union-attr]  # there are at least two heads
        self.optimizer.step()

"""Deep CORAL, a stage of a method (Sun and Saenko, ECCV workshops 2016): features of both domains have the same covariance.

    loss = cross-entropy on the source  +  weight / (4 d^2) |C_s - C_t|^2

with C the (d, d) covariances of a batch's features and the Frobenius norm. `coral` (alignment.py) does the same to features
that are given, once and by a linear map; of images it is read as this method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class DeepCoral(PairedMethod):
    """The stage `deep-coral`."""

    weight: float = option(1.0, "Weight of the distance of the covariances in the loss.", above=0)

    def step(self, step: Step) -> None:
        """Learn the source, and make the covariances alike."""
        source, labels, target = step.features()
        step.minimize(step.loss(step.logits(source), labels) + self.weight * coral_distance(source, target))


def coral_distance(source: Tensor, target: Tensor) -> Tensor:
    """(n, d), (m, d) -> the squared distance of their covariances over 4 d^2; 0 where a domain has one sample."""
    if min(len(source), len(target)) < 2:
        return source.sum() * 0.0
    ours, theirs = (x.float().T.cov().reshape(x.shape[1], x.shape[1]) for x in (source, target))
    return (ours - theirs).square().sum() / (4 * source.shape[1] ** 2)

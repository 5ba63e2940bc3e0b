"""Entropy minimization, a stage of a method (Grandvalet and Bengio, NIPS 2004): the model becomes sure of the target.

    loss = cross-entropy on the source  +  weight 1/u sum_j H(p_j),    H(p) = - sum_k p_k log p_k

over the u target samples of a batch. The gradient goes through p: certain samples become more certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardsight.domains.paired_steps import RoundStage
from hardsight.domains.self_training import labeled_loss
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor

    from hardsight.domains.pseudo_labels import PseudoLabels


@dataclass(frozen=True)
class Entropy(RoundStage):
    """The stage `entropy`."""

    weight: float = option(0.1, "Weight of the target entropy in the loss.", above=0)

    def target(self, chosen: PseudoLabels | None, shape: tuple[int, int], batch_norm: bool) -> tuple[np.ndarray, np.ndarray]:
        """All rows of the target, and (n, c) labels: none of them has one."""
        return np.arange(shape[0]), np.zeros(shape, np.float32)

    def loss(self, logits: Tensor, labels: Tensor, is_target: Tensor) -> Tensor:
        """(b, c), (b, c), (b,) -> the loss of a batch."""
        log_p = logits.float().log_softmax(1)  # (b, c)
        target = is_target.to(log_p)  # (b,)
        entropies = -(log_p.exp() * log_p).sum(1)  # (b,)
        on_target = self.weight * (entropies * target).sum() / target.sum().clamp(min=1)
        return labeled_loss(log_p, labels, is_target) + on_target

"""MMD, a stage of a method (Deep Adaptation Networks: Long et al., ICML 2015): features of both domains have the same mean.

    loss = cross-entropy on the source  +  weight ( MMD^2(features) + MMD^2(logits) )

    MMD^2 = mean k(x, x') + mean k(y, y') - 2 mean k(x, y),    k(x, y) = mean_u exp( - |x - y|^2 / gamma_u )

over samples x of the source and y of the target. The mean is that of all that a kernel can see: 33 Gaussians, gamma_u from
2^-8 to 2^8 times the median squared distance by steps of sqrt(2), as in the paper, which also learns weights of them; here all
weigh the same. The paper adapts the last three layers; here it is the features and what the last layer makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.options import option

if TYPE_CHECKING:
    from torch import Tensor

FACTORS = tuple(2 ** (k / 2) for k in range(-16, 17))  # of the median, 2^-8 to 2^8


@dataclass(frozen=True)
class MMD(PairedMethod):
    """The stage `mmd`."""

    weight: float = option(1.0, "Weight of the discrepancy in the loss.", above=0)

    def step(self, step: Step) -> None:
        """Learn the source, and bring both domains together."""
        source, labels, target = step.features()
        logits, theirs = step.logits(source), step.logits(target)
        apart = squared_mmd(source, target) + squared_mmd(logits, theirs)
        step.minimize(step.loss(logits, labels) + self.weight * apart)


def squared_mmd(source: Tensor, target: Tensor) -> Tensor:
    """(n, d), (m, d) -> the squared maximum mean discrepancy."""
    import torch

    both = torch.cat([source, target]).float()
    squares = both.square().sum(1)  # (n + m,)
    distances = (squares[:, None] + squares - 2 * both @ both.T).clamp(min=0)  # (n + m, n + m)
    gamma = distances.detach().median().clamp(min=1e-12)
    kernel = torch.stack([torch.exp(-distances / (gamma * factor)) for factor in FACTORS]).mean(0)
    n = len(source)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()

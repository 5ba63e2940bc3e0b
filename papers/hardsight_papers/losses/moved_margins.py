"""How large margins are beside how far they move in a ball: up to which weight smooth adversarial comp-sum learns anything.

Along s times the logits of a network the loss is mean log(1 + sum_k exp(-s D_k)) + nu s mean |D(x') - D(x)|, with the margins
D_k = z_y - z_k of the classes k != y and x' where they have moved most. It is convex in s. At s = 0, where every image gets the
same answer, its slope is nu mean |D(x') - D(x)| - mean sum_k D_k / c: where that is not negative, no s > 0 is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def largest_weight(logits_of: Callable[[Tensor], Tensor], pixels: Tensor, labels: Tensor, search: Mapping[str, Any]) -> float:
    """The nu above which a network is worse by smooth adversarial comp-sum than one that gives every image the same answer.

    The search finds less than the farthest move, so that the nu found is, if anything, too large.

    Args:
        logits_of: (n, ...) pixels -> (n, c) logits.
        pixels, labels: of the training images.
        search: radius, step and steps, as the loss takes them.

    Example:
        >>> import torch
        >>> pixels, labels = torch.full((4, 1), 0.5), torch.zeros(4, dtype=torch.long)
        >>> logits_of = lambda x: torch.cat([3 * x, torch.zeros_like(x)], dim=1)  # margins of 1.5 that move by 0.3
        >>> round(largest_weight(logits_of, pixels, labels, {"radius": 0.1, "step": 0.05, "steps": 3}), 4)
        2.5
    """
    import torch

    from hardsight.losses import Search, worst_inputs

    with torch.no_grad():
        logits = logits_of(pixels)
    worst = worst_inputs(logits_of, pixels, logits, labels, Search(**search))
    with torch.no_grad():
        still, moved = (z.gather(1, labels[:, None]) - z for z in (logits, logits_of(worst)))  # (n, c)
        return float(still.mean() / torch.linalg.vector_norm(moved - still, dim=1).mean())

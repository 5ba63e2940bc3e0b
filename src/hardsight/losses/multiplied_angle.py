"""psi, the multiplied angle of L-Softmax and A-Softmax, and how its share is annealed.

psi(angle) = (-1)^k cos(m angle) - 2k for angle in [k pi/m, (k+1) pi/m]: cos(m angle), continued so that it always falls.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hardsight.errors import InputError


def psi(cosine: Tensor, m: int) -> Tensor:
    """psi from the cosine, by Chebyshev's recursion: no arccos, so the slope is at most m^2 everywhere. (n,) -> (n,)

    Example:
        >>> psi(torch.tensor([1.0, 0.0, -1.0]), 4)  # 0, 90 and 180 degrees
        tensor([ 1., -3., -7.])
    """
    check_multiple(m)
    with torch.no_grad():
        k = (cosine.clamp(-1, 1).acos() * (m / math.pi)).floor().clamp_max(m - 1)
    before, cos_m = torch.ones_like(cosine), cosine
    for _ in range(m - 1):  # cos((j + 1) angle) = 2 cos(angle) cos(j angle) - cos((j - 1) angle)
        before, cos_m = cos_m, 2 * cosine * cos_m - before
    return (1 - 2 * (k % 2)) * cos_m - 2 * k


def annealed(step: int, *, base: float, gamma: float, power: float, smallest: float) -> float:
    """How much of the plain cosine is mixed in at a step: base * (1 + gamma * step)^-power, never below `smallest`.

    Example:
        >>> annealed(0, base=1000.0, gamma=2e-5, power=45.0, smallest=0.0)
        1000.0
    """
    return max(smallest, base * (1 + gamma * step) ** -power)


def check_multiple(m: int) -> int:
    if m != int(m) or m < 1:
        raise InputError(f"the angle is multiplied by a whole number from 1 on, got m = {m}.")
    return int(m)

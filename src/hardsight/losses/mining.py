"""Which triplets and pairs of a batch to use: all of them, the hard ones, or those returned by a miner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from hardsight.errors import InputError

Negatives = Literal["hard", "semihard"]
Miner = Callable[[Tensor, Tensor], tuple[Tensor, ...]]  # features, labels -> (a, p, n), or pairs as (a, p, a, n)


def batch_triplets(
    cosine: Tensor, same: Tensor, *, kind: Negatives = "hard", k: int = 1, farthest: bool = True, margin: float = 0.2
) -> tuple[Tensor, Tensor, Tensor]:
    """Anchor, positive and negative of the hard or semi-hard triplets by angle, sorted by anchor, nearest negative first.

    Args:
        cosine: (q, m) of each anchor to each sample; NaN for the anchor itself.
        same: (q, m) whether both have the same class.
        kind: "hard" negatives are the nearest samples of other classes, "semihard" the nearest that are farther than the
            positive, by less than the margin.
        k: negatives per anchor.
        farthest: whether the positive is the farthest sample of the class; otherwise the nearest.
        margin: of semi-hard negatives, in radians.
    """
    if cosine.numel() == 0:  # no anchors, or nothing to compare them with
        none = torch.empty(0, dtype=torch.long, device=cosine.device)
        return none, none, none
    itself = cosine.isnan()
    own = cosine.masked_fill(~same | itself, torch.inf if farthest else -torch.inf)
    to_positive, positive = own.min(1) if farthest else own.max(1)  # (q,) each
    nearer = cosine.masked_fill(same | itself, -torch.inf)
    if kind == "semihard":
        angle = to_positive.clamp(-1, 1).acos()[:, None]
        outside = (nearer >= to_positive[:, None]) | (nearer.clamp(-1, 1).acos() >= angle + margin)
        nearer = nearer.masked_fill(outside, -torch.inf)
    value, negative = nearer.topk(min(k, cosine.shape[1]), dim=1)  # (q, k)
    anchor, at = torch.nonzero((value > -torch.inf) & to_positive.isfinite()[:, None], as_tuple=True)
    return anchor, positive[anchor], negative[anchor, at]


def mined_by(miner: Miner, features: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """The output of a miner: three index tensors for triplets, or four for pairs."""
    with torch.no_grad():
        named: Any = miner(features, labels)
    if not isinstance(named, tuple) or len(named) not in (3, 4):
        raise InputError("a miner must return (anchors, positives, negatives), or (anchors, positives, anchors, negatives).")
    return named

"""Triplet loss in FaceNet's form: squared distances of unit-length features (Schroff et al., CVPR 2015, arXiv:1503.03832).

Which triplets and pairs of a batch a loss uses is here, too: all of them, the hard ones, or those returned by a miner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import PairLoss, Reduction, check_positive, checked_pairs, reduce_plain
from hardsight.losses.cosine_softmax import inverse_norms

Mining = Literal["all", "semihard", "hard"]
Negatives = Literal["hard", "semihard"]
Miner = Callable[[Tensor, Tensor], tuple[Tensor, ...]]  # features, labels -> (a, p, n), or pairs as (a, p, a, n)


def triplet_loss(
    features: Tensor, labels: Tensor, *, margin: float = 0.2, mining: Mining | Miner = "all", reduction: Reduction = "mean"
) -> Tensor:
    """max(0, |a - p|^2 - |a - n|^2 + margin), with features scaled to length 1.

    Args:
        features: (n, d).
        labels: (n,) any integers.
        margin: how much farther than the positive the negative should be.
        mining: "all" triplets of the batch; "semihard", as in FaceNet: for each anchor and positive, the nearest negative
            that is farther than the positive and inside the margin. A pair without one gives no triplet. "hard": for each
            anchor its farthest positive and its nearest negative. Or a miner: a function of features and labels that returns
            index tensors (anchors, positives, negatives), such as `hardsight.subsets.pairs.AngleMiner` and those of
            pytorch-metric-learning.
        reduction: "mean" is over all these triplets, including those with zero loss. Without triplets the loss is 0.
    """
    features = checked_pairs(features, labels)
    if not callable(mining) and mining not in get_args(Mining):
        raise InputError(f"mining must be one of {', '.join(get_args(Mining))}, or a miner, got {mining!r}.")
    unit = features * inverse_norms(features)[:, None]
    with torch.autocast(unit.device.type, enabled=False):
        square = 2 - 2 * unit @ unit.T  # (n, n)
    same = labels[:, None] == labels
    if callable(mining) or mining == "hard":
        a, p, n = _named(mining, features, labels) if callable(mining) else batch_triplets(_cosines(square), same)
        return reduce_plain((square[a, p] - square[a, n] + margin).clamp_min(0), reduction) if len(a) else features.sum() * 0
    anchor, positive = torch.nonzero(same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device), as_tuple=True)
    negative = ~same[anchor]  # (pairs, n)
    usable = negative.any(1)
    anchor, positive, negative = anchor[usable], positive[usable], negative[usable]
    if not len(anchor):
        return features.sum() * 0
    to_positive, to_others = square[anchor, positive][:, None], square[anchor]  # (pairs, 1), (pairs, n)
    if mining == "semihard":
        semihard = negative & ((to_others > to_positive) & (to_others < to_positive + margin)).detach()
        has_semihard = semihard.any(1)
        if not has_semihard.any():
            return features.sum() * 0
        nearest = torch.where(semihard, to_others, torch.inf)[has_semihard].amin(1)
        gap = to_positive[has_semihard, 0] - nearest  # (triplets,)
    else:
        gap = (to_positive - to_others)[negative]  # (triplets,)
    return reduce_plain((gap + margin).clamp_min(0), reduction)


def _cosines(square: Tensor) -> Tensor:
    """(n, n) squared distances of unit vectors -> their cosines without a gradient, NaN on the diagonal."""
    return (1 - square.detach() / 2).fill_diagonal_(torch.nan)


def _named(miner: Miner, features: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    named = mined_by(miner, features.detach(), labels)
    if len(named) != 3:
        raise InputError("a triplet loss needs a miner of triplets: (anchors, positives, negatives).")
    return named


class TripletLoss(PairLoss):
    """`triplet_loss` as a module."""

    def __init__(self, *, margin: float = 0.2, mining: Mining | Miner = "all", reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin, self.mining = check_positive("margin", margin), mining

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        return triplet_loss(features, labels, margin=self.margin, mining=self.mining, reduction=self.reduction)


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

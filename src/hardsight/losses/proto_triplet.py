"""Proto-Triplet: closer to the own prototype than to any other, by a margin (SuSana Distancia, arXiv:2305.09062)."""

from __future__ import annotations

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import (
    PairLoss,
    Reduction,
    check_batch,
    check_positive,
    checked_pairs,
    in_full_precision,
    reduce_plain,
)


def proto_triplet_loss(
    features: Tensor, prototypes: Tensor, labels: Tensor, *, margin: float = 0.5, reduction: Reduction = "mean"
) -> Tensor:
    """max(0, |x - p_y| - min_{k != y} |x - p_k| + margin): (n, d), (c, d), (n,) -> the loss."""
    if len(prototypes) < 2:
        raise InputError(f"there must be at least two prototypes, got {len(prototypes)}.")
    check_batch(features, labels, prototypes.shape[1], len(prototypes))
    features, prototypes = in_full_precision(features, prototypes)
    distance = torch.cdist(features, prototypes, compute_mode="donot_use_mm_for_euclid_dist")  # (n, c), slope 0 at 0
    own = distance.gather(1, labels[:, None])
    nearest = distance.scatter(1, labels[:, None], torch.inf).amin(1)
    return reduce_plain((own[:, 0] - nearest + margin).clamp_min(0), reduction)


def batch_prototypes(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Class means of a batch, and the index of each sample's own: (n, d), (n,) -> (k, d), (n,)."""
    features = checked_pairs(features, labels)
    classes, index = labels.unique(return_inverse=True)
    total = torch.zeros(len(classes), features.shape[1], dtype=features.dtype, device=features.device)
    return total.index_add(0, index, features) / torch.bincount(index)[:, None], index


class ProtoTripletLoss(PairLoss):
    """`proto_triplet_loss` with the class means of the batch as prototypes. A batch of one class has a loss of 0."""

    def __init__(self, *, margin: float = 0.5, reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = check_positive("margin", margin)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        prototypes, index = batch_prototypes(features, labels)
        if len(prototypes) < 2:
            return features.sum() * 0
        return proto_triplet_loss(features, prototypes, index, margin=self.margin, reduction=self.reduction)

"""Supervised contrastive loss (Khosla et al., NeurIPS 2020, arXiv:2004.11362); with two views of each sample, InfoNCE."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hardsight.checks import check_count
from hardsight.errors import InputError
from hardsight.losses.contract import PairLoss, Reduction, check_positive, checked_pairs, reduce_plain
from hardsight.losses.cosine_softmax import inverse_norms


def supcon_loss(features: Tensor, labels: Tensor, *, temperature: float = 0.1, reduction: Reduction = "mean") -> Tensor:
    """-1/|P(i)| sum_{p in P(i)} log( exp(s_ip / T) / sum_{a != i} exp(s_ia / T) ), s the cosines, P(i) the others of i's class.

    Args:
        features: (n, d); their length does not matter.
        labels: (n,) any integers.
        temperature: T; a low one focuses on the hardest negatives.
        reduction: "mean" is over the samples with another of their class in the batch. Without any, the loss is 0.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])  # cosines 1, 0 and 0
        >>> supcon_loss(features, torch.tensor([0, 0, 1]), temperature=1.0, reduction="none")  # log(1 + 1/e) each
        tensor([0.3133, 0.3133])
    """
    features = checked_pairs(features, labels)
    check_positive("temperature", temperature)
    classes, index, count = labels.unique(return_inverse=True, return_counts=True)
    anchors = count[index] > 1  # (n,)
    if not bool(anchors.any()):
        return features.sum() * 0
    with torch.autocast(features.device.type, enabled=False):
        unit = features * (inverse_norms(features) / temperature**0.5)[:, None]
        logits = unit @ unit.T  # (n, n) s / T
        itself = logits.diagonal().clone()  # (n,)
        others = logits.fill_diagonal_(-torch.inf).logsumexp(1)  # (n,)
        # The sum over the positives is a single product with the sum of the class.
        total = torch.zeros(len(classes), unit.shape[1], dtype=unit.dtype, device=unit.device).index_add(0, index, unit)
        positives = ((unit * total[index]).sum(1) - itself) / (count[index] - 1).clamp_min(1)  # (n,)
    return reduce_plain((others - positives)[anchors], reduction)


def info_nce_loss(first: Tensor, second: Tensor, *, temperature: float = 0.1, reduction: Reduction = "mean") -> Tensor:
    """InfoNCE of two views: each of 2n features should be closest to the other view of its sample (NT-Xent of SimCLR).

    Args:
        first, second: (n, d) features of the two views.
        temperature: T, as in `supcon_loss`.
        reduction: "none" gives (2n,) losses, those of the first view first.
    """
    if first.shape != second.shape:
        raise InputError(f"both views must have the same shape, got {tuple(first.shape)} and {tuple(second.shape)}.")
    sample = torch.arange(len(first), device=first.device).repeat(2)
    return supcon_loss(torch.cat([first, second]), sample, temperature=temperature, reduction=reduction)


class SupConLoss(PairLoss):
    """`supcon_loss` as a module, on the features themselves or on a projection of them.

    A projection absorbs most of the loss and is dropped after training: the features before it work better for
    classification (Chen et al., SimCLR, arXiv:2002.05709).

    Args:
        temperature: T.
        projection: length of the projected features; 0 for none. The projection head is a hidden layer of d units, ReLU, and a
            linear layer.
        num_features: d, needed for a projection.
        reduction: "mean", "sum" or "none".
    """

    pair_weight = 1.0

    def __init__(
        self, *, temperature: float = 0.1, projection: int = 0, num_features: int | None = None, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.temperature = check_positive("temperature", temperature)
        self.projection: nn.Module | None = None
        if projection:
            check_count(projection, "projection", least=1)
            if num_features is None:
                raise InputError("a projection needs num_features, the length of the features that go into it.")
            layers = nn.Linear(num_features, num_features), nn.ReLU(), nn.Linear(num_features, projection)
            self.projection = nn.Sequential(*layers)

    def extra_state(self) -> dict[str, Tensor]:
        """Nothing: the projection is dropped."""
        return {}

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        if self.projection is not None:
            checked_pairs(features, labels)
            features = self.projection(features)
        return supcon_loss(features, labels, temperature=self.temperature, reduction=self.reduction)

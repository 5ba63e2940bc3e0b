"""NormFace: softmax on scaled cosines, with a learned or fixed scale (Wang et al., ACM MM 2017, arXiv:1704.06369).

Normalized softmax fixes the scale, and makes prototypes for classes not seen in training (arXiv:2102.03243): a new class needs
only a few samples, and its class vector is the direction of their mean. The paper constrains features under this loss so that
classes are clusters apart, without forming pairs of samples; its abstract has no formula. Ours, with weight `constraint`:

    mean over samples of max(0, angle(x, w_y) - phi_y / 4),    phi_y = the smallest angle from w_y to another class vector

Where it is 0, any two samples of a class are nearer to each other, at most phi/2, than to a sample of another class.
"""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, check_not_negative, check_positive, checked_pairs, reduce
from hardsight.losses.cosine_softmax import arccos, cosine_cross_entropy, cosines, inverse_norms


def normface_loss(
    features: Tensor, weight: Tensor, labels: Tensor, *, scale: float | Tensor = 20.0, **reducing: Unpack[Reducing]
) -> Tensor:
    """Cross-entropy on scale * cos."""
    losses = cosine_cross_entropy(features, weight, labels, scale=scale)  # (n,)
    return reduce(losses, labels, **reducing)


class NormFaceLoss(HeadLoss):
    """`normface_loss` with its own class vectors.

    Args:
        scale: initial scale.
        learn_scale: whether to train it, as its logarithm so that it stays positive.
    """

    def __init__(
        self, num_features: int, num_classes: int, *, scale: float = 20.0, learn_scale: bool = True, **common: Any
    ) -> None:
        super().__init__(num_features, num_classes, **common)
        log_scale = torch.tensor(check_positive("scale", scale)).log()
        if learn_scale:
            self.log_scale = nn.Parameter(log_scale)
        else:
            self.register_buffer("log_scale", log_scale, persistent=False)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        return normface_loss(features, self.weight, labels, scale=self.log_scale.exp(), **self.reducing)

    def logits(self, features: Tensor) -> Tensor:
        """scale * cos: (n, d) -> (n, c)."""
        return self.log_scale.exp() * cosines(features, self.weight)

    @property
    def head(self) -> Head:
        """A cosine head with the current scale."""
        return Head("cosine", self.weight.detach(), scale=self.log_scale.exp().item())


def cosine_prototypes(features: Tensor, labels: Tensor) -> Tensor:
    """Unit class vectors from samples: the direction of their mean direction. (n, d), (n,) -> (k, d).

    Labels count from 0 without gaps. Only the directions of samples count; all-zero samples are ignored.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, -3.0]])
        >>> cosine_prototypes(features, torch.tensor([0, 1, 1]))
        Traceback (most recent call last):
        hardsight.errors.InputError: the samples of class 1 have no common direction: they cancel out, or are all zeros.
    """
    features = checked_pairs(features, labels)
    count = torch.bincount(labels)  # rejects negative labels
    if not len(count) or int(count.min()) == 0:
        raise InputError("labels must be 0 to k-1 with at least one sample each.")
    unit = features * inverse_norms(features)[:, None]  # (n, d)
    total = torch.zeros(len(count), features.shape[1], dtype=unit.dtype, device=unit.device).index_add(0, labels, unit)
    length = torch.linalg.vector_norm(total, dim=1)
    lost = torch.nonzero(length < 1e-6 * count)[:, 0]
    if len(lost):
        raise InputError(f"the samples of class {int(lost[0])} have no common direction: they cancel out, or are all zeros.")
    return total / length[:, None]


def angles_past_quarter(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """(n,) max(0, angle to the own class vector - a quarter of the angle from that to the nearest other), in radians."""
    own = arccos(cosines(features, weight).gather(1, labels[:, None])[:, 0])  # (n,)
    itself = torch.eye(len(weight), dtype=torch.bool, device=weight.device)
    nearest = arccos(cosines(weight, weight).masked_fill(itself, -1).amax(1))  # (c,)
    return (own - nearest[labels] / 4).clamp_min(0)


class NormalizedSoftmaxLoss(NormFaceLoss):
    """Softmax on scaled cosines with a fixed scale, and a head that can be extended with new classes.

    Args:
        scale: of the cosines.
        constraint: weight of the mean of `angles_past_quarter`; 0 for none.
    """

    not_options = (*NormFaceLoss.not_options, "learn_scale")

    def __init__(
        self, num_features: int, num_classes: int, *, scale: float = 20.0, constraint: float = 0.0, **common: Any
    ) -> None:
        super().__init__(num_features, num_classes, scale=scale, learn_scale=False, **common)
        self.constraint = check_not_negative("constraint", constraint)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels, with the constraint."""
        loss = super().forward(features, labels)
        if not self.constraint:
            return loss
        return loss + self.constraint * reduce(angles_past_quarter(features, self.weight, labels), labels, **self.reducing)

    def head_with(self, features: Tensor, labels: Tensor) -> Head:
        """The head with k new classes, c to c + k - 1, from samples labeled 0 to k - 1."""
        prototypes = cosine_prototypes(features.detach(), labels).to(self.weight.dtype)  # (k, d)
        return Head("cosine", torch.cat([self.weight.detach(), prototypes]), scale=self.head.scale)

"""Dual-head distillation: labels teach one head, the teacher's logits another (Yang et al., arXiv:2411.08937).

A loss on logits and one on probabilities conflict in a single linear layer. So each gets its own layer on the shared
features; the one trained by the teacher is dropped after training.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.losses.contract import Reduction, check_batch, check_not_negative, check_positive, in_full_precision, reduce_plain
from hardsight.losses.softmax import SoftmaxLoss


def binary_kl_loss(
    student_logits: Tensor, teacher_logits: Tensor, *, temperature: float = 2.0, reduction: Reduction = "mean"
) -> Tensor:
    """T^2 sum_k KL(sigmoid(t_k / T) || sigmoid(s_k / T)), each class as a separate yes or no: (n, c), (n, c) -> the loss."""
    if student_logits.shape != teacher_logits.shape:
        raise InputError(
            f"student and teacher must have the same logits, got {tuple(student_logits.shape)} and {tuple(teacher_logits.shape)}."
        )
    student, teacher = in_full_precision(student_logits / temperature, teacher_logits.detach() / temperature)
    yes = teacher.sigmoid()
    kl = yes * (F.logsigmoid(teacher) - F.logsigmoid(student)) + (1 - yes) * (F.logsigmoid(-teacher) - F.logsigmoid(-student))
    return reduce_plain(temperature**2 * kl.sum(1), reduction)


class DualHeadLoss(SoftmaxLoss):
    """Cross-entropy on a linear layer + `distill` * `binary_kl_loss` on a second: takes `(features, labels, teacher_logits)`.

    Without teacher_logits it is plain cross-entropy. Predictions come from the first layer.

    Args:
        distill: weight of the teacher loss; 1 for CIFAR, 0.1 for ImageNet in the paper.
        temperature: T.
        hidden: width of the second head's hidden layer; 0 for a linear one, None for no second head: both losses then use the
            first, the paper's counter-example.
    """

    forward_needs = ("teacher_logits",)

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        distill: float = 1.0,
        temperature: float = 2.0,
        hidden: int | None = 200,
        **common: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **common)
        self.distill, self.temperature = check_not_negative("distill", distill), check_positive("temperature", temperature)
        self.second: nn.Module | None = None if hidden is None else nn.Linear(num_features, num_classes)
        if hidden:
            layers = nn.Linear(num_features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
            self.second = nn.Sequential(*layers)

    def forward(self, features: Tensor, labels: Tensor, teacher_logits: Tensor | None = None) -> Tensor:
        """The loss of features and labels, with (n, c) teacher logits if given."""
        if teacher_logits is None:
            return super().forward(features, labels)
        check_batch(teacher_logits, labels, self.num_classes, self.num_classes)
        taught_logits = self.logits(features) if self.second is None else self.second(features)
        taught = binary_kl_loss(taught_logits, teacher_logits, temperature=self.temperature, reduction=self.reduction)
        return super().forward(features, labels) + self.distill * taught

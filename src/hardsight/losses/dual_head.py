"""Dual-head distillation: labels teach one head, the teacher's logits another (Yang et al., arXiv:2411.08937).

A loss on logits and one on probabilities conflict in a single linear layer. So each gets its own layer on the shared
features; the one trained by the teacher is dropped after training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
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


def aligned_sum(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The sum of two losses' gradients, without the part of the second that opposes the first (gradient alignment).

    Each is treated as one long vector: if first . second < 0, second - (first . second / first . first) first replaces second.

    Args:
        first: gradients of the label loss, one per parameter, None if the loss does not reach it.
        second: gradients of the teacher loss.

    Example:
        >>> import torch
        >>> aligned_sum([torch.tensor([1.0, 0.0])], [torch.tensor([-3.0, 2.0])])  # -3 would undo the first
        [tensor([1., 2.])]
    """
    if len(first) != len(second):
        raise InputError(f"both losses must have the same number of gradients, got {len(first)} and {len(second)}.")
    shared = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    product = sum(float((a.double() * b.double()).sum()) for a, b in shared)
    if product < 0:
        length = sum(float(a.double().square().sum()) for a in first if a is not None)
        second = [b if a is None else -product / length * a + (0 if b is None else b) for a, b in zip(first, second, strict=True)]
    return [b if a is None else a if b is None else a + b for a, b in zip(first, second, strict=True)]


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
        loss, taught = self.parts(features, labels, teacher_logits)
        return loss + taught

    def parts(self, features: Tensor, labels: Tensor, teacher_logits: Tensor) -> tuple[Tensor, Tensor]:
        """The label loss and the teacher loss, the latter times `distill`."""
        check_batch(teacher_logits, labels, self.num_classes, self.num_classes)
        taught_logits = self.logits(features) if self.second is None else self.second(features)
        taught = binary_kl_loss(taught_logits, teacher_logits, temperature=self.temperature, reduction=self.reduction)
        return super().forward(features, labels), self.distill * taught

    def aligned_backward(
        self, parameters: Iterable[nn.Parameter], features: Tensor, labels: Tensor, teacher_logits: Tensor
    ) -> Tensor:
        """A replacement for `loss.backward()`: combines the gradients of both losses with `aligned_sum`, and adds them to `grad`.

        Args:
            parameters: all trained parameters: the network's and this loss's.
        """
        trained = [p for p in parameters if p.requires_grad]
        parts = self.parts(features, labels, teacher_logits)
        first, second = (torch.autograd.grad(part, trained, retain_graph=True, allow_unused=True) for part in parts)
        for p, gradient in zip(trained, aligned_sum(first, second), strict=True):
            if gradient is not None:
                p.grad = gradient if p.grad is None else p.grad + gradient
        return (parts[0] + parts[1]).detach()

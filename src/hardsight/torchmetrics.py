"""AVH as a torchmetrics metric, for use with accuracy and others in a `MetricCollection`; torchmetrics must be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss
from hardsight.models.libraries import import_with_torchvision
from hardsight.scores import avh

if TYPE_CHECKING:
    from torchmetrics import Metric
else:
    Metric = import_with_torchvision("torchmetrics", "AngularVisualHardness").Metric

Reduction = Literal["mean", "sum", "none"]


class AngularVisualHardness(Metric):
    """AVH of every sample seen, or its mean or sum; high is hard.

    Args:
        head: the last linear layer, its (c, d) weight, or one of our losses with class vectors; a layer or loss is read in
            each update, so it may be in training. Angles of a Gaussian head are measured around the mean of its means.
        reduction: "mean" (the default), "sum", or "none" for one number per sample, in the order of the updates.

    `update` takes `features` (n, d) and `target` (n,). In a collection, pass everything by name: each metric takes its own.

    Example:
        metric = AngularVisualHardness(torch.eye(2), reduction="none")
        metric.update(features=torch.tensor([[5.0, 0.0], [2.0, 2.0]]), target=torch.tensor([0, 0]))
        metric.compute()  # tensor([0.0000, 0.5000])
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    values: list[Tensor]

    def __init__(self, head: nn.Linear | HeadLoss | Head | Tensor, reduction: Reduction = "mean", **options: Any) -> None:
        super().__init__(**options)
        if reduction not in ("mean", "sum", "none"):
            raise InputError(f"reduction must be mean, sum or none, got {reduction!r}.")
        self.reduction = reduction
        self._head = (head,)  # in a tuple, so that the layer is not registered as a submodule
        self.add_state("values", default=[], dist_reduce_fx="cat")

    def update(self, features: Tensor, target: Tensor) -> None:
        """Add a batch."""
        head: Any = self._head[0]
        if isinstance(head, HeadLoss):
            head = head.head
        if not isinstance(head, Head):
            weight: Any = getattr(head, "weight", head)
            head = weight.detach().to(features.device)
        values = avh(features.detach(), head, target)  # (n,)
        self.values.append(torch.as_tensor(values, dtype=torch.float32, device=features.device))

    def compute(self) -> Tensor:
        """(n,) in the order of the updates, or a number."""
        values = self.values if isinstance(self.values, Tensor) else torch.cat(self.values or [torch.zeros(0)])
        return values if self.reduction == "none" else values.mean() if self.reduction == "mean" else values.sum()

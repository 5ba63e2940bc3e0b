"""The Z-loss with its own linear layer, whose training step costs the same for any number of classes.

The Z-loss (see znorm.py) depends on the logits o through three numbers: o_y, their mean m and their standard deviation s. With
z = (o_y - m) / s and t = dL/dz its gradient is

    dL/do = t (e_y / s - 1 / (c s) - z (o - m) / (c s^2))

which has the form of the updates of `FactoredWeight`: no (n, c) array and no gradient of the (c, d) class vectors is created.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.losses.contract import Loss, check_batch, check_not_negative, check_positive, reduce_plain
from hardsight.losses.factored_weight import WIDE, FactoredWeight
from hardsight.losses.znorm import check_target


class ZNormLinearLoss(Loss):
    """`nn.Linear` and `znorm_loss` in one, trained by exact steps of plain SGD that do not visit every class.

    The class vectors are not parameters: after `backward`, which gives the features their gradient, `step(lr)` updates them
    like `torch.optim.SGD` without momentum and weight decay. Like gradients, pending steps accumulate until `zero_grad`. The
    loss, the gradient and the step take O(n d^2) for n samples of d features. Occasionally, when the factors of the weight
    have become badly conditioned, a step writes it out at a cost of O(c); so do `weight`, `logits` and `head`.

    Args:
        num_features, num_classes: d and c.
        sharpness, target: as in `znorm_loss`.
        bias: whether the layer has one.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> loss, x, y = ZNormLinearLoss(8, 50), torch.randn(20, 8), torch.randint(0, 50, (20,))
        >>> values = []
        >>> for _ in range(3):
        ...     value = loss(x, y)
        ...     value.backward()
        ...     loss.step(lr=1.0)
        ...     values.append(float(value.detach()))
        >>> values[0] > values[1] > values[2]
        True
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        sharpness: float = 1.0,
        target: float | None = None,
        bias: bool = True,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        check_positive("num_features", num_features)
        if num_classes < 3:
            raise InputError(f"with fewer than three classes every z-score is 1 or -1, got num_classes = {num_classes}.")
        self.num_features, self.num_classes, self.has_bias = num_features, num_classes, bias
        self.sharpness, self.target = check_positive("sharpness", sharpness), check_target(target, num_classes)
        self.pending: list[_Gradient] = []
        self.load_linear(nn.Linear(num_features, num_classes, bias=bias))

    def load_linear(self, linear: nn.Linear) -> Self:
        """Initialize from a copy of this layer."""
        if linear.weight.shape != (self.num_classes, self.num_features) or (linear.bias is not None) != self.has_bias:
            raise InputError(f"this loss takes a Linear layer of {self.extra_repr()}, got {linear}.")
        columns = [linear.weight] if linear.bias is None else [linear.weight, linear.bias[:, None]]
        self.factored = FactoredWeight(torch.cat(columns, dim=1))
        return self

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels."""
        check_batch(features, labels, self.num_features, self.num_classes)
        learns = torch.zeros((), requires_grad=True)  # triggers a backward pass even if the features are frozen
        losses = _ZNormLinear.apply(features, labels, self, learns)  # type: ignore[no-untyped-call]
        return reduce_plain(losses, self.reduction)

    def step(self, lr: float) -> None:
        """Update the class vectors with the gradients of all `backward` calls since the last step."""
        check_not_negative("lr", lr)
        if self.pending:
            x, labels, a, b, g = (torch.cat(parts) for parts in zip(*self.pending, strict=True))
            self.factored.move(x, labels, lr * a, lr * b, lr * g)
        self.pending = []

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discard pending steps."""
        super().zero_grad(set_to_none)
        self.pending = []

    @property
    def weight(self) -> Tensor:
        """(c, d) class vectors, written out."""
        return self.factored.matrix()[:, : self.num_features]

    @property
    def bias(self) -> Tensor | None:
        """(c,) biases, written out."""
        return self.factored.matrix()[:, -1] if self.has_bias else None

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) features -> (n, c) logits for prediction."""
        return F.linear(features, self.weight.to(features), None if self.bias is None else self.bias.to(features))

    @property
    def head(self) -> Head:
        """The same logits as a `hardsight.Head`."""
        return Head("linear", self.weight, self.bias)

    def extra_repr(self) -> str:
        """Arguments shown by `print`."""
        return f"in_features={self.num_features}, out_features={self.num_classes}, bias={self.has_bias}"


class _Gradient(NamedTuple):
    """dL/do = a o + b 1 + g e_y of n samples."""

    x: Tensor  # (n, d), with a column of ones for the bias
    labels: Tensor  # (n,)
    a: Tensor  # (n,)
    b: Tensor  # (n,)
    g: Tensor  # (n,)


class _ZNormLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, labels: Tensor, layer: ZNormLinearLoss, learns: Tensor) -> Tensor:
        factored, c = layer.factored, layer.num_classes
        x = features.to(WIDE)
        x = F.pad(x, (0, 1), value=1.0) if layer.has_bias else x  # (n, d)
        own, by_gram = factored.of(labels), x @ factored.gram  # (n, d) each
        mean = x @ factored.total / c  # (n,)
        variance = torch.linalg.vecdot(by_gram, x) / c - mean**2
        dtype = torch.promote_types(features.dtype, torch.float32)
        floor = torch.finfo(dtype).tiny ** 0.5  # as in `znorm_loss`: if all logits are equal, z is 0
        deviation = variance.clamp_min(floor).sqrt()
        z = (torch.linalg.vecdot(own, x) - mean) / deviation
        ctx.save_for_backward(x, labels, own, by_gram, mean, deviation, z, variance > floor)
        ctx.layer, ctx.total, ctx.dtype = layer, factored.total, features.dtype
        return (F.softplus(layer.sharpness * (layer.target - z)) / layer.sharpness).to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        x, labels, own, by_gram, mean, deviation, z, varied = ctx.saved_tensors
        layer, c = ctx.layer, ctx.layer.num_classes
        t = -torch.sigmoid(layer.sharpness * (layer.target - z)) * by_loss.to(WIDE)  # (n,) dL/dz
        g = t / deviation
        a = -g * z * varied / (c * deviation)
        b = -g / c - a * mean
        layer.pending.append(_Gradient(x, labels, a, b, g))
        grad = a[:, None] * by_gram + b[:, None] * ctx.total + g[:, None] * own  # (n, d)
        return grad[:, : layer.num_features].to(ctx.dtype), None, None, None

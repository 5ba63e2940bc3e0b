"""The Z-loss with a linear layer of its own, whose training step costs the same for any number of classes.

De Brébisson and Vincent, arXiv:1604.08859; the update is that of Vincent, de Brébisson and Bouthillier, NIPS 2015. A loss that
depends on the logits o = W x only through o_y, their sum and the sum of their squares has a gradient of the form

    dL/do = a o + b 1 + g e_y

so a step of plain SGD on n samples, the rows of X (n, d), turns the (c, d) matrix W into

    W M - 1 (X' b)' - sum_i g_i e_{y_i} x_i',   M = I - X' diag(a) X

W is stored as V U + 1 u'. Then U and u absorb the first two terms, and the third changes the rows y_i of V by x_i' U^-1. With
the total s = W' 1 and the Gram matrix Q = W' W stored as well, o_y = w_y x, sum o = s x and sum o^2 = x' Q x. A step costs
O(n d^2), independent of c. The (d, d) matrices are float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LIMIT = 100.0  # of |U| |U^-1| / d, 1 for the identity: beyond it W is written out, because rows of V would lose precision
BLOCK = 2**22  # entries of W per block when it is written out
WIDE = torch.float64


class FactoredWeight:
    """A (c, d) matrix stored as V U + 1 u', with its total and its Gram matrix; V has the dtype of the initial `weight`."""

    def __init__(self, weight: Tensor) -> None:
        d = weight.shape[1]
        self.rows = weight.detach().clone()  # V (c, d)
        self.factor, self.inverse = torch.eye(d, dtype=WIDE), torch.eye(d, dtype=WIDE)  # U (d, d) and U^-1
        self.shift, self.total, self.gram = (torch.zeros(shape, dtype=WIDE) for shape in (d, d, (d, d)))  # u, s and Q
        for part in self.rows.split(self._height):
            wide = part.to(WIDE)
            self.total += wide.sum(0)
            self.gram += wide.T @ wide

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self) -> Tensor:
        """(c, d) W, written out."""
        return torch.cat([(part.to(WIDE) @ self.factor + self.shift).to(part.dtype) for part in self.rows.split(self._height)])

    def of(self, labels: Tensor) -> Tensor:
        """(n, d) rows of W."""
        return self.rows[labels].to(WIDE) @ self.factor + self.shift

    @torch.no_grad()
    def move(self, x: Tensor, labels: Tensor, a: Tensor, b: Tensor, g: Tensor) -> None:
        """The step above: (n, d) samples, their classes, and (n,) a, b and g, multiplied by the learning rate."""
        classes, at = labels.unique(return_inverse=True)  # (m,), (n,)
        own = x.new_zeros(len(classes), x.shape[1]).index_add_(0, at, -g[:, None] * x)  # (m, d) added to their rows
        everyone, all_own = -(b @ x), own.sum(0)  # (d,) added to every row; and the sum of the additions to single rows
        cross = _times_m(self.of(classes), x, a).T @ own + torch.outer(everyone, all_own)  # (d, d)
        total = _times_m(self.total[None], x, a)[0]
        cross += torch.outer(total + 0.5 * len(self) * everyone, everyone)
        self.gram = _times_m(_times_m(self.gram, x, a).T, x, a) + cross + cross.T + own.T @ own  # M is symmetric
        self.total = total + len(self) * everyone + all_own
        self._multiply(x, a)
        self.shift = self.shift + everyone
        self.rows.index_add_(0, classes, (own @ self.inverse).to(self.rows.dtype))

    def _multiply(self, x: Tensor, a: Tensor) -> None:
        """W <- W M on the factors; if M or U is nearly singular, on W itself."""
        factor = _times_m(self.factor, x, a)
        small = torch.eye(len(x)).to(x) - x @ x.T * a  # (n, n) M^-1 = I + X' diag(a) small^-1 X (Woodbury)
        inverse = self.inverse + (x.T * a) @ torch.linalg.solve_ex(small, x @ self.inverse)[0]
        if factor.norm() * inverse.norm() <= LIMIT * len(factor):  # false if not finite
            self.factor, self.inverse, self.shift = factor, inverse, _times_m(self.shift[None], x, a)[0]
            return
        self.rows = torch.cat([_times_m(part.to(WIDE), x, a).to(part.dtype) for part in self.matrix().split(self._height)])
        self.factor, self.inverse = (torch.eye(len(factor)).to(factor) for _ in range(2))
        self.shift = torch.zeros_like(self.shift)

    @property
    def _height(self) -> int:
        return max(1, BLOCK // self.rows.shape[1])


def _times_m(matrix: Tensor, x: Tensor, a: Tensor) -> Tensor:
    """(k, d) matrix times M = I - X' diag(a) X."""
    return matrix - (matrix @ x.T * a) @ x


class ZNormLinearLoss:
    """A copy of a linear layer and `hardsight.losses.znorm_loss` in one, trained by steps that do not visit every class.

    The class vectors are not parameters: after `backward`, which gives the features their gradient, `step(lr)` updates them
    like `torch.optim.SGD` without momentum and weight decay, by the gradients of all `backward` calls since the last step.

    With z = (o_y - m) / s, the z-score of the own logit, and t = dL/dz, the gradient is

        dL/do = t (e_y / s - 1 / (c s) - z (o - m) / (c s^2))
    """

    def __init__(self, linear: nn.Linear, *, sharpness: float = 1.0, target: float | None = None) -> None:
        self.num_classes, self.num_features = linear.weight.shape
        self.has_bias = linear.bias is not None
        self.sharpness = sharpness
        self.target = math.sqrt(self.num_classes - 1) / 2 if target is None else target
        columns = [linear.weight, linear.bias[:, None]] if self.has_bias else [linear.weight]
        self.factored = FactoredWeight(torch.cat(columns, dim=1))
        self.pending: list[_Gradient] = []

    def __call__(self, features: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of (n, d) features and (n,) labels."""
        losses: Tensor = _ZNormLinear.apply(features, labels, self)  # type: ignore[no-untyped-call]
        return losses.mean()

    def step(self, lr: float) -> None:
        """Update the class vectors."""
        x, labels, a, b, g = (torch.cat(parts) for parts in zip(*self.pending, strict=True))
        self.factored.move(x, labels, lr * a, lr * b, lr * g)
        self.pending = []


class _Gradient(NamedTuple):
    """dL/do = a o + b 1 + g e_y of n samples."""

    x: Tensor  # (n, d), with a column of ones for the bias
    labels: Tensor  # (n,)
    a: Tensor  # (n,)
    b: Tensor  # (n,)
    g: Tensor  # (n,)


class _ZNormLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, labels: Tensor, layer: ZNormLinearLoss) -> Tensor:
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
        return grad[:, : layer.num_features].to(ctx.dtype), None, None

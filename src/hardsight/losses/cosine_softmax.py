"""Cross-entropy on logits made of cosines, with a hand-written backward pass: the basis of every angular loss here.

The straightforward form normalizes the class vectors and keeps the copy, the cosines, the angles, the logits and their
softmax for the backward pass. With 100,000 classes that is most of the memory and half of the time. Two facts avoid it:

- The loss of a sample depends only on its own row of cosines. So the row's gradient is computed in the forward pass,
  while the row is in the cache, and replaces the row: only one (n, c) array is kept.
- A cosine changes only across its vectors, never along them. So the gradient is that of a plain product, minus its
  component along the vector: no normalized copy and no cosines are needed. That component is a product of gradient and
  vector; for few classes it is faster to sum gradient times cosine, which is in the cache, over samples or classes.

A vector of zeros has no direction: all its cosines are 0 and its gradient is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, in_full_precision

Margin = Callable[[Tensor], Tensor]  # (n,) cosines to the own class -> (n,) replacements
Logit = Literal["cosine", "angular"]

NO_DIRECTION = 1e-12  # shorter vectors count as zero: their gradient, one over the length, would overflow
BLOCK = 2**18  # entries per block: a few such arrays fit in the cache
FEW = 2 * BLOCK  # up to this many entries, a second (n, c) array is kept for the backward pass


def cosine_cross_entropy(
    features: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    scale: float | Tensor,
    logit: Logit = "cosine",
    margin: Margin | None = None,
) -> Tensor:
    """-log softmax of `scale * cos` or `-scale * angle`, at the own class: (n, d), (c, d), (n,) -> (n,) losses.

    Args:
        features: (n, d) samples; their length does not matter.
        weight: (c, d) class vectors; their length does not matter.
        labels: (n,) own classes.
        scale: inverse temperature; a scalar tensor gets a gradient too.
        logit: "cosine" for scale * cos, "angular" for -scale * angle.
        margin: cosine logits only: changes only the cosine to the own class, before scaling.
    """
    features, weight = in_full_precision(features, weight)
    scale = torch.as_tensor(scale, dtype=features.dtype, device=features.device)
    with torch.autocast(features.device.type, enabled=False):
        losses: Tensor = _CosineCrossEntropy.apply(features, weight, labels, scale, (logit, margin))  # type: ignore[no-untyped-call]
    return losses


def cosines(features: Tensor, weight: Tensor) -> Tensor:
    """Cosine of each feature to each class vector, in full precision: (n, d), (c, d) -> (n, c)."""
    features, weight = in_full_precision(features, weight)
    with torch.autocast(features.device.type, enabled=False):
        product = features * inverse_norms(features)[:, None] @ weight.T
        return product * inverse_norms(weight)  # (n, c)


class ScaledCosineLoss(HeadLoss):
    """A head loss that predicts with scale * cos, without its training margin."""

    scale: float

    def logits(self, features: Tensor) -> Tensor:
        """scale * cos, without the margin: (n, d) -> (n, c)."""
        return self.scale * cosines(features, self.weight)

    @property
    def head(self) -> Head:
        """A cosine head with this scale."""
        return Head("cosine", self.weight.detach(), scale=self.scale)


def arccos(cosine: Tensor) -> Tensor:
    """The angle, with a slope that is bounded and never zero: a sample opposite to its class keeps learning."""
    angle: Tensor = _Arccos.apply(cosine)  # type: ignore[no-untyped-call]
    return angle


def inverse_norms(x: Tensor) -> Tensor:
    """1 / |row|, and 0 for a row without direction, with a gradient of 0 there: (n, d) -> (n,)."""
    norm = torch.linalg.vector_norm(x, dim=1)
    directed = norm > NO_DIRECTION
    return torch.where(directed, 1 / torch.where(directed, norm, 1), 0)


def _inverse_norms(x: Tensor) -> Tensor:
    """The same without a gradient, with half the calls."""
    norm = torch.linalg.vector_norm(x, dim=1)
    return norm.reciprocal().masked_fill_(norm <= NO_DIRECTION, 0)


class _Arccos(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cosine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine)
        return cosine.clamp(-1, 1).acos()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (cosine,) = ctx.saved_tensors
        return -upstream * (1 - cosine**2).clamp_min(torch.finfo(cosine.dtype).eps).rsqrt()


class _CosineCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, labels: Tensor, scale: Tensor, kind: tuple[Logit, Margin | None]) -> Tensor:
        logit, margin = kind
        x_inverse, w_inverse = _inverse_norms(x), _inverse_norms(w)  # (n,), (c,)
        unit = x * x_inverse[:, None]  # (n, d)
        rows = unit @ w.T  # (n, c), reused for cosines and then for the gradient
        losses, by_scale, by_row = (torch.empty_like(x_inverse) for _ in range(3))
        want_gradient, want_scale = any(ctx.needs_input_grad[:4]), ctx.needs_input_grad[3]
        s, step = float(scale), max(1, BLOCK // len(w))
        scaled_inverse = w_inverse * s
        edge = 1 - torch.finfo(rows.dtype).eps / 2  # the last number before 1: rounding can push a cosine past it
        changed = slope = None
        if margin is not None:
            own_cosine = rows.gather(1, labels[:, None])[:, 0] * w_inverse[labels]  # (n,)
            changed, slope = _with_slope(margin, own_cosine.clamp(-1, 1))
        # (n, c) total * d loss / d cos, times cos: its sums are the components of the gradients along the vectors
        along = torch.empty_like(rows) if want_gradient and logit == "angular" and rows.numel() <= FEW else None
        spare = rows.new_empty(2, min(step, len(x)), len(w))
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            cosine, own = rows[part], labels[part, None]  # (b, c) a view, written in place; (b, 1)
            z, p = spare[0, : len(cosine)], spare[1, : len(cosine)]
            if logit == "angular":
                cosine.mul_(w_inverse).clamp_(-edge, edge)
                nearest = torch.acos(cosine, out=z).amin(1, keepdim=True)
                torch.add(s * nearest, z, alpha=-s, out=z)  # (b, c) logits minus the largest in the row
            else:
                z = cosine.mul_(scaled_inverse)  # the cosines are no longer needed
                if changed is not None:
                    z.scatter_(1, own, s * changed[part, None])
                z.sub_(z.amax(1, keepdim=True))
            total = torch.exp(z, out=p).sum(1, keepdim=True)  # (b, 1) the softmax is p / total
            losses[part] = (total.log() - z.gather(1, own))[:, 0]
            if not want_gradient:
                continue
            p.scatter_add_(1, own, -total)  # total times the gradient with respect to the logits
            by_row[part] = 1 / total[:, 0]
            if want_scale:
                by_scale[part] = (p * z).sum(1) * by_row[part] / s  # logits are proportional to the scale
            if slope is not None:
                p.scatter_(1, own, p.gather(1, own) * slope[part, None])
            if logit == "angular":  # d(-angle) / d cos = 1 / sqrt(1 - cos^2), bounded by the edge
                torch.addcmul(p.new_ones(()), cosine, cosine, value=-1, out=z).rsqrt_()
                p.mul_(z)
                if along is not None:
                    torch.mul(p, cosine, out=along[part])
            torch.mul(p, scaled_inverse, out=cosine)
        if want_gradient:
            ctx.save_for_backward(unit, w, rows, x_inverse, w_inverse, by_row, by_scale, along)
            ctx.scale = s
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        # rows * by_row: d loss / d cos, over |w|
        unit, w, rows, x_inverse, w_inverse, by_row, by_scale, along = ctx.saved_tensors
        each = upstream * by_row  # (n,)
        grad_x = grad_w = grad_scale = None
        if ctx.needs_input_grad[0]:
            along_w = rows @ w  # (n, d)
            along_x = (along_w * unit).sum(1, keepdim=True) if along is None else ctx.scale * along.sum(1, keepdim=True)
            grad_x = along_w.addcmul_(along_x, unit, value=-1).mul_((each * x_inverse)[:, None])
        if ctx.needs_input_grad[1]:
            grad_w = rows.T @ (unit * each[:, None])  # (c, d)
            if along is not None:
                grad_w.addcmul_(w, (each @ along * w_inverse**2)[:, None], value=-ctx.scale)
            else:
                _remove_along(w, grad_w, w_inverse)
        if ctx.needs_input_grad[3]:
            grad_scale = upstream @ by_scale
        return grad_x, grad_w, None, grad_scale, None


def _remove_along(w: Tensor, grad_w: Tensor, w_inverse: Tensor) -> None:
    """Remove from each row of a (c, d) gradient its component along the row of w, in place."""
    step = max(1, 4 * BLOCK // w.shape[1])
    for gradient, vectors, inverse in zip(grad_w.split(step), w.split(step), w_inverse.split(step), strict=True):
        gradient.addcmul_(vectors, ((gradient * vectors).sum(1) * inverse**2)[:, None], value=-1)


def _with_slope(margin: Margin, cosine: Tensor) -> tuple[Tensor, Tensor]:
    """The margin applied to each cosine, and its derivative."""
    with torch.enable_grad():
        cosine = cosine.clone().requires_grad_()
        changed = margin(cosine)
        (slope,) = torch.autograd.grad(changed.sum(), cosine)
    return changed.detach(), slope

"""Distances to class Gaussians, with a hand-written backward pass: the basis of L-GM.

energy_k(x) = 1/2 (x - mean_k)' S_k^-1 (x - mean_k) + 1/2 log|S_k|, so that -energy is log N(x; mean_k, S_k) without its
constant. The square is expanded, so that matrix products do the work and no (n, c, d) array is created:

    1/2 sum_j p_kj (x_j - m_kj)^2 = 1/2 (x^2 @ p_k - 2 x @ (p_k m_k) + m_k^2 @ p_k),   p_k = exp(-log_variance_k)

In this form, a small distance is the difference of large numbers. Two things preserve its precision: everything is first
centered on the means, and the distance to the own class, on which the margin and the likelihood depend, is computed
directly from the difference. Classes are processed in blocks, also in the backward pass, so copies of the means stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hardsight.losses.contract import in_full_precision

BLOCK = 2**19  # entries of the means per block
Bounds = tuple[float, float]


def gaussian_logits(
    features: Tensor,
    mean: Tensor,
    log_variance: Tensor | None,
    labels: Tensor,
    *,
    alpha: float = 0.0,
    bounds: Bounds = (-4.0, 4.0),
) -> tuple[Tensor, Tensor]:
    """(n, c) negative energies, with alpha times the distance subtracted for the own class, and (n,) the own energy.

    Args:
        features: (n, d).
        mean: (c, d).
        log_variance: None for the identity, (d,) shared by all classes, or (c, d).
        labels: (n,) own classes.
        alpha: the margin, applied to the own distance but not to log|S|.
        bounds: log-variances are clamped to these. Gradients that lead back inside pass through.
    """
    features, mean = in_full_precision(features, mean)
    if log_variance is not None:
        log_variance = log_variance.to(mean.dtype)
    with torch.autocast(features.device.type, enabled=False):
        logits, own = _GaussianLogits.apply(features, mean, log_variance, labels, (alpha, bounds))  # type: ignore[no-untyped-call]
    return logits, own


class _GaussianLogits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, mean: Tensor, log_variance: Tensor | None, labels: Tensor, margin: tuple[float, Bounds]
    ) -> tuple[Tensor, Tensor]:
        alpha, bounds = margin
        center = mean.mean(0)  # leaves distances unchanged, and keeps the precision of far-off features
        x = features - center  # (n, d)
        squares = x * x
        logits = x.new_empty(len(x), len(mean))
        kept, stray = None, _is_outside(log_variance, bounds)
        for block in _blocks(mean, center, log_variance, bounds if stray else None):
            part, m, v, p, pm = block
            kept = block if len(m) == len(mean) else None  # few classes: reuse it in the backward pass
            constant = 0.5 * torch.linalg.vecdot(pm, m)  # (b,)
            negative = torch.addmm(-constant, x, pm.T)  # (n, b)
            negative = negative.addmm_(squares, p.T, alpha=-0.5) if len(p) == len(m) else negative.sub_(0.5 * squares @ p.T)
            logits[:, part] = negative.clamp_max_(0).sub_(0.5 * v.sum(1))
        own_v = _rows(log_variance, labels, x, bounds)  # (n, d)
        distance = 0.5 * ((features - mean[labels]) ** 2 * (-own_v).exp()).sum(1)  # (n,)
        energy = distance + 0.5 * own_v.sum(1)
        logits.scatter_(1, labels[:, None], -(energy + alpha * distance)[:, None])
        ctx.save_for_backward(x, squares, center, mean, log_variance, labels)
        ctx.alpha, ctx.bounds, ctx.kept = alpha, bounds if stray else None, kept
        return logits, energy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_logits: Tensor, by_own: Tensor) -> tuple[Tensor | None, ...]:
        x, squares, center, mean, log_variance, labels = ctx.saved_tensors
        own = labels[:, None]
        at_own = by_logits.gather(1, own)[:, 0]  # (n,)
        # Negative gradient with respect to the distances: it has the sign of the logits, so the products below add up in place.
        h = by_logits.scatter_add(1, own, (ctx.alpha * at_own - by_own)[:, None])  # (n, c)
        total = -h.sum(0)  # (c,)
        by_energy = total.index_add(0, labels, ctx.alpha * at_own)  # (c,) the margin does not apply to log|S|
        grad_x, grad_mean = torch.zeros_like(x), torch.empty_like(mean)
        grad_v = None
        if ctx.needs_input_grad[2]:
            grad_v = torch.empty_like(log_variance) if log_variance.ndim == 2 else torch.zeros_like(log_variance)
        blocks = _blocks(mean, center, log_variance, ctx.bounds) if ctx.kept is None else [ctx.kept]
        for part, m, _, p, pm in blocks:
            g, t = h[:, part], total[part, None]
            gx = g.T @ x  # (b, d)
            grad_x.addcmul_(x, g @ p if len(p) == len(m) else g.sum(1, keepdim=True) * p, value=-1)
            grad_x.addmm_(g, pm)
            pull = torch.addcmul(gx, t, m)  # (b, d)
            torch.mul(p, pull, out=grad_mean[part])
            if grad_v is None:
                continue
            spread = pull.add_(gx).mul_(m)  # t m^2 + 2 m gx
            if log_variance.ndim == 2:
                spread.addmm_(g.T, squares, alpha=-1)
                torch.addcmul(0.5 * by_energy[part, None], p, spread, value=-0.5, out=grad_v[part])
            else:
                grad_v += 0.5 * (by_energy[part].sum() - p[0] * (spread.sum(0) - g.sum(1) @ squares))
        if grad_v is not None and ctx.bounds is not None:
            low, high = ctx.bounds
            stray = ((log_variance > high) & (grad_v < 0)) | ((log_variance < low) & (grad_v > 0))
            grad_v.masked_fill_(stray, 0)  # a step along it would lead further outside
        return grad_x, grad_mean, grad_v, None, None


def _is_outside(log_variance: Tensor | None, bounds: Bounds) -> bool:
    """Whether any log-variance is out of bounds; checking is cheaper than a clamped copy."""
    if log_variance is None:
        return False
    least, most = log_variance.aminmax()
    return not bool(bounds[0] <= least and most <= bounds[1])


def _blocks(
    mean: Tensor, center: Tensor, log_variance: Tensor | None, bounds: Bounds | None
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor, Tensor]]:
    """Blocks of classes: slice, centered means m, log-variances v, precisions p and p * m; v and p are (b, d) or (1, d)."""
    step = max(1, BLOCK // mean.shape[1])
    for start in range(0, len(mean), step):
        part = slice(start, start + step)
        if log_variance is None:
            v = torch.zeros_like(center)[None]
        else:
            v = log_variance[part] if log_variance.ndim == 2 else log_variance[None]
            v = v if bounds is None else v.clamp(*bounds)
        m, p = mean[part] - center, v.neg().exp_()
        yield part, m, v, p, p * m


def _rows(log_variance: Tensor | None, labels: Tensor, x: Tensor, bounds: Bounds) -> Tensor:
    if log_variance is None:
        return torch.zeros_like(x)
    rows = log_variance[labels] if log_variance.ndim == 2 else log_variance.expand_as(x)
    return rows.clamp(*bounds)

"""Distances to class Gaussians, with a backward written by hand: what L-GM stands on.

energy_k(x) = 1/2 (x - mean_k)' S_k^-1 (x - mean_k) + 1/2 log|S_k|, so that -energy is log N(x; mean_k, S_k) without its
constant. The square is multiplied out, so that products of matrices do the work and no (n, c, d) array is ever made:

    1/2 sum_j p_kj (x_j - m_kj)^2 = 1/2 (x^2 @ p_k - 2 x @ (p_k m_k) + m_k^2 @ p_k),   p_k = exp(-log_variance_k)

Multiplied out, a small distance is the difference of large numbers. Two things keep its digits: everything is first
moved to where the means are, and the distance to the own class, which the margin and the likelihood rest on, is taken
from the difference itself. Classes are worked on in blocks, backward too, so copies of the means stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hardsight.losses.contract import in_full_precision

BLOCK = 2**20  # entries of the means worked on at a time
Bounds = tuple[float, float]


def gaussian_energy(
    features: Tensor, mean: Tensor, log_variance: Tensor | None, labels: Tensor, bounds: Bounds = (-4.0, 4.0)
) -> tuple[Tensor, Tensor]:
    """(n, c) energies, and (n,) the distance part of the own class's.

    Args:
        features: (n, d).
        mean: (c, d).
        log_variance: None for the identity, (d,) shared by all classes, or (c, d).
        labels: (n,) own classes.
        bounds: log-variances are held between these. A gradient that leads back between them passes.
    """
    features, mean = in_full_precision(features, mean)
    if log_variance is not None:
        log_variance = log_variance.to(mean.dtype)
    with torch.autocast(features.device.type, enabled=False):
        energy, own = _GaussianEnergy.apply(features, mean, log_variance, labels, bounds)  # type: ignore[no-untyped-call]
    return energy, own


class _GaussianEnergy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, mean: Tensor, log_variance: Tensor | None, labels: Tensor, bounds: Bounds
    ) -> tuple[Tensor, Tensor]:
        centre = mean.mean(0)  # distances do not change, and far-off features keep their digits
        x = features - centre  # (n, d)
        squares = x * x
        energy = x.new_empty(len(x), len(mean))
        for part, m, v, p in _blocks(mean, centre, log_variance, bounds):
            pm = p * m  # (b, d)
            twice = (x @ pm.T).mul_(-2).add_(squares @ p.T).add_((pm * m).sum(1)).clamp_min_(0)  # (n, b)
            energy[:, part] = twice.add_(v.sum(1)).mul_(0.5)
        own_v = _rows(log_variance, labels, x, bounds)  # (n, d)
        difference = features - mean[labels]
        own = 0.5 * (difference**2 * (-own_v).exp()).sum(1)  # (n,)
        energy.scatter_(1, labels[:, None], (own + 0.5 * own_v.sum(1))[:, None])
        ctx.save_for_backward(features, mean, log_variance, labels)
        ctx.bounds = bounds
        return energy, own

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_energy: Tensor, by_own: Tensor) -> tuple[Tensor | None, ...]:
        features, mean, log_variance, labels = ctx.saved_tensors
        centre = mean.mean(0)
        x = features - centre
        squares = x * x
        by_distance = by_energy.scatter_add(1, labels[:, None], by_own[:, None])  # (n, c)
        total, total_energy = by_distance.sum(0)[:, None], by_energy.sum(0)[:, None]  # (c, 1)
        grad_x, grad_mean = torch.zeros_like(x), torch.empty_like(mean)
        grad_v = torch.zeros_like(log_variance) if ctx.needs_input_grad[2] else None
        for part, m, _, p in _blocks(mean, centre, log_variance, ctx.bounds):
            g, t = by_distance[:, part], total[part]
            gx = g.T @ x  # (b, d)
            grad_x += x * (g @ p if len(p) == len(m) else g.sum(1, keepdim=True) * p) - g @ (p * m)
            torch.mul(p, t * m - gx, out=grad_mean[part])
            if grad_v is None:
                continue
            spread = t * m * m
            spread.addcmul_(gx, m, value=-2)
            if len(p) == len(m) and log_variance.ndim == 2:
                spread += g.T @ squares
                grad_v[part] = 0.5 * (total_energy[part] - p * spread)
            else:
                spread = spread.sum(0) + g.sum(1) @ squares
                grad_v += 0.5 * (total_energy[part].sum() - p[0] * spread)
        if grad_v is not None:
            low, high = ctx.bounds
            stray = ((log_variance > high) & (grad_v < 0)) | ((log_variance < low) & (grad_v > 0))
            grad_v.masked_fill_(stray, 0)  # a step along it would lead further out
        return grad_x, grad_mean, grad_v, None, None


def _blocks(
    mean: Tensor, centre: Tensor, log_variance: Tensor | None, bounds: Bounds
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some classes at a time: which, their centred means, log-variances and precisions, the last two (b, d) or (1, d)."""
    step = max(1, BLOCK // mean.shape[1])
    for start in range(0, len(mean), step):
        part = slice(start, start + step)
        if log_variance is None:
            v = torch.zeros_like(centre)[None]
        else:
            v = (log_variance[part] if log_variance.ndim == 2 else log_variance[None]).clamp(*bounds)
        yield part, mean[part] - centre, v, (-v).exp()


def _rows(log_variance: Tensor | None, labels: Tensor, x: Tensor, bounds: Bounds) -> Tensor:
    if log_variance is None:
        return torch.zeros_like(x)
    rows = log_variance[labels] if log_variance.ndim == 2 else log_variance.expand_as(x)
    return rows.clamp(*bounds)

"""LDR-KL and ALDR-KL: label-distributionally robust losses with a KL ball (Zhu, Ying, Yang, ICML 2023, arXiv:2112.14869).

lambda * log( (1/c) sum_k exp((z_k - z_y + margin [k != y]) / lambda) ): lambda near 0 is the Crammer-Singer hinge, lambda = 1
without margin is cross-entropy minus log c.

ALDR's lambda adapts to each sample: one whose classes are clearly separated gets a small lambda; an ambiguous one keeps the
largest. So the lambdas can be used as a score: they show which samples the network finds hard, or mislabeled.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.errors import InputError, check_choice
from hardsight.losses.contract import LogitLoss, Reduction, check_not_negative, check_positive, checked_logits, reduce_plain

Normalize = Literal["none", "softplus", "l1"]


def ldr_loss(
    logits: Tensor,
    labels: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    margin: float = 2.0,
    normalize: Normalize = "softplus",
    reduction: Reduction = "mean",
) -> Tensor:
    """The formula above, with lambda = temperature: one number, or (n,) one per sample."""
    logits = checked_logits(logits, labels)
    gaps = margin_gaps(normalized(logits, normalize), labels, margin)  # (n, c)
    t = torch.as_tensor(temperature, dtype=gaps.dtype, device=gaps.device).reshape(-1, 1)  # (1, 1) or (n, 1)
    losses = t[:, 0] * (torch.logsumexp(gaps / t, dim=1) - math.log(gaps.shape[1]))  # (n,)
    return reduce_plain(losses, reduction)


def margin_gaps(logits: Tensor, labels: Tensor, margin: float) -> Tensor:
    """z_k - z_y + margin for the other classes, 0 for the own class: (n, c)."""
    own = labels[:, None]
    gaps = logits - logits.gather(1, own) + margin
    return gaps.scatter(1, own, 0.0)


def normalized(logits: Tensor, how: Normalize) -> Tensor:
    """Normalized logits: "softplus" divides by its mean, "l1" by the mean absolute value; otherwise unchanged."""
    check_choice(how, get_args(Normalize), "normalize")
    if how == "none":
        return logits
    size = F.softplus(logits) if how == "softplus" else logits
    smallest = torch.finfo(logits.dtype).tiny ** 0.5  # all-zero logits stay zero
    return size / size.abs().mean(1, keepdim=True).clamp_min(smallest)


class LDRLoss(LogitLoss):
    """`ldr_loss` as a module."""

    def __init__(
        self, *, temperature: float = 1.0, margin: float = 2.0, normalize: Normalize = "softplus", reduction: Reduction = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.temperature, self.margin = check_positive("temperature", temperature), check_not_negative("margin", margin)
        self.normalize = normalize

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, c) logits and (n,) labels."""
        return ldr_loss(
            logits,
            labels,
            temperature=self.temperature,
            margin=self.margin,
            normalize=self.normalize,
            reduction=self.reduction,
        )


def adapted_temperature(gaps: Tensor, temperature: Tensor, *, start: float, alpha: float) -> Tensor:
    """lambda0 - lambda0 / (alpha log c) * KL(softmax(gaps / lambda) || uniform): (n, c), (n,) -> (n,).

    This is where the loss minus its penalty on leaving lambda0 is stationary in lambda; each visit makes one step towards it.
    """
    log_p = torch.log_softmax(gaps / temperature[:, None], dim=1)
    log_c = math.log(gaps.shape[1])
    kl = (log_p.exp() * log_p).sum(1) + log_c  # (n,) in [0, log c]
    return start - start / (alpha * log_c) * kl


class ALDRLoss(LogitLoss):
    """ALDR-KL: takes `(logits, labels, indices)`, where the indices identify the training samples.

    loss = ldr(lambda_i) - alpha log c / (2 lambda0) * (lambda_i - lambda0)^2, with no gradient through the lambdas.

    Args:
        num_samples: number of training samples.
        start: lambda0. alpha: above 1, so that every lambda stays positive.
        margin: as in `ldr_loss`.
    """

    forward_needs = ("indices",)
    temperatures: Tensor

    def __init__(
        self,
        num_samples: int,
        *,
        start: float = 1.0,
        alpha: float = 2.0,
        margin: float = 1.0,
        normalize: Normalize = "l1",
        **common: Any,
    ) -> None:
        super().__init__(**common)
        check_positive("num_samples", num_samples)
        if not alpha > 1:
            raise InputError(f"alpha must be above 1, so that every lambda stays positive, got {alpha}.")
        self.start, self.alpha, self.margin = check_positive("start", start), alpha, check_not_negative("margin", margin)
        self.normalize = normalize
        self.register_buffer("temperatures", torch.full((num_samples,), float(start)))  # lambda_i, saved in the state dict

    def per_sample(self, indices: Tensor) -> dict[str, Tensor]:
        """The lambdas of these samples: a score of theirs."""
        return {"aldr_lambda": self.temperatures[indices]}

    def forward(self, logits: Tensor, labels: Tensor, indices: Tensor) -> Tensor:
        """The loss of (n, c) logits, (n,) labels and (n,) indices; in training mode their lambdas are updated."""
        logits = checked_logits(logits, labels)
        if indices.shape != labels.shape:
            raise InputError(f"there must be one index per sample, got {tuple(indices.shape)} for {len(labels)} samples.")
        before = self.temperatures[indices].to(logits)  # (n,)
        with torch.no_grad():
            gaps = margin_gaps(normalized(logits, self.normalize), labels, self.margin)
            temperature = adapted_temperature(gaps, before, start=self.start, alpha=self.alpha) if self.training else before
            if self.training:
                self.temperatures[indices] = temperature.to(self.temperatures)
        losses = ldr_loss(logits, labels, temperature=temperature, margin=self.margin, normalize=self.normalize, reduction="none")
        penalty = self.alpha * math.log(logits.shape[1]) / (2 * self.start) * (temperature - self.start) ** 2
        return reduce_plain(losses - penalty, self.reduction)

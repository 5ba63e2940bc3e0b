"""ALDR-KL: LDR-KL whose lambda adapts to each sample (Zhu, Ying, Yang, ICML 2023, arXiv:2112.14869).

A sample whose classes are clearly separated gets a small lambda; an ambiguous one keeps the largest. So the lambdas can be
used as a score: they show which samples the network finds hard, or mislabeled.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.losses.contract import LogitLoss, check_not_negative, check_positive, checked_logits, reduce_plain
from hardsight.losses.ldr import Normalize, ldr_loss, margin_gaps, normalized


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

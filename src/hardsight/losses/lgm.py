"""L-GM and GM: features as a mixture of Gaussians, one per class (Wan et al., CVPR 2018, arXiv:1803.02988; TPAMI follow-up).

With d_k = 1/2 (x - mean_k)' S_k^-1 (x - mean_k) and the prior p(k):

    classification   -log of  p(y) |S_y|^-1/2 exp(-(1 + alpha) d_y)  over itself plus the same for the others, without alpha
    likelihood       -log N(x; mean_y, S_y) = d_y + 1/2 log|S_y|, plus the constant (d/2) log 2 pi, which has no gradient
    loss             classification + lambda * likelihood

The likelihood is a density, so the loss may be negative. GM is L-GM without the margin (alpha = 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Unpack, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError, check_choice
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, Reducing, check_batch, check_not_negative, reduce
from hardsight.losses.gaussian_logits import Bounds, gaussian_logits

Covariance = Literal["identity", "shared", "per_class"]


def lgm_loss(
    features: Tensor,
    mean: Tensor,
    log_variance: Tensor | None,
    labels: Tensor,
    *,
    alpha: float = 1.0,
    likelihood: float = 0.1,
    log_prior: Tensor | None = None,
    bounds: Bounds = (-4.0, 4.0),
    **reducing: Unpack[Reducing],
) -> Tensor:
    """Classification with a margin on the own distance, plus `likelihood` times the own negative log-likelihood."""
    logits, own_energy = gaussian_logits(features, mean, log_variance, labels, alpha=alpha, bounds=bounds)  # (n, c), (n,)
    if log_prior is not None:
        logits = logits + log_prior.to(logits)
    losses = F.cross_entropy(logits, labels, reduction="none") + likelihood * own_energy  # (n,)
    return reduce(losses, labels, **reducing)


def warm_up(epoch: float, epochs: float, start: float) -> float:
    """Linear warm-up factor: from `start` at epoch 0 to 1 at epoch `epochs`.

    Example:
        >>> warm_up(0, 10, 0.1), warm_up(5, 10, 0.1), warm_up(20, 10, 0.1)
        (0.1, 0.55, 1.0)
    """
    return 1.0 if epoch >= epochs else start + (1 - start) * epoch / epochs


def step_up(step: int, start: float, factor: float, every: int, largest: float) -> float:
    """A value that grows in steps: start * factor^(step // every), at most `largest` (STEPUP of the authors' code).

    Example:
        >>> [step_up(step, 0.001, 10, 1000, 1.0) for step in (0, 999, 1000, 9000)]
        [0.001, 0.001, 0.01, 1.0]
    """
    leaps = step // every
    grown = math.log(start) + leaps * math.log(factor)  # in logarithms, because factor^leaps could overflow
    return largest if grown >= math.log(largest) else start * factor**leaps


class LGMLoss(HeadLoss):
    """`lgm_loss` with its own means (in `weight`) and log-variances.

    Args:
        alpha: margin, as a share of the own distance.
        likelihood: lambda, the weight of the likelihood.
        covariance: "identity", "shared" (one diagonal for all classes) or "per_class" (a diagonal each), learned as
            `log_variance`, starting at 0. Train it with a tenth of the learning rate and no weight decay.
        prior: (c,) class probabilities. Default: equal.
        bounds: log-variances are clamped to these.
        warmup_epochs: number of epochs over which alpha rises from a tenth and lambda from a hundredth of its value;
            set the epoch with `set_epoch`. 0 disables the warm-up.
        step_up: (start, factor, every): alpha starts at start and is multiplied by factor every `every` training
            steps, until it reaches its value; the authors' MNIST setting is (0.001, 10, 1000). None disables it.
    """

    log_prior: Tensor | None
    step: Tensor | None

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        alpha: float = 1.0,
        likelihood: float = 0.1,
        covariance: Covariance = "identity",
        prior: Tensor | Sequence[float] | None = None,
        bounds: Bounds = (-4.0, 4.0),
        warmup_epochs: float = 0,
        step_up: tuple[float, float, int] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(num_features, num_classes, **common)
        check_choice(covariance, get_args(Covariance), "covariance")
        if not bounds[0] < bounds[1]:
            raise InputError(f"bounds must be two numbers, the lower one first, got {bounds}.")
        self.alpha, self.likelihood = check_not_negative("alpha", alpha), check_not_negative("likelihood", likelihood)
        self.covariance, self.bounds = covariance, bounds
        self.warmup_epochs = check_not_negative("warmup_epochs", warmup_epochs)
        self.step_up = None if step_up is None else _check_step_up(step_up, warmup_epochs)
        steps = None if step_up is None else torch.zeros((), dtype=torch.int64)
        self.register_buffer("step", steps)  # training steps so far; part of checkpoints
        shape = {"identity": None, "shared": (num_features,), "per_class": (num_classes, num_features)}[covariance]
        self.log_variance = None if shape is None else nn.Parameter(torch.zeros(shape))
        self.register_buffer("log_prior", _log_prior(prior, num_classes))

    @property
    def margin(self) -> float:
        """The current alpha."""
        if self.step_up is not None and self.step is not None and self.alpha > 0:
            return step_up(int(self.step), *self.step_up, largest=self.alpha)
        return self.alpha * warm_up(self.epoch, self.warmup_epochs, 0.1)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss of (n, d) features and (n,) labels at the current epoch and step."""
        check_batch(features, labels, self.num_features, self.num_classes)
        alpha = self.margin
        if self.training and self.step is not None:
            self.step += 1
        return lgm_loss(
            features,
            self.weight,
            self.log_variance,
            labels,
            alpha=alpha,
            likelihood=self.likelihood * warm_up(self.epoch, self.warmup_epochs, 0.01),
            log_prior=self.log_prior,
            bounds=self.bounds,
            **self.reducing,
        )

    def logits(self, features: Tensor) -> Tensor:
        """log prior minus energy, without the margin: (n, d) -> (n, c)."""
        anyone = torch.zeros(len(features), dtype=torch.int64, device=features.device)
        logits, _ = gaussian_logits(features, self.weight, self.log_variance, anyone, bounds=self.bounds)
        return logits if self.log_prior is None else logits + self.log_prior

    def log_likelihood(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        """(n,) log N(x; mean_k, S_k), including the constant, of the given or else the predicted class: low is abnormal."""
        if labels is None:
            labels = self.logits(features).argmax(1)
        check_batch(features, labels, self.num_features, self.num_classes)
        _, own_energy = gaussian_logits(features, self.weight, self.log_variance, labels, bounds=self.bounds)
        return -own_energy - 0.5 * self.num_features * math.log(2 * math.pi)

    @property
    def head(self) -> Head:
        """A gaussian head with these means, variances and prior."""
        log_variance = None if self.log_variance is None else self.log_variance.detach().clamp(*self.bounds)
        return Head("gaussian", self.weight.detach(), log_variance=log_variance, log_prior=self.log_prior)


class GMLoss(LGMLoss):
    """`LGMLoss` without the margin."""

    not_options = (*LGMLoss.not_options, "alpha")

    def __init__(self, num_features: int, num_classes: int, **options: Any) -> None:
        super().__init__(num_features, num_classes, alpha=0.0, **options)


def _check_step_up(step_up: tuple[float, float, int], warmup_epochs: float) -> tuple[float, float, int]:
    start, factor, every = step_up
    if not (start > 0 and factor > 1 and every >= 1):
        raise InputError(f"step_up must be (start > 0, factor > 1, every >= 1 steps), got {step_up}.")
    if warmup_epochs:
        raise InputError("alpha can follow step_up or warmup_epochs, not both.")
    return float(start), float(factor), int(every)


def _log_prior(prior: Tensor | Sequence[float] | None, num_classes: int) -> Tensor | None:
    if prior is None:
        return None
    p = torch.as_tensor(prior, dtype=torch.float64).detach()
    if p.shape != (num_classes,) or not bool((p > 0).all()) or abs(float(p.sum()) - 1) > 1e-6:
        raise InputError(f"prior must hold {num_classes} positive numbers that sum to 1, got shape {tuple(p.shape)}.")
    return p.log().to(torch.get_default_dtype())

"""Optimization: optimizer, learning-rate schedule, clipping and precision, shared by all commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.cores import warn_of_amx, warn_of_quota
from hardsight.errors import InputError, TrainingError
from hardsight.training import processes
from hardsight.training.settings import LearningOptions
from hardsight.training.trainee import Trainee

VARIANCE_RATE = 0.1  # learning-rate multiplier of log-variances: a step changes them by a factor, not by a difference
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def mixed_precision(name: str, device: torch.device) -> tuple[torch.dtype | None, torch.amp.GradScaler | None]:
    """The type of forward passes and, for float16, torch's gradient scaler; nothing at all in float32.

    Args:
        name: "float32", "bfloat16" or "float16".
        device: where the network is.
    """
    if name == "float16" and device.type == "cpu":
        raise InputError("precision float16 needs a GPU; on a CPU use bfloat16.")
    if name == "bfloat16" and device.type == "cpu":
        warn_of_amx()
    return DTYPES.get(name), torch.amp.GradScaler(device.type) if name == "float16" else None


class Updater:
    """Changes a network by the gradient of a loss.

    Args:
        network: what is trained.
        settings: optimizer, learning rate, weight decay, clipping, and whether batch statistics are frozen.
        wrapped: the network is in DistributedDataParallel, which averages the gradients of several processes; else this does.
    """

    def __init__(self, network: Trainee, settings: LearningOptions, wrapped: bool = False) -> None:
        warn_of_quota(torch.get_num_threads())
        self.network, self.settings, self.lr = network, settings, settings.learning_rate
        self.optimizer = make_optimizer(network, settings)
        network.freeze_statistics = settings.freeze_bn
        self.wrapped = wrapped
        if not wrapped:
            processes.same_in_all(network.parameters())
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        network.autocast, self.scaler = mixed_precision(settings.precision, self.parameters[0].device)

    def set_rate(self, factor: float) -> None:
        """Learn at a share of the learning rate; see `rate_factor`."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * factor * group["multiplier"]

    def update(self, loss: Tensor, only: Sequence[nn.Parameter] | None = None) -> None:
        """One step down the gradient; of these parameters alone, if they are named: others keep their momentum, too."""
        if not math.isfinite(value := float(loss.detach())):
            raise TrainingError(f"the loss became {value}: try a smaller lr than {self.lr:g}.")
        self.optimizer.zero_grad()
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(inputs=None if only is None else list(only))
        if not self.wrapped:
            processes.average_gradients(self.parameters)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if (clip := self.settings.optimizer_options.clip) is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


def rate_factor(settings: LearningOptions, step: float, steps_per_epoch: int, epochs: int) -> float:
    """The share of the learning rate at a step, counted from 0: no state, so there is none to resume.

    `constant` stays at 1; `step` multiplies by gamma every `step_size` epochs, or at each milestone, by default at half and
    three quarters of the epochs; `cosine` falls to 0 at the end. With a warm-up the rate first rises linearly, and the
    schedule takes over after. An epoch of a curriculum that has fewer steps counts as a whole one: its steps are fractions.

    Example:
        >>> [rate_factor(LearningOptions(schedule="step"), step, 1, 4) for step in range(4)]  # milestones at 2 and 3
        [1.0, 1.0, 0.1, 0.010000000000000002]
        >>> settings = LearningOptions(schedule="cosine", schedule_options={"warmup": 2})
        >>> [round(rate_factor(settings, step, 1, 4), 3) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
    """
    options = settings.schedule_options
    rising = round(options.warmup * steps_per_epoch)
    if step < rising:
        return (step + 1) / rising
    if settings.schedule == "step":
        if options.step_size is not None:
            return float(options.gamma ** int(step / (options.step_size * steps_per_epoch)))
        milestones = options.milestones or (epochs / 2, 3 * epochs / 4)
        return float(options.gamma ** sum(step >= epoch * steps_per_epoch for epoch in milestones))
    if settings.schedule == "cosine":
        done = (step - rising) / max(1, epochs * steps_per_epoch - rising)
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0


def drawn_seed(*stream: int) -> int:
    """A seed for dropout and whatever else a network draws: another one for each seed, epoch, process, ..."""
    return int(np.random.default_rng(stream).integers(2**31))


def parameter_groups(network: Trainee, settings: LearningOptions) -> list[dict[str, Any]]:
    """Parameters by how they learn.

    Matrices and filters decay; biases, norms, slopes and log-variances only where everything is to. The parameters of heads
    learn at `head_rate` times the learning rate, and log-variances at a tenth of that.
    """
    lr, options = settings.learning_rate, settings.optimizer_options
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, p in network.named_parameters():
        if p.requires_grad:
            is_variance = name.endswith("log_variance")
            multiplier = (options.head_rate if network.in_head(name) else 1.0) * (VARIANCE_RATE if is_variance else 1.0)
            decays = options.decay_all or (p.ndim >= 2 and not is_variance)
            decay = settings.weight_decay if decays else 0.0
            groups.setdefault((multiplier, decay), []).append(p)
    if not groups:
        raise InputError("the network has no parameter to train.")
    return [
        {"params": members, "lr": lr * multiplier, "multiplier": multiplier, "weight_decay": decay}
        for (multiplier, decay), members in groups.items()
    ]


def make_optimizer(network: Trainee, settings: LearningOptions) -> torch.optim.Optimizer:
    """SGD with momentum, or AdamW."""
    groups = parameter_groups(network, settings)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups)
    options = settings.optimizer_options
    nesterov = options.momentum > 0 if options.nesterov is None else options.nesterov
    return torch.optim.SGD(groups, momentum=options.momentum, nesterov=nesterov)

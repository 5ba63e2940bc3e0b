"""The learning rate as a function of the step, so that a resumed training needs no state for it."""

from __future__ import annotations

import math

from hardsight.training.settings import LearningOptions


def rate_factor(settings: LearningOptions, step: float, steps_per_epoch: int, epochs: int) -> float:
    """The share of the learning rate at a step, counted from 0.

    `constant` stays at 1; `step` multiplies by gamma every `step_size` epochs, or at each milestone, by default at half and
    three quarters of the epochs; `cosine` falls to 0 at the end. With a warm-up the rate first rises linearly, and the
    schedule takes over after. An epoch of a curriculum that has fewer steps counts as a whole one: its steps are fractions.

    Example:
        >>> [rate_factor(LearningOptions(schedule="step"), step, 1, 4) for step in range(4)]  # milestones at 2 and 3
        [1.0, 1.0, 0.1, 0.010000000000000002]
        >>> [round(rate_factor(LearningOptions(schedule="cosine", warmup=2), step, 1, 4), 3) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
    """
    rising = round(settings.warmup * steps_per_epoch)
    if step < rising:
        return (step + 1) / rising
    if settings.schedule == "step":
        if settings.step_size is not None:
            return float(settings.gamma ** int(step / (settings.step_size * steps_per_epoch)))
        milestones = settings.milestones or (epochs / 2, 3 * epochs / 4)
        return float(settings.gamma ** sum(step >= epoch * steps_per_epoch for epoch in milestones))
    if settings.schedule == "cosine":
        done = (step - rising) / max(1, epochs * steps_per_epoch - rising)
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0

"""The learning rate as a function of the step, so that a resumed training needs no state for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hardsight.training.settings import Schedule


def rate_factor(
    step: int,
    steps_per_epoch: int,
    epochs: int,
    *,
    schedule: Schedule = "constant",
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    warmup: float = 0.0,
) -> float:
    """The share of the learning rate at a step, counted from 0.

    Args:
        schedule: "constant"; "step" multiplies by gamma at each milestone; "cosine" falls to 0 at the end.
        milestones: epochs, from 0 on; none given: half and three quarters of all.
        gamma: what a milestone multiplies by.
        warmup: epochs over which the rate first rises in a straight line; the schedule takes over after them.

    Example:
        >>> [rate_factor(step, 1, 4, schedule="step") for step in range(4)]  # milestones at 2 and 3
        [1.0, 1.0, 0.1, 0.010000000000000002]
        >>> [round(rate_factor(step, 1, 4, schedule="cosine", warmup=2), 3) for step in range(4)]
        [0.5, 1.0, 1.0, 0.5]
    """
    rising = round(warmup * steps_per_epoch)
    if step < rising:
        return (step + 1) / rising
    if schedule == "step":
        passed = sum(step >= at * steps_per_epoch for at in milestones or (epochs / 2, 3 * epochs / 4))
        return float(gamma**passed)
    if schedule == "cosine":
        done = (step - rising) / max(1, epochs * steps_per_epoch - rising)
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0

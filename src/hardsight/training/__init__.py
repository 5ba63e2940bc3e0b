"""Training with a story of every sample: `run`, and `Dynamics` for whoever has a loop of their own.

    running.py         `run`: what to train is settled; loop.py trains it, one plain loop on Accelerate
    settings.py        what decides a training, checked
    sets.py            what to train on and what to watch
    inputs.py          samples as batches, the same in every run; augmentation.py changes them
    trainee.py         a network whose last layer gave way to a loss; objective.py knows the losses by name
    schedule.py        the learning rate as a function of the step
    checkpoint.py      where a training stands, in safetensors and JSON
    processes.py       what several processes tell each other
    results.py         what is left in the run at the end: model, head, snapshot, figures
    dynamics.py        `Dynamics`: per-sample numbers of every epoch; measuring.py takes them from a batch
    curves.py          means of groups.py over the epochs, and where they settle; phases.py: angles first, norms later
    describing.py      what the curves say, in words and figures
    watching.py        what the callbacks of lightning.py and transformers.py share

Names load when first used: `Dynamics` needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {"Dynamics": "hardsight.dynamics.tracker", "run": "hardsight.training.running"}

__all__ = ["Dynamics", "run"]

if TYPE_CHECKING:
    from hardsight.dynamics.tracker import Dynamics
    from hardsight.training.running import run


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.training' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)

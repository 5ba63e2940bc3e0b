"""Training with any loss and per-sample dynamics: `run`. The same core trains adapt and generalize.

    settings.py        the options, each defined once; those that adapt and generalize share
    running.py         `run`: checks and opens the input; starting.py opens the network; loop.py trains it, one plain loop
    sets.py            training data and watched sets; choice.py: a subset of it, and a curriculum, joined by id
    pacing.py          a curriculum: which samples are trained on in which epoch
    inputs.py          samples as batches of numbers, the same in every run; augmentation.py changes them
    network.py         a network cut before its last layer, and forward passes through it
    optimization.py    optimizer, clipping, precision, moving average; schedule.py: the learning rate at each step
    evaluation.py      top-k and ten-crop accuracy of held-out sets
    trainee.py         that network with a loss; objective.py: the losses, loss_names.py: their names; teacher.py
    checkpoint.py      the state of a training, in safetensors and JSON
    processes.py       what several processes exchange
    results.py         what is left in the run at the end: model, head, snapshot, figures

`Dynamics` lives in `hardsight.dynamics`. Names load when first used: importing this package needs no torch.
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

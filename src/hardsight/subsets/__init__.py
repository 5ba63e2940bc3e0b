"""Which samples to train on, which to label next, and in which order: `select` and `curriculum`.

    settings.py      the options of both
    pool.py          the samples to choose among, from a run, a snapshot or a table of scores
    picking.py       the methods by name, and their reasons; within each class, if asked
    strata.py        coverage: every level of hardness, without the hardest
    spread.py        k-centre: no sample is far from the subset
    graph.py         D2: hard samples from everywhere
    uncertainty.py   margin, entropy and AVC: what the model is least sure of
    choosing.py      `select`, and what `hardsight select` does
    cost.py          what a subset costs in accuracy
    lessons.py       `curriculum`: the order, and the epoch from which each sample is trained on
    sampler.py       the same as a torch Sampler

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "CurriculumSampler": "hardsight.subsets.sampler",
    "cost_curve": "hardsight.subsets.cost",
    "curriculum": "hardsight.subsets.lessons",
    "select": "hardsight.subsets.choosing",
    "select_to_file": "hardsight.subsets.choosing",
}

__all__ = ["CurriculumSampler", "cost_curve", "curriculum", "select", "select_to_file"]

if TYPE_CHECKING:
    from hardsight.subsets.choosing import select, select_to_file
    from hardsight.subsets.cost import cost_curve
    from hardsight.subsets.lessons import curriculum
    from hardsight.subsets.sampler import CurriculumSampler


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.subsets' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)

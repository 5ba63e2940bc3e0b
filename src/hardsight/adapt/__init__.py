"""Self-training across domains: which pseudo-labels to keep, and the loop that trains on them.

    thresholds.py      one threshold per class, from the confidences of the samples predicted as it
    selection.py       `select_pseudo_labels`: the published rules, on arrays
    alignment.py       CORAL and subspace alignment, on arrays
    methods.py         what a name such as coral+cbst+avh means
    settings.py        the options, each defined once
    running.py         `run`: checks and opens the input, and compares; work.py has every pair and method, loop.py the rounds
    learner.py         the network; objective.py, its loss between two selections
    baseline.py        plain logistic regression on the source
    measures.py        accuracy and what was selected; tables.py and report.py present it

Zou et al., ECCV 2018 (CBST) and ICCV 2019 (CRST); Chen et al., ICML 2020 (CBST+AVH). Names load when first used: the
pure functions need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "Adapted": "hardsight.adapt.running",
    "METHODS": "hardsight.adapt.selection",
    "PseudoLabels": "hardsight.adapt.selection",
    "class_thresholds": "hardsight.adapt.thresholds",
    "run": "hardsight.adapt.running",
    "select_pseudo_labels": "hardsight.adapt.selection",
}

__all__ = ["METHODS", "Adapted", "PseudoLabels", "class_thresholds", "run", "select_pseudo_labels"]

if TYPE_CHECKING:
    from hardsight.adapt.running import Adapted, run
    from hardsight.adapt.selection import METHODS, PseudoLabels, select_pseudo_labels
    from hardsight.adapt.thresholds import class_thresholds


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.adapt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)

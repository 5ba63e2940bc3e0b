"""Self-training across domains: which pseudo-labels to keep, and the loop that trains on them.

    thresholds.py      one threshold per class, from the confidences of the samples predicted as it
    selection.py       `select_pseudo_labels`: the published rules, on arrays
    alignment.py       CORAL and subspace alignment, on arrays
    methods.py         what a name such as coral+cbst+avh means
    validation.py      has adapting helped? validators that need no labels, on arrays; choosing.py, the method `auto`
    settings.py        the options, each defined once
    running.py         `run`: checks and opens the input, and compares; work.py has every pair and method, loop.py the rounds
    learner.py         the network; objective.py, its loss between two selections
    baseline.py        plain logistic regression on the source
    measures.py        what was selected; tables.py and report.py present it

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
    "circular_validation": "hardsight.adapt.validation",
    "class_evenness": "hardsight.adapt.validation",
    "class_thresholds": "hardsight.adapt.thresholds",
    "deep_embedded_validation": "hardsight.adapt.validation",
    "density_ratio": "hardsight.adapt.validation",
    "importance_weighted": "hardsight.adapt.validation",
    "information_maximisation": "hardsight.adapt.validation",
    "mean_avc": "hardsight.adapt.validation",
    "nearest_neighbours": "hardsight.adapt.validation",
    "neighbour_agreement": "hardsight.adapt.validation",
    "run": "hardsight.adapt.running",
    "select_pseudo_labels": "hardsight.adapt.selection",
    "soft_neighbourhood_density": "hardsight.adapt.validation",
}

__all__ = [
    "METHODS",
    "Adapted",
    "PseudoLabels",
    "circular_validation",
    "class_evenness",
    "class_thresholds",
    "deep_embedded_validation",
    "density_ratio",
    "importance_weighted",
    "information_maximisation",
    "mean_avc",
    "nearest_neighbours",
    "neighbour_agreement",
    "run",
    "select_pseudo_labels",
    "soft_neighbourhood_density",
]

if TYPE_CHECKING:
    from hardsight.adapt.running import Adapted, run
    from hardsight.adapt.selection import METHODS, PseudoLabels, select_pseudo_labels
    from hardsight.adapt.thresholds import class_thresholds
    from hardsight.adapt.validation import (
        circular_validation,
        class_evenness,
        deep_embedded_validation,
        density_ratio,
        importance_weighted,
        information_maximisation,
        mean_avc,
        nearest_neighbours,
        neighbour_agreement,
        soft_neighbourhood_density,
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.adapt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)

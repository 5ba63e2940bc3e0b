"""hardsight: how hard every sample is for a classifier, from angles, confidence and likelihood.

Public names load when first used, so that `import hardsight` is quick and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hardsight.version import VERSION as __version__

_HOME = {
    "Correlations": "hardsight.agreement",
    "Dynamics": "hardsight.dynamics.tracker",
    "Head": "hardsight.head",
    "HardsightError": "hardsight.errors",
    "InputError": "hardsight.errors",
    "FileError": "hardsight.errors",
    "MissingExtra": "hardsight.errors",
    "RunError": "hardsight.errors",
    "SCORES": "hardsight.scores",
    "Score": "hardsight.scores",
    "Snapshot": "hardsight.snapshot",
    "TrainingError": "hardsight.errors",
    "aldr_lambda": "hardsight.scores",
    "angles": "hardsight.geometry",
    "angular_gap": "hardsight.scores",
    "aum": "hardsight.scores",
    "avc_label": "hardsight.scores",
    "avc_predicted": "hardsight.scores",
    "avh": "hardsight.scores",
    "avh_relative": "hardsight.scores",
    "avh_scaled": "hardsight.scores",
    "cartography_confidence": "hardsight.scores",
    "cartography_correctness": "hardsight.scores",
    "cartography_variability": "hardsight.scores",
    "clean": "hardsight.act",
    "confidence": "hardsight.scores",
    "confidence_nobias": "hardsight.scores",
    "correlate": "hardsight.agreement",
    "el2n": "hardsight.scores",
    "entropy": "hardsight.scores",
    "extract": "hardsight.extraction",
    "first_epoch_learned": "hardsight.scores",
    "forgetting_events": "hardsight.scores",
    "gm_likelihood": "hardsight.scores",
    "hardest": "hardsight.table",
    "knn_agreement": "hardsight.scores",
    "logit_margin": "hardsight.scores",
    "loss": "hardsight.scores",
    "max_logit": "hardsight.scores",
    "mean_angular_gap": "hardsight.scores",
    "mean_avh": "hardsight.scores",
    "mean_el2n": "hardsight.scores",
    "nearest_angle": "hardsight.scores",
    "norm": "hardsight.scores",
    "norm_in_class": "hardsight.scores",
    "out_of_sample": "hardsight.act",
    "own_angle": "hardsight.scores",
    "predicted_confidence": "hardsight.scores",
    "probability_margin": "hardsight.scores",
    "score": "hardsight.scoring",
    "verify": "hardsight.files.verifying",
}

__all__ = [  # a plain list: type checkers read it
    "Correlations",
    "Dynamics",
    "FileError",
    "HardsightError",
    "Head",
    "InputError",
    "MissingExtra",
    "RunError",
    "SCORES",
    "Score",
    "Snapshot",
    "TrainingError",
    "__version__",
    "aldr_lambda",
    "angles",
    "angular_gap",
    "aum",
    "avc_label",
    "avc_predicted",
    "avh",
    "avh_relative",
    "avh_scaled",
    "cartography_confidence",
    "cartography_correctness",
    "cartography_variability",
    "clean",
    "confidence",
    "confidence_nobias",
    "correlate",
    "el2n",
    "entropy",
    "extract",
    "first_epoch_learned",
    "forgetting_events",
    "gm_likelihood",
    "hardest",
    "knn_agreement",
    "logit_margin",
    "loss",
    "max_logit",
    "mean_angular_gap",
    "mean_avh",
    "mean_el2n",
    "nearest_angle",
    "norm",
    "norm_in_class",
    "out_of_sample",
    "own_angle",
    "predicted_confidence",
    "probability_margin",
    "score",
    "verify",
]

if TYPE_CHECKING:
    from hardsight.act import clean, out_of_sample
    from hardsight.agreement import Correlations, correlate
    from hardsight.dynamics.tracker import Dynamics
    from hardsight.errors import FileError, HardsightError, InputError, MissingExtra, RunError, TrainingError
    from hardsight.extraction import extract
    from hardsight.files.verifying import verify
    from hardsight.geometry import angles
    from hardsight.head import Head
    from hardsight.scores import (
        SCORES,
        Score,
        aldr_lambda,
        angular_gap,
        aum,
        avc_label,
        avc_predicted,
        avh,
        avh_relative,
        avh_scaled,
        cartography_confidence,
        cartography_correctness,
        cartography_variability,
        confidence,
        confidence_nobias,
        el2n,
        entropy,
        first_epoch_learned,
        forgetting_events,
        gm_likelihood,
        knn_agreement,
        logit_margin,
        loss,
        max_logit,
        mean_angular_gap,
        mean_avh,
        mean_el2n,
        nearest_angle,
        norm,
        norm_in_class,
        own_angle,
        predicted_confidence,
        probability_margin,
    )
    from hardsight.scoring import score
    from hardsight.snapshot import Snapshot
    from hardsight.table import hardest


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__

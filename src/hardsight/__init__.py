"""hardsight: how hard every sample is for a classifier, from angles, confidence and likelihood.

Public names are imported on first use, so `import hardsight` is fast and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hardsight.version import VERSION as __version__

_HOME = {
    "Correlations": "hardsight.human",
    "Dynamics": "hardsight.dynamics.tracker",
    "FileError": "hardsight.errors",
    "HardsightError": "hardsight.errors",
    "Head": "hardsight.head",
    "InputError": "hardsight.errors",
    "MissingExtra": "hardsight.errors",
    "RunError": "hardsight.errors",
    "SCORES": "hardsight.scores",
    "Score": "hardsight.scores",
    "ScoresTable": "hardsight.scores_table",
    "Snapshot": "hardsight.snapshot",
    "TrainingError": "hardsight.errors",
    "aldr_lambda": "hardsight.scores",
    "angles": "hardsight.geometry",
    "angular_gap": "hardsight.scores",
    "attack": "hardsight.attacks",
    "audit": "hardsight.groups",
    "aum": "hardsight.scores",
    "avc_label": "hardsight.scores",
    "avc_predicted": "hardsight.scores",
    "avh": "hardsight.scores",
    "avh_nearest": "hardsight.scores",
    "avh_relative": "hardsight.scores",
    "avh_scaled": "hardsight.scores",
    "cartography_confidence": "hardsight.scores",
    "cartography_correctness": "hardsight.scores",
    "cartography_variability": "hardsight.scores",
    "clean": "hardsight.quality",
    "confidence": "hardsight.scores",
    "confidence_nobias": "hardsight.scores",
    "correlate": "hardsight.human",
    "cosine_histograms": "hardsight.dynamics.cosines",
    "curriculum": "hardsight.subsets",
    "data_iq": "hardsight.scores",
    "drift": "hardsight.groups",
    "el2n": "hardsight.scores",
    "energy": "hardsight.scores",
    "entropy": "hardsight.scores",
    "explore": "hardsight.explorer.notebook",
    "export": "hardsight.exporting.run_export",
    "extract": "hardsight.extraction",
    "first_epoch_learned": "hardsight.scores",
    "forgetting_events": "hardsight.scores",
    "gen": "hardsight.scores",
    "gm_likelihood": "hardsight.scores",
    "grand": "hardsight.scores",
    "hardest": "hardsight.table",
    "knn_agreement": "hardsight.scores",
    "knn_distance": "hardsight.scores",
    "logit_margin": "hardsight.scores",
    "loss": "hardsight.scores",
    "mahalanobis_relative": "hardsight.scores",
    "max_logit": "hardsight.scores",
    "mean_angular_gap": "hardsight.scores",
    "mean_avh": "hardsight.scores",
    "mean_el2n": "hardsight.scores",
    "mean_shift": "hardsight.scores",
    "mine": "hardsight.subsets.pairs",
    "model_agreement": "hardsight.scores",
    "nearest_angle": "hardsight.scores",
    "neural_collapse": "hardsight.dynamics.collapse",
    "norm": "hardsight.scores",
    "norm_in_class": "hardsight.scores",
    "out_of_sample": "hardsight.quality",
    "own_angle": "hardsight.scores",
    "predicted_confidence": "hardsight.scores",
    "prediction_depth": "hardsight.scores",
    "probability_margin": "hardsight.scores",
    "prototypicality": "hardsight.scores",
    "report": "hardsight.explorer.report",
    "reproduce": "hardsight_papers.running",
    "score": "hardsight.scoring",
    "select": "hardsight.subsets",
    "tolerance": "hardsight.dynamics.cosines",
    "uniformity": "hardsight.dynamics.cosines",
    "verify": "hardsight.files.verifying",
    "vim": "hardsight.scores",
    "vog": "hardsight.scores",
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
    "ScoresTable",
    "Snapshot",
    "TrainingError",
    "__version__",
    "aldr_lambda",
    "angles",
    "angular_gap",
    "attack",
    "audit",
    "aum",
    "avc_label",
    "avc_predicted",
    "avh",
    "avh_nearest",
    "avh_relative",
    "avh_scaled",
    "cartography_confidence",
    "cartography_correctness",
    "cartography_variability",
    "clean",
    "confidence",
    "confidence_nobias",
    "correlate",
    "cosine_histograms",
    "curriculum",
    "data_iq",
    "drift",
    "el2n",
    "energy",
    "entropy",
    "explore",
    "export",
    "extract",
    "first_epoch_learned",
    "forgetting_events",
    "gen",
    "gm_likelihood",
    "grand",
    "hardest",
    "knn_agreement",
    "knn_distance",
    "logit_margin",
    "loss",
    "mahalanobis_relative",
    "max_logit",
    "mean_angular_gap",
    "mean_avh",
    "mean_el2n",
    "mean_shift",
    "mine",
    "model_agreement",
    "nearest_angle",
    "neural_collapse",
    "norm",
    "norm_in_class",
    "out_of_sample",
    "own_angle",
    "predicted_confidence",
    "prediction_depth",
    "probability_margin",
    "prototypicality",
    "report",
    "reproduce",
    "score",
    "select",
    "tolerance",
    "uniformity",
    "verify",
    "vim",
    "vog",
]

if TYPE_CHECKING:
    from hardsight.attacks import attack
    from hardsight.dynamics.collapse import neural_collapse
    from hardsight.dynamics.cosines import cosine_histograms, tolerance, uniformity
    from hardsight.dynamics.tracker import Dynamics
    from hardsight.errors import FileError, HardsightError, InputError, MissingExtra, RunError, TrainingError
    from hardsight.explorer.notebook import explore
    from hardsight.explorer.report import report
    from hardsight.exporting.run_export import export
    from hardsight.extraction import extract
    from hardsight.files.verifying import verify
    from hardsight.geometry import angles
    from hardsight.groups import audit, drift
    from hardsight.head import Head
    from hardsight.human import Correlations, correlate
    from hardsight.quality import clean, out_of_sample
    from hardsight.scores import (
        SCORES,
        Score,
        aldr_lambda,
        angular_gap,
        aum,
        avc_label,
        avc_predicted,
        avh,
        avh_nearest,
        avh_relative,
        avh_scaled,
        cartography_confidence,
        cartography_correctness,
        cartography_variability,
        confidence,
        confidence_nobias,
        data_iq,
        el2n,
        energy,
        entropy,
        first_epoch_learned,
        forgetting_events,
        gen,
        gm_likelihood,
        grand,
        knn_agreement,
        knn_distance,
        logit_margin,
        loss,
        mahalanobis_relative,
        max_logit,
        mean_angular_gap,
        mean_avh,
        mean_el2n,
        mean_shift,
        model_agreement,
        nearest_angle,
        norm,
        norm_in_class,
        own_angle,
        predicted_confidence,
        prediction_depth,
        probability_margin,
        prototypicality,
        vim,
        vog,
    )
    from hardsight.scores_table import ScoresTable
    from hardsight.scoring import score
    from hardsight.snapshot import Snapshot
    from hardsight.subsets import curriculum, select
    from hardsight.subsets.pairs import mine
    from hardsight.table import hardest
    from hardsight_papers.running import reproduce


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__

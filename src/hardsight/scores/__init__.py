"""One function per score, and `SCORES`, the registry that describes them all.

Row scores need one sample and the head; dataset scores need all samples; dynamics scores need a training's epochs; reference
scores are fitted to another snapshot. A few need more: several models, several layers, the checkpoints of a training.

    registry.py          `SCORES`, and how a score is registered
    angular.py           scores of one sample: angles; confidence.py: logits; likelihood.py: Gaussians
    within_dataset.py    a sample among all others; duplicates.py: near duplicates; neighbors.py: what neighbors say
    detectors.py         scores fitted to a reference: atypical inputs; class_gaussians.py: classes as Gaussians;
                         reference_angles.py: angles to it; human_hardness.py: what people find hard
    dynamics.py          scores over the epochs of a training; ensembles.py: of several models or checkpoints

    sweep.py             the one pass over the classes that row scores share; accumulator.py: its running numbers; terms.py: what
                         it can compute; probabilities.py: probabilities in place of logits
    search.py            exact nearest neighbors; class_search.py: those of other classes, and of the own
"""

from hardsight.scores.angular import (
    angular_gap,
    avc_label,
    avc_predicted,
    avh,
    avh_nearest,
    avh_relative,
    nearest_angle,
    norm,
    own_angle,
)
from hardsight.scores.class_gaussians import qda_confidence
from hardsight.scores.confidence import (
    confidence,
    confidence_nobias,
    el2n,
    energy,
    entropy,
    gen,
    grand,
    logit_margin,
    loss,
    max_logit,
    predicted_confidence,
    probability_margin,
)
from hardsight.scores.detectors import knn_distance, mahalanobis_relative, mean_shift, vim
from hardsight.scores.duplicates import near_duplicates
from hardsight.scores.dynamics import (
    aldr_lambda,
    aum,
    cartography_confidence,
    cartography_correctness,
    cartography_variability,
    data_iq,
    first_epoch_learned,
    forgetting_events,
    mean_angular_gap,
    mean_avh,
    mean_el2n,
)
from hardsight.scores.ensembles import model_agreement, vog
from hardsight.scores.human_hardness import human_hardness
from hardsight.scores.likelihood import gm_likelihood
from hardsight.scores.neighbors import knn_agreement, prediction_depth
from hardsight.scores.reference_angles import angular_confidence, neighbor_ratio
from hardsight.scores.registry import SCORES, Score
from hardsight.scores.within_dataset import avh_scaled, norm_in_class, prototypicality

__all__ = [
    "SCORES",
    "Score",
    "aldr_lambda",
    "angular_confidence",
    "angular_gap",
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
    "confidence",
    "confidence_nobias",
    "data_iq",
    "el2n",
    "energy",
    "entropy",
    "first_epoch_learned",
    "forgetting_events",
    "gen",
    "gm_likelihood",
    "grand",
    "human_hardness",
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
    "model_agreement",
    "near_duplicates",
    "nearest_angle",
    "neighbor_ratio",
    "norm",
    "norm_in_class",
    "own_angle",
    "predicted_confidence",
    "prediction_depth",
    "probability_margin",
    "prototypicality",
    "qda_confidence",
    "vim",
    "vog",
]

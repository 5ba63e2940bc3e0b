"""One function per score, and `SCORES`, the registry that describes them all.

Row scores need one sample and the head; dataset scores need all samples; dynamics scores need a training's epochs.
"""

from hardsight.scores.angular import (
    angular_gap,
    avc_label,
    avc_predicted,
    avh,
    avh_relative,
    nearest_angle,
    norm,
    own_angle,
)
from hardsight.scores.confidence import (
    confidence,
    confidence_nobias,
    el2n,
    entropy,
    logit_margin,
    loss,
    max_logit,
    predicted_confidence,
    probability_margin,
)
from hardsight.scores.dynamics import (
    aldr_lambda,
    aum,
    cartography_confidence,
    cartography_correctness,
    cartography_variability,
    first_epoch_learned,
    forgetting_events,
    mean_angular_gap,
    mean_avh,
    mean_el2n,
)
from hardsight.scores.likelihood import gm_likelihood
from hardsight.scores.neighbours import knn_agreement
from hardsight.scores.registry import SCORES, Score
from hardsight.scores.within import avh_scaled, norm_in_class

__all__ = [
    "SCORES",
    "Score",
    "aldr_lambda",
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
    "confidence",
    "confidence_nobias",
    "el2n",
    "entropy",
    "first_epoch_learned",
    "forgetting_events",
    "gm_likelihood",
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
    "own_angle",
    "predicted_confidence",
    "probability_margin",
]

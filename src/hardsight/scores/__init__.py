"""One function per score, and `SCORES`, the registry that describes them all.

Row scores need one sample and the head; dataset scores need all samples.
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
from hardsight.scores.likelihood import gm_likelihood
from hardsight.scores.neighbours import knn_agreement
from hardsight.scores.registry import SCORES, Score
from hardsight.scores.within import avh_scaled, norm_in_class

__all__ = [
    "SCORES",
    "Score",
    "angular_gap",
    "avc_label",
    "avc_predicted",
    "avh",
    "avh_relative",
    "avh_scaled",
    "confidence",
    "confidence_nobias",
    "el2n",
    "entropy",
    "gm_likelihood",
    "knn_agreement",
    "logit_margin",
    "loss",
    "max_logit",
    "nearest_angle",
    "norm",
    "norm_in_class",
    "own_angle",
    "predicted_confidence",
    "probability_margin",
]

from .adapt_result import Adapted
from .pseudo_labels import METHODS, PseudoLabels, class_thresholds, select_pseudo_labels
from .validation import (
    circular_validation,
    class_evenness,
    deep_embedded_validation,
    density_ratio,
    importance_weighted,
    information_maximization,
    mean_avc,
    nearest_neighbors,
    neighbor_agreement,
    soft_neighborhood_density,
)
from .generalize_result import Generalized

__all__ = [
    "Adapted",
    "Generalized",
    "METHODS",
    "PseudoLabels",
    "circular_validation",
    "class_evenness",
    "class_thresholds",
    "deep_embedded_validation",
    "density_ratio",
    "importance_weighted",
    "information_maximization",
    "mean_avc",
    "nearest_neighbors",
    "neighbor_agreement",
    "select_pseudo_labels",
    "soft_neighborhood_density",
]

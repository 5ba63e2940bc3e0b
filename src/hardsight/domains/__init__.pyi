from .adapt_result import Adapted
from .pseudo_labels import METHODS, PseudoLabels, class_thresholds, select_pseudo_labels
from .generalize_result import Generalized

__all__ = [
    "Adapted",
    "Generalized",
    "METHODS",
    "PseudoLabels",
    "class_thresholds",
    "select_pseudo_labels",
]

from .collapse import neural_collapse
from .cosines import cosine_histograms, tolerance, uniformity

__all__ = [
    "cosine_histograms",
    "neural_collapse",
    "tolerance",
    "uniformity",
]

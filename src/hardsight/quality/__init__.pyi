from .folds import out_of_sample
from .review import apply_review

__all__ = [
    "apply_review",
    "out_of_sample",
]

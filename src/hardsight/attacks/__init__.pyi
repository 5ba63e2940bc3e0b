from .attack_result import Attack
from .tables import describe_paths, roc_curve
from .gradient_sign import fgsm, pgd

__all__ = [
    "Attack",
    "describe_paths",
    "fgsm",
    "pgd",
    "roc_curve",
]

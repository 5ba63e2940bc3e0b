from .attack_result import Attack
from .tables import roc_curve
from .gradient_sign import fgsm, pgd
from .trajectory import describe_paths

__all__ = [
    "Attack",
    "describe_paths",
    "fgsm",
    "pgd",
    "roc_curve",
]

from .gradient_sign import fgsm, pgd

__all__ = [
    "fgsm",
    "pgd",
]

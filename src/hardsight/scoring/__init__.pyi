from .fitted_head import fit_head

__all__ = [
    "fit_head",
]

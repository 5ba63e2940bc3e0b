from .train import Trained

__all__ = [
    "Trained",
]

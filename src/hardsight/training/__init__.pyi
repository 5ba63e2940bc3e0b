from .results import Trained, read_trained

__all__ = [
    "Trained",
    "read_trained",
]

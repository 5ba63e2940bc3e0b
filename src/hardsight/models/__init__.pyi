from .model import Model
from .opening import open_model
from .preprocessing import Preprocessing

__all__ = [
    "Model",
    "Preprocessing",
    "open_model",
]

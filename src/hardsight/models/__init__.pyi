from .model import Model
from .opening import open_model
from .preprocessing import Preprocessing
from .torchvision_models import import_torchvision

__all__ = [
    "Model",
    "Preprocessing",
    "import_torchvision",
    "open_model",
]

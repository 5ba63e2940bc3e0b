from .embedder import open_embedder
from .head_layer import HeadLayer
from .libraries import import_torchvision
from .model import Model
from .networks import DigitsCNN, LeNet
from .opening import open_model
from .preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

__all__ = [
    "DigitsCNN",
    "HeadLayer",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "LeNet",
    "Model",
    "Preprocessing",
    "import_torchvision",
    "open_embedder",
    "open_model",
]

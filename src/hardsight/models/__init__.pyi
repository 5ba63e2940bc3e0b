from .cifar_vgg import CifarVGG
from .digits import DigitsCNN
from .head_layer import HeadLayer
from .lenet import LeNet
from .model import Model
from .opening import open_model
from .preprocessing import Preprocessing
from .torchvision_models import import_torchvision

__all__ = [
    "CifarVGG",
    "DigitsCNN",
    "HeadLayer",
    "LeNet",
    "Model",
    "Preprocessing",
    "import_torchvision",
    "open_model",
]

from .dataset import ImageData
from .decoding import BrokenImage
from .degradation import Degradation, degrade, degraded_id, parse_degradations
from .digits import load_digits
from .image_quality import Quality
from .opening import open_any, open_data

__all__ = [
    "BrokenImage",
    "Degradation",
    "ImageData",
    "Quality",
    "degrade",
    "degraded_id",
    "load_digits",
    "open_any",
    "open_data",
    "parse_degradations",
]

"""Images from wherever they lie, one at a time, with stable ids: `open_data`. Nothing here imports torch.

open_data(spec)      folders, lists, CSV/Parquet, tar, npz/npy, MNIST idx, CIFAR-10 binary, the built-in digits
ImageData            what it returns: ids, labels, columns, and `image(i)`
BrokenImage          one image that cannot be read, with a short reason
degrade(image, ...)  a controlled loss of quality; `parse_degradations` reads them from text
"""

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage
from hardsight.data.degradation import Degradation, degrade, degraded_id, parse_degradations
from hardsight.data.opening import open_data

__all__ = ["BrokenImage", "Degradation", "ImageData", "degrade", "degraded_id", "open_data", "parse_degradations"]

"""Images from folders, archives, lists and arrays, one at a time, with stable ids: `open_data`. Nothing here imports torch.

open_data(spec)      folders, lists, CSV/Parquet, tar, npz/npy, Hugging Face, MNIST idx, CIFAR binary, the built-in digits
open_any(path)       a snapshot, a scores table or images, whatever the path holds
ImageData            what `open_data` returns: ids, labels, columns, and `image(i)`
BrokenImage          one image that cannot be read, with a short reason
degrade(image, ...)  a controlled loss of quality; `parse_degradations` reads them from text

Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardsight.data.dataset import ImageData
    from hardsight.data.decoding import BrokenImage
    from hardsight.data.degradation import Degradation, degrade, degraded_id, parse_degradations
    from hardsight.data.opening import open_any, open_data

_HOME = {
    "BrokenImage": "decoding",
    "Degradation": "degradation",
    "ImageData": "dataset",
    "degrade": "degradation",
    "degraded_id": "degradation",
    "open_any": "opening",
    "open_data": "opening",
    "parse_degradations": "degradation",
}

__all__ = ["BrokenImage", "Degradation", "ImageData", "degrade", "degraded_id", "open_any", "open_data", "parse_degradations"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hardsight.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hardsight.data.{_HOME[name]}"), name)

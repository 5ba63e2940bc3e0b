"""Images as plain rows of numbers, for models that take (b, values) rather than (b, C, H, W)."""

from __future__ import annotations

import math

import numpy as np

from hardsight.models.preprocessing import Preprocessing


def flat_images(batch: np.ndarray) -> np.ndarray:
    """(b, C, H, W) -> (b, H * W * C), the order of `images.reshape(len(images), -1)` on ordinary pictures."""
    return batch.transpose(0, 2, 3, 1).reshape(len(batch), -1) if batch.ndim == 4 else batch.reshape(len(batch), -1)


def flat_preprocessing(num_values: int | None) -> Preprocessing:
    """The square gray or color picture that has this many values, if there is one; 64 is an 8 x 8 digit."""
    for channels, mode in ((1, "L"), (3, "RGB")):
        if num_values is not None and num_values % channels == 0:
            side = math.isqrt(num_values // channels)
            if channels * side * side == num_values:
                return Preprocessing(size=(side, side), channels="L" if mode == "L" else "RGB")
    return Preprocessing()

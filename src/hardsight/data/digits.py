"""scikit-learn's 1,797 handwritten digits, 8 x 8: built-in data for the demo and for tests."""

from __future__ import annotations

import importlib
from functools import cache

import numpy as np

from hardsight.data.arrays import ImageArrays, row_ids
from hardsight.data.dataset import ImageData

TEST_EVERY = 5


def read_digits() -> ImageData:
    """All digits; every fifth row (4, 9, 14, ...) is `test`, the others `train`, so that both hold every writer.

    Example:
        >>> data = read_digits()
        >>> len(data), data.columns["split"].count("test"), data.image(0).size
        (1797, 359, (8, 8))
    """
    images, labels = load_digits()
    n = len(images)
    return ImageData(
        kind="digits",
        ids=row_ids(n),
        images=ImageArrays([_images], [n], []),
        labels=labels.copy(),
        class_names=[str(digit) for digit in range(10)],
        columns={"split": ["test" if row % TEST_EVERY == TEST_EVERY - 1 else "train" for row in range(n)]},
    )


@cache
def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """(n, 8, 8) uint8, 0 to 255, and (n,) labels."""
    bunch = importlib.import_module("sklearn.datasets").load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)  # they come as 0 to 16
    return images, bunch.target.astype(np.int64)


def _images() -> np.ndarray:
    return load_digits()[0]

"""scikit-learn's 1,797 handwritten digits, 8 x 8: built-in data for the demo and for tests."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

from hardsight.data.arrays import ArrayPart, array_data
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
    names = [str(digit) for digit in range(10)]
    splits = ["test" if row % TEST_EVERY == TEST_EVERY - 1 else "train" for row in range(n)]
    return array_data("digits", [ArrayPart(None, _images, n)], [], labels.copy(), names, {"split": splits})


@cache
def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """(n, 8, 8) uint8, 0 to 255, and (n,) labels."""
    table = _table()  # (n, 65)
    images = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # they come as 0 to 16
    return images, table[:, -1].astype(np.int64)


def _table() -> np.ndarray:
    """(n, 65) pixels and class: scikit-learn's own file, since importing its data sets takes a second."""
    package = importlib.util.find_spec("sklearn")
    if package is not None and package.origin is not None:
        file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    bunch = importlib.import_module("sklearn.datasets").load_digits()
    return np.column_stack([bunch.data, bunch.target])


def _images() -> np.ndarray:
    return load_digits()[0]

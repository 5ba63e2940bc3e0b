"""Images, arrays and columns of --data: a file without what a recipe needs is named, with what it must hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hardsight.data import ImageData, open_data
from hardsight.errors import FileError
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.table_files import read_columns


def read_arrays(path: Path, wanted: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays of an .npz by name; those whose shapes in words, such as "(n, 3)", begin alike must be of the same length."""
    stored = open_npz(path)
    shapes = ", ".join(f"{name} {shape}" for name, shape in wanted.items())
    missing = [name for name in wanted if name not in stored]
    if missing:
        raise FileError(f"{path} must hold the arrays {shapes}; {missing[0]} is missing. It holds {', '.join(stored) or 'none'}.")
    arrays = {name: np.asarray(stored[name]) for name in wanted}
    lengths: dict[str, int] = {}
    for name, shape in wanted.items():
        sizes = [size.strip() for size in shape.strip("()").split(",") if size.strip()]
        got = arrays[name].shape
        fits = len(got) == len(sizes) and all(not size.isdigit() or int(size) == n for size, n in zip(sizes, got, strict=True))
        if not fits or lengths.setdefault(sizes[0], got[0]) != got[0]:
            raise FileError(f"{path} must hold the arrays {shapes}; {name} is of shape {got}{_beside(lengths, sizes[0], fits)}.")
    return arrays


def _beside(lengths: Mapping[str, int], letter: str, fits: bool) -> str:
    """What a length was, of the arrays before."""
    return f", and {letter} is {lengths[letter]} in the arrays before it" if fits else ""


def read_answers(path: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Columns of a CSV by name, as text."""
    columns = read_columns(path)
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise FileError(
            f"{path} must have the columns {', '.join(wanted)}; {missing[0]} is missing. It has {', '.join(columns)}."
        )
    if not len(columns[wanted[0]]):
        raise FileError(f"{path} must have a row for each answer; it has none.")
    return {name: np.array([str(value) for value in columns[name]]) for name in wanted}


def open_labeled(path: Path, splits: bool = False) -> ImageData:
    """Images with labels, and with the splits train and test if they are needed."""
    data = open_data(path)
    names = set(data.columns.get("split", ()))
    if splits and not {"train", "test"} <= names:
        arrays = "train_images, train_labels, test_images and test_labels"
        raise FileError(
            f"{path} must hold the splits train and test ({arrays}); it holds {', '.join(sorted(names)) or 'no splits'}."
        )
    if data.labels is None:
        raise FileError(f"{path} must hold a label for each image, as the array labels or in folders by class; it has none.")
    return data


def read_counts(path: Path, n: int, c: int) -> np.ndarray:
    """(n, c) people's answers per class, one row for each image."""
    stored = open_npy(path)
    if stored.shape != (n, c) or stored.dtype.kind not in "iuf":
        raise FileError(
            f"{path} must hold ({n}, {c}) answers, one row for each image; it holds {stored.shape} of {stored.dtype}."
        )
    return np.asarray(stored)

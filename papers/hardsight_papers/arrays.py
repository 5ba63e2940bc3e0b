"""Arrays: files of --data, checked for what a recipe needs of them; even subsamples, gray images as pixels, directions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hardsight import Snapshot
from hardsight.data import ImageData, open_data
from hardsight.errors import FileError


def read_arrays(path: Path, wanted: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Arrays of an .npz by name; those whose shapes in words, such as "(n, 3)", begin alike must be of the same length."""
    stored = _loaded(path)
    shapes = ", ".join(f"{name} {shape}" for name, shape in wanted.items())
    missing = [name for name in wanted if name not in stored]
    if missing:
        raise FileError(f"{path} must hold the arrays {shapes}; {missing[0]} is missing. It holds {', '.join(stored) or 'none'}.")
    arrays = {name: stored[name] for name in wanted}
    lengths: dict[str, int] = {}
    for name, shape in wanted.items():
        sizes = [size.strip() for size in shape.strip("()").split(",") if size.strip()]
        got = arrays[name].shape
        fits = len(got) == len(sizes) and all(not size.isdigit() or int(size) == n for size, n in zip(sizes, got, strict=True))
        if not fits or lengths.setdefault(sizes[0], got[0]) != got[0]:
            before = f", and {sizes[0]} is {lengths[sizes[0]]} in the arrays before it" if fits else ""
            raise FileError(f"{path} must hold the arrays {shapes}; {name} is of shape {got}{before}.")
    return arrays


def read_answers(path: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Columns of a CSV by name, as text."""
    kinds = {name: pa.string() for name in wanted}
    try:
        table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types=kinds, strings_can_be_null=False))
    except (OSError, pa.ArrowInvalid) as error:
        raise FileError(f"{path} is not a readable CSV file: {error}") from error
    columns = table.column_names
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise FileError(
            f"{path} must have the columns {', '.join(wanted)}; {missing[0]} is missing. It has {', '.join(columns)}."
        )
    if not len(table):
        raise FileError(f"{path} must have a row for each answer; it has none.")
    return {name: np.array(table[name].to_pylist()) for name in wanted}


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
    stored = _loaded(path)
    if stored.shape != (n, c) or stored.dtype.kind not in "iuf":
        raise FileError(
            f"{path} must hold ({n}, {c}) answers, one row for each image; it holds {stored.shape} of {stored.dtype}."
        )
    return np.asarray(stored)


def _loaded(path: Path) -> Any:
    """What NumPy reads from a .npy or .npz file, without pickles; of an .npz all arrays by name."""
    try:
        stored = np.load(path, allow_pickle=False)
        return stored if isinstance(stored, np.ndarray) else {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise FileError(f"{path} is not a readable {path.suffix} file: {error}") from error


def even_rows(n: int, count: int) -> np.ndarray:
    """`count` of n rows, spread evenly, the first one first; all of them where there are no more.

    Example:
        >>> even_rows(10, 4)
        array([0, 2, 5, 7])
    """
    count = min(n, count)
    return np.arange(count) * n // max(1, count)


def as_pixels(data: ImageData, flat: bool = True) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(n, pixels) from 0 to 1, or (n, 1, h, w); (n,) labels; and ids.

    Example:
        >>> from hardsight.data import open_data
        >>> [as_pixels(open_data("digits"), flat)[0].shape for flat in (True, False)]
        [(1797, 64), (1797, 1, 8, 8)]
    """
    images = np.stack([np.asarray(data.image(row)) for row in range(len(data))]).astype(np.float32) / 255  # (n, h, w)
    assert data.labels is not None
    return images.reshape(len(images), -1) if flat else images[:, None], data.labels, data.ids


def of_split(snapshot: Snapshot, split: str) -> Snapshot:
    """The rows of one split, in memory."""
    return snapshot.take([row for row, name in enumerate(snapshot.columns(["split"])["split"].to_pylist()) if name == split])


def directions(features: np.ndarray) -> np.ndarray:
    """(n, d) features scaled to length 1; a row of zeros, which a ReLU can leave, stays as it is.

    Example:
        >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)

"""Images held as arrays: `.npz` and `.npy`. Nothing is ever unpickled.

    images (n, h, w) or (n, h, w, 3) uint8, labels (n,), class_names (c,), ids (n,); any further (n,) array is a column
    train_images, train_labels, test_images, ... (also val_), or x_train, y_train, ...: one split each

Members stored without compression, and .npy files, are memory-mapped; compressed ones are read whole when the first
image is requested, once per process.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hardsight.checks import check_ids
from hardsight.data.dataset import ImageData
from hardsight.data.decoding import Needed
from hardsight.data.labels import SPLITS, read_labels
from hardsight.errors import InputError
from hardsight.files.npy import RowsOnDisk, open_npy, open_npz
from hardsight.files.reading import naming
from hardsight.labels import Labels, check_names, natural_key

Load = Callable[[], np.ndarray]  # a picklable way to get (n, h, w[, 3]) uint8


class ImageArrays:
    """Images as rows of one or more arrays of uint8, opened where and when they are first used."""

    def __init__(self, loads: Sequence[Load], counts: Sequence[int], files: Sequence[Path]) -> None:
        self.loads, self.counts, self.files = tuple(loads), tuple(counts), tuple(files)
        self._ends = np.cumsum(counts)
        self._open: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}  # a worker opens the file itself

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """The image of one row, as Pillow has it."""
        part = int(np.searchsorted(self._ends, row, side="right"))
        if part not in self._open:
            self._open[part] = self.loads[part]()  # two threads may both do this once; the result is the same
        pixels = self._open[part][row - int(self._ends[part]) + self.counts[part]]  # (h, w) or (h, w, 1 or 3)
        return Image.fromarray(np.array(pixels.squeeze(-1) if pixels.shape[2:] == (1,) else pixels, dtype=np.uint8))

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over all bytes of the files, then the ids picked from them."""
        digest = hashlib.sha256()
        for path in self.files:
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: digest)
        if not self.files:  # built in: the pixels are the file
            for load in self.loads:
                digest.update(np.ascontiguousarray(load()).tobytes())
        digest.update("\n".join(sorted(ids)).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class ArrayPart:
    """The images of one array: a split, or a piece of one."""

    split: str | None
    load: Load
    count: int


def array_data(
    kind: str,
    parts: Sequence[ArrayPart],
    files: Sequence[Path],
    labels: np.ndarray | None = None,
    class_names: list[str] | None = None,
    columns: Mapping[str, list[Any]] | None = None,
) -> ImageData:
    """The images of several arrays, one after the other, with a column `split` where they have one."""
    splits = [part.split for part in parts for _ in range(part.count)]
    images = ImageArrays([part.load for part in parts], [part.count for part in parts], files)
    split_column = {"split": splits} if any(part.split for part in parts) else {}
    return ImageData(kind, row_ids(splits), images, labels, class_names, {**split_column, **(columns or {})})


def row_ids(splits: Sequence[str | None]) -> list[str]:
    """Ids of array rows: "0", "1", ..., or counted within each split, so that they stay the same without the others.

    Example:
        >>> row_ids(["train", "train", "test"])
        ['train/0', 'train/1', 'test/0']
    """
    counts: Counter[str | None] = Counter()
    ids = []
    for split in splits:
        ids.append(f"{split}/{counts[split]}" if split else str(counts[split]))
        counts[split] += 1
    return ids


def read_npy(path: Path) -> ImageData:
    """The images of one .npy array, unlabeled."""
    path = path.absolute()
    rows = open_npy(path)
    _check_images(rows)
    return array_data("npy", [ArrayPart(None, partial(_pixels, path), len(rows))], [path])


def read_npz(path: Path, label_key: str | None = None) -> ImageData:
    """The images of an .npz, with the labels, ids, class names and columns that it holds."""
    path = path.absolute()
    arrays = open_npz(path)
    keys = _keys(path, list(arrays), label_key)
    parts = []
    labels: dict[str, np.ndarray] = {}  # of each split, by where they are
    for split, images_key, labels_key in keys:
        _check_images(arrays[images_key])
        parts.append(ArrayPart(split, partial(_pixels, path, images_key), len(arrays[images_key])))
        if labels_key in arrays:
            values = np.asarray(arrays[labels_key])
            values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values  # MedMNIST's are (n, 1)
            labels[arrays[labels_key].name] = values
    if labels and len(labels) != len(parts):
        raise InputError(f"{path}: either every split has labels or none, got {', '.join(arrays)}.")
    class_names = _class_names(arrays)
    data = array_data("npz", parts, [path], None, class_names)
    if labels:
        joined = _joined(labels, parts, class_names)
        data = replace(data, labels=joined.numbers, class_names=joined.class_names, notes=joined.notes)
    return _with_columns(data, arrays, label_key) if parts[0].split is None else data


def _class_names(arrays: Mapping[str, RowsOnDisk]) -> list[str] | None:
    if "class_names" not in arrays:
        return None
    names = arrays["class_names"]
    with naming(names.name):
        return [str(name) for name in check_names(np.asarray(names).ravel().tolist())]


def _with_columns(data: ImageData, arrays: Mapping[str, RowsOnDisk], label_key: str | None) -> ImageData:
    """The data with its ids, if the file has some, and every further array of n entries."""
    n, ids = len(data), data.ids
    if "ids" in arrays:
        with naming(arrays["ids"].name):
            ids = [str(id) for id in check_ids(np.asarray(arrays["ids"]), n)]
    named = {"images", "labels", "ids", "class_names", label_key}
    further = {key: rows for key, rows in arrays.items() if rows.shape == (n,) and key not in named}
    return replace(data, ids=ids, columns={key: np.asarray(rows).tolist() for key, rows in further.items()})


def _joined(labels: dict[str, np.ndarray], parts: Sequence[ArrayPart], class_names: list[str] | None) -> Labels:
    """The labels of all splits, read together."""
    for (where, values), part in zip(labels.items(), parts, strict=True):
        if values.shape != (part.count,):
            raise InputError(f"{where}: there must be one label per image, got shape {values.shape} for {part.count} images.")
    names = ", ".join(labels)
    return read_labels(np.concatenate(list(labels.values())), lambda row: f"{names}, row {row}", class_names=class_names)


def _pixels(path: Path, key: str | None = None) -> np.ndarray:
    """Open the images of a file again: a worker process has no open arrays."""
    return (open_npy(path) if key is None else open_npz(path)[key]).mapped()


def _keys(path: Path, keys: Sequence[str], label_key: str | None) -> list[tuple[str | None, str, str]]:
    """(split, key of images, key of labels) for each split that the file holds."""
    if label_key is not None and label_key not in keys:
        raise InputError(f"{path}: --labels {label_key} is not one of its arrays; it holds {', '.join(keys)}.")
    if "images" in keys:
        return [(None, "images", label_key or "labels")]
    parts: list[tuple[str | None, str, str]] = []
    for word, split in SPLITS.items():
        for images, labels in ((f"{word}_images", f"{word}_labels"), (f"x_{word}", f"y_{word}")):
            if images in keys:
                parts.append((split, images, labels))
    if not parts or len({split for split, _, _ in parts}) != len(parts):
        raise InputError(
            f"{path}: an .npz of images must hold `images` (and `labels`), or `train_images`, `train_labels`, `test_images`, "
            f"... once each; it holds {', '.join(sorted(keys, key=natural_key)) or 'nothing'}."
        )
    return parts


def _check_images(rows: RowsOnDisk) -> None:
    shape, dtype = rows.shape, rows.dtype
    good = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    if good and dtype == np.uint8 and (0 not in shape[1:] or shape[0] == 0):
        return
    hint = ""
    if len(shape) == 4 and shape[1] in (1, 3):
        hint = " Channels come last: images.transpose(0, 2, 3, 1)."
    elif good and dtype.kind == "f":
        hint = " Floats in [0, 1] become images with (255 * images).round().astype('uint8')."
    raise InputError(
        f"{rows.name}: images must be (n, height, width) or (n, height, width, 3) of uint8, got {shape} of {dtype}.{hint}"
    )

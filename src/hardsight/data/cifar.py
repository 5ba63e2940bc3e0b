"""CIFAR's binary versions: records of label bytes and 3 x 32 x 32 bytes of pixels.

CIFAR-10    data_batch_1.bin ... and test_batch.bin, one label byte; batches.meta.txt
CIFAR-100   train.bin and test.bin, a coarse label byte (20 superclasses), then a fine one; fine_label_names.txt, coarse_...
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data.arrays import ArrayPart, array_data
from hardsight.data.dataset import ImageData
from hardsight.errors import FileError, InputError
from hardsight.labels import natural_key

CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
PIXELS = 3 * 32 * 32
LABEL_BYTES = {"CIFAR-10": 1, "CIFAR-100": 2}
_PICKLED = "{}: this is {} as Python pickles, which are never loaded. Use the binary version (*.bin)."
FINE_NAMES, COARSE_NAMES = "fine_label_names.txt", "coarse_label_names.txt"


def cifar_batches(folder: Path) -> list[Path]:
    """The folder's batches of CIFAR-10, training ones first, in order; an error for the version that is pickled."""
    batches = sorted(folder.glob("data_batch_*.bin"), key=lambda path: natural_key(path.name))
    batches += folder.glob("test_batch.bin")
    if not batches and (folder / "data_batch_1").is_file():
        raise InputError(_PICKLED.format(folder, "CIFAR-10"))
    return batches


def cifar100_files(folder: Path) -> list[Path]:
    """The folder's files of CIFAR-100, train.bin first; an error for the version that is pickled.

    Other data sets have a train.bin, too: without the names of the classes beside it, its size must be that of whole records.
    """
    if all((folder / name).is_file() for name in ("meta", "train", "test")) and not (folder / "train.bin").exists():
        raise InputError(_PICKLED.format(folder, "CIFAR-100"))
    files = [path for path in (folder / "train.bin", folder / "test.bin") if path.is_file()]
    record = LABEL_BYTES["CIFAR-100"] + PIXELS
    named = (folder / FINE_NAMES).is_file()
    return files if named or all(path.stat().st_size % record == 0 < path.stat().st_size for path in files) else []


def read_cifar(batches: list[Path]) -> ImageData:
    """Rows are counted through the training batches: data_batch_2.bin begins at id "train/10000"."""
    folder, (labels,) = batches[0].parent, _label_bytes(batches, "CIFAR-10")
    if len(labels) and labels.max() >= len(CLASS_NAMES):
        raise FileError(f"{folder}: CIFAR-10 labels are 0 to 9, got {labels.max()}. CIFAR-100 is another format.")
    names = _names(folder / "batches.meta.txt", len(CLASS_NAMES))
    return _image_data(batches, "CIFAR-10", labels, names or list(CLASS_NAMES), {})


def read_cifar100(files: list[Path]) -> ImageData:
    """Labels are the fine ones; the column `coarse_label` has the superclass, by its name where that is known."""
    folder, (coarse, fine) = files[0].parent, _label_bytes(files, "CIFAR-100")
    for labels, count, what in ((coarse, 20, "coarse"), (fine, 100, "fine")):
        if labels.max() >= count:
            raise FileError(f"{folder}: {what} labels of CIFAR-100 are 0 to {count - 1}, got {labels.max()}.")
    superclasses = _names(folder / COARSE_NAMES, 20)
    column = coarse.tolist() if superclasses is None else [superclasses[k] for k in coarse]
    return _image_data(files, "CIFAR-100", fine, _names(folder / FINE_NAMES, 100), {"coarse_label": column})


def load_batch(path: Path, kind: str) -> np.ndarray:
    """(n, 32, 32, 3) uint8, memory-mapped."""
    return _records(path, kind)[:, LABEL_BYTES[kind] :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _image_data(
    paths: list[Path], kind: str, labels: np.ndarray, class_names: list[str] | None, columns: dict[str, list[Any]]
) -> ImageData:
    paths = [path.absolute() for path in paths]
    splits = ["test" if path.name.startswith("test") else "train" for path in paths]
    parts = [
        ArrayPart(split, partial(load_batch, path, kind), len(_records(path, kind)))
        for split, path in zip(splits, paths, strict=True)
    ]
    return array_data(kind.lower().replace("-", ""), parts, paths, labels, class_names, columns)


def _label_bytes(paths: list[Path], kind: str) -> list[np.ndarray]:
    """(n,) int64 for each label byte of a record, over all files."""
    records = [_records(path, kind) for path in paths]
    return [np.concatenate([np.array(rows[:, k]) for rows in records]).astype(np.int64) for k in range(LABEL_BYTES[kind])]


def _records(path: Path, kind: str) -> np.ndarray:
    size, record = path.stat().st_size, LABEL_BYTES[kind] + PIXELS
    if size == 0 or size % record:
        raise FileError(
            f"{path}: a {kind} batch is whole records of {record} bytes, got {size} bytes; it is truncated or another format."
        )
    return np.memmap(path, np.uint8, "r").reshape(-1, record)  # (n, 3073 or 3074)


def _names(path: Path, count: int) -> list[str] | None:
    """As many names as there are classes, one a line; None where the file has others or does not exist."""
    names = path.read_text(errors="replace").split() if path.is_file() else []
    return names if len(names) == count else None

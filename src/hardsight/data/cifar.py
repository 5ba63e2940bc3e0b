"""CIFAR-10's binary version: data_batch_1.bin ... and test_batch.bin, each record one label byte and 3 x 32 x 32 bytes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from hardsight.data.arrays import ImageArrays, row_ids
from hardsight.data.dataset import ImageData
from hardsight.data.labels import natural_key
from hardsight.errors import FileError, InputError

CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
RECORD = 1 + 3 * 32 * 32


def cifar_batches(folder: Path) -> list[Path]:
    """The folder's batches, training ones first, in order; an error for the version that is pickled."""
    batches = sorted(folder.glob("data_batch_*.bin"), key=lambda path: natural_key(path.name)) + sorted(
        folder.glob("test_batch.bin")
    )
    if not batches and (folder / "data_batch_1").is_file():
        raise InputError(f"{folder}: this is CIFAR-10 as Python pickles, which are never loaded. Use the binary version (*.bin).")
    return batches


def read_cifar(batches: list[Path]) -> ImageData:
    """Rows are counted through the training batches: data_batch_2.bin begins at id "train/10000"."""
    batches = [path.absolute() for path in batches]
    records = [_records(path) for path in batches]
    labels = np.concatenate([np.array(record[:, 0]) for record in records]).astype(np.int64)
    if len(labels) and labels.max() >= len(CLASS_NAMES):
        raise FileError(f"{batches[0].parent}: CIFAR-10 labels are 0 to 9, got {labels.max()}. CIFAR-100 is another format.")
    splits = ["test" if path.name.startswith("test") else "train" for path in batches]
    counts = [len(record) for record in records]
    column = [split for split, count in zip(splits, counts, strict=True) for _ in range(count)]
    return ImageData(
        kind="cifar10",
        ids=row_ids(column.count("train"), "train") + row_ids(column.count("test"), "test"),
        images=ImageArrays([partial(load_batch, path) for path in batches], counts, batches),
        labels=labels,
        class_names=_class_names(batches[0].parent),
        columns={"split": column},
    )


def load_batch(path: Path) -> np.ndarray:
    """(n, 32, 32, 3) uint8, memory-mapped."""
    return _records(path)[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _records(path: Path) -> np.ndarray:
    size = path.stat().st_size
    if size == 0 or size % RECORD:
        raise FileError(
            f"{path}: a CIFAR-10 batch is whole records of {RECORD} bytes, got {size} bytes; it is truncated or another format."
        )
    return np.memmap(path, np.uint8, "r").reshape(-1, RECORD)  # (n, 3073)


def _class_names(folder: Path) -> list[str]:
    meta = folder / "batches.meta.txt"
    names = meta.read_text(errors="replace").split() if meta.is_file() else []
    return names if len(names) == len(CLASS_NAMES) else list(CLASS_NAMES)

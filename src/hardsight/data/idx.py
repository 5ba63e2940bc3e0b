"""MNIST's idx files, plain or .gz: two zero bytes, 08 (uint8), the number of dimensions, each size as a big-endian int32.

A folder holds `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with `t10k` (or `test`); a single images file
finds its labels beside it. EMNIST and Fashion-MNIST come this way too.
"""

from __future__ import annotations

import gzip
import re
import zlib
from functools import partial
from pathlib import Path

import numpy as np

from hardsight.checks import check_labels
from hardsight.data.arrays import ArrayPart, array_data
from hardsight.data.dataset import ImageData
from hardsight.errors import FileError, InputError
from hardsight.files.reading import naming

IMAGES_FILE = re.compile(r"(?P<set>.*)images(?P<dash>[-.])idx3-ubyte(?P<gz>\.gz)?")
MAX_BYTES = 8 * 2**30


def is_idx(path: Path) -> bool:
    """Whether the file starts with the header of idx images."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return file.read(4) == b"\0\0\x08\x03"
    except (OSError, EOFError, zlib.error):
        return False


def idx_files(folder: Path) -> list[Path]:
    """The idx image files of a folder, train before test, each once even if the .gz lies beside it."""
    files = {path.name.removesuffix(".gz"): path for path in sorted(folder.iterdir(), reverse=True) if _split(path) is not None}
    return sorted(files.values(), key=lambda path: (_split(path) != "train", path.name))


def read_idx(files: list[Path]) -> ImageData:
    """The images of one or more idx files, one split each."""
    splits = [_split(path) for path in files]
    if len(set(splits)) != len(files):
        names = ", ".join(path.name for path in files)
        raise InputError(
            f"{files[0].parent}: a folder of idx files must hold one set of train and test, got {names}: pass one file."
        )
    parts, labels, sources = [], [], []
    for path, split in zip(files, splits, strict=True):
        path = path.absolute()
        parts.append(ArrayPart(split or None, partial(load_idx, path, 3), len(load_idx(path, 3))))
        sources.append(path)
        labels_file = _labels_file(path)
        if labels_file is not None:
            with naming(labels_file):
                labels.append(check_labels(load_idx(labels_file, 1), parts[-1].count, None))
            sources.append(labels_file)
    if labels and len(labels) != len(parts):
        raise InputError(f"{files[0].parent}: every idx images file needs its labels file next to it, or none.")
    return array_data("idx", parts, sources, np.concatenate(labels) if labels else None)


def load_idx(path: Path, dimensions: int) -> np.ndarray:
    """The uint8 array of an idx file; a plain one is memory-mapped."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            head = file.read(4 + 4 * dimensions)
            if len(head) < 4 + 4 * dimensions or head[:4] != bytes([0, 0, 8, dimensions]):
                raise FileError(
                    f"{path}: an idx file of uint8 in {dimensions} dimensions begins 00 00 08 0{dimensions}, "
                    f"got {head[:4].hex(' ') or 'nothing'}."
                )
            shape = tuple(int(size) for size in np.frombuffer(head, ">u4", offset=4))
            size = int(np.prod(shape, dtype=object))
            if size > MAX_BYTES:
                raise FileError(f"{path}: its header declares {shape}, more than {MAX_BYTES} bytes.")
            if path.suffix == ".gz":
                content = file.read(size + 1)
                follow = len(content)
            else:
                follow = path.stat().st_size - len(head)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: cannot be read ({error}).") from error
    if follow != size:
        raise FileError(f"{path}: its header declares {shape}, {size} bytes, but {'more' if follow > size else follow} follow.")
    if size == 0 or path.suffix == ".gz":
        return np.frombuffer(content if size else b"", np.uint8).reshape(shape)
    return np.memmap(path, np.uint8, "r", len(head), shape)


def _split(path: Path) -> str | None:
    """train, test, or "" where the name says neither; None for other files."""
    match = IMAGES_FILE.fullmatch(path.name)
    if not match:
        return None
    name = match["set"].lower()
    return "train" if "train" in name else "test" if "t10k" in name or "test" in name else ""


def _labels_file(path: Path) -> Path | None:
    match = IMAGES_FILE.fullmatch(path.name)
    if not match:
        return None
    name = f"{match['set']}labels{match['dash']}idx1-ubyte"
    return next((file for file in (path.with_name(name), path.with_name(f"{name}.gz")) if file.is_file()), None)

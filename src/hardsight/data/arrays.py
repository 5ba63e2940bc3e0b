"""Images held as arrays: `.npz` and `.npy`. Nothing is ever unpickled.

    images (n, h, w) or (n, h, w, 3) uint8, labels (n,), class_names (c,), ids (n,); any further (n,) array is a column
    train_images, train_labels, test_images, ... (also val_), or x_train, y_train, ...: one split each

Members stored without compression, and .npy files, are memory-mapped; compressed ones are read whole when the first
image is asked for, once per process.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from hardsight.checks import check_ids, check_labels
from hardsight.data.dataset import ImageData
from hardsight.data.labels import SPLITS, natural_key
from hardsight.errors import FileError, InputError

BOMB_BYTES, BOMB_RATIO = 256 * 2**20, 200  # a compressed member this large and this well packed is refused
MAX_COMPRESSED_BYTES = 8 * 2**30

Load = Callable[[], np.ndarray]  # a picklable way to get (n, h, w[, 3]) uint8


class ImageArrays:
    """Images as rows of one or more arrays of uint8, opened where and when they are first used."""

    def __init__(
        self, loads: Sequence[Load], counts: Sequence[int], files: Sequence[Path], rows: np.ndarray | None = None
    ) -> None:
        self.loads, self.counts, self.files = tuple(loads), tuple(counts), tuple(files)
        self.rows = np.arange(sum(counts)) if rows is None else rows
        self._ends = np.cumsum(counts)
        self._open: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}  # a worker opens the file itself

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Sequence[int]) -> ImageArrays:
        return ImageArrays(self.loads, self.counts, self.files, self.rows[list(rows)])

    def image(self, row: int) -> Image.Image:
        row = int(self.rows[row])
        part = int(np.searchsorted(self._ends, row, side="right"))
        if part not in self._open:
            self._open[part] = self.loads[part]()  # two threads may both do this once; the result is the same
        pixels = self._open[part][row - int(self._ends[part]) + self.counts[part]]  # (h, w) or (h, w, 1 or 3)
        return Image.fromarray(np.array(pixels.squeeze(-1) if pixels.shape[2:] == (1,) else pixels, dtype=np.uint8))

    def digest(self, ids: Sequence[str]) -> str:
        """sha256 over all bytes of the files, then the ids picked from them."""
        digest = hashlib.sha256()
        for path in self.files:
            with open(path, "rb") as file:
                while block := file.read(2**22):
                    digest.update(block)
        if not self.files:  # built in: the pixels are the file
            for load in self.loads:
                digest.update(np.ascontiguousarray(load()).tobytes())
        digest.update("\n".join(sorted(ids)).encode())
        return digest.hexdigest()


def row_ids(count: int, split: str | None = None) -> list[str]:
    """Ids of array rows: "0", "1", ... or "test/0", "test/1", ...: the same whether or not other splits are read."""
    return [f"{split}/{row}" if split else str(row) for row in range(count)]


def read_npy(path: Path) -> ImageData:
    """The images of one .npy array, unlabeled."""
    try:
        with open(path, "rb") as file:
            shape, _, dtype, _ = _npy_header(file, str(path))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not a readable .npy array ({error}).") from error
    _check_images(shape, dtype, str(path))
    load = partial(_load_npy, path.absolute())
    load()  # memory-mapped: proves that the file is whole
    return ImageData("npy", row_ids(shape[0]), ImageArrays([load], [shape[0]], [path.absolute()]))


def read_npz(path: Path, label_key: str | None = None) -> ImageData:
    """The images of an .npz, with the labels, ids, class names and columns that it holds."""
    path = path.absolute()
    headers = _headers(path)
    parts = _parts(path, list(headers), label_key)
    loads, counts, ids, splits = [], [], [], []
    labels: list[np.ndarray] = []
    for split, images_key, labels_key in parts:
        shape, dtype = headers[images_key]
        _check_images(shape, dtype, f"{path}, {images_key}")
        loads.append(partial(_load_member, path, images_key))
        counts.append(shape[0])
        ids += row_ids(shape[0], split)
        splits += [split] * shape[0]
        if labels_key in headers:
            values = _load_member(path, labels_key)
            values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values  # MedMNIST's are (n, 1)
            labels.append(_checked(f"{path}, {labels_key}", check_labels, values, shape[0], None))
    if labels and len(labels) != len(parts):
        raise InputError(f"{path}: either every split has labels or none, got {', '.join(headers)}.")
    columns: dict[str, list[Any]] = {"split": splits} if parts[0][0] else {}
    n = len(ids)
    if len(parts) == 1 and parts[0][0] is None:
        if "ids" in headers:
            ids = [str(id) for id in _checked(f"{path}, ids", check_ids, _load_member(path, "ids"), n)]
        named = {"images", "labels", "ids", "class_names", label_key}
        columns = {key: _load_member(path, key).tolist() for key, (s, _) in headers.items() if s == (n,) and key not in named}
    return ImageData(
        kind="npz",
        ids=ids,
        images=ImageArrays(loads, counts, [path]),
        labels=np.concatenate(labels) if labels else None,
        class_names=[str(name) for name in _load_member(path, "class_names").ravel()] if "class_names" in headers else None,
        columns=columns,
    )


def _parts(path: Path, keys: Sequence[str], label_key: str | None) -> list[tuple[str | None, str, str]]:
    """(split, key of images, key of labels) for each split that the file holds."""
    if label_key is not None and label_key not in keys:
        raise InputError(f"{path}: labels_from={label_key!r} names no array of it; it holds {', '.join(keys)}.")
    if "images" in keys:
        return [(None, "images", label_key or "labels")]
    found: list[tuple[str | None, str, str]] = []
    for word, split in SPLITS.items():
        for images, labels in ((f"{word}_images", f"{word}_labels"), (f"x_{word}", f"y_{word}")):
            if images in keys:
                found.append((split, images, labels))
    if not found or len({split for split, _, _ in found}) != len(found):
        raise InputError(
            f"{path}: an .npz of images must hold `images` (and `labels`), or `train_images`, `train_labels`, `test_images`, "
            f"... once each; it holds {', '.join(sorted(keys, key=natural_key)) or 'nothing'}."
        )
    return found


def _check_images(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    good = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    if good and dtype == np.uint8 and (0 not in shape[1:] or shape[0] == 0):
        return
    hint = ""
    if len(shape) == 4 and shape[1] in (1, 3):
        hint = " Channels come last: images.transpose(0, 2, 3, 1)."
    elif good and dtype.kind == "f":
        hint = " Floats in [0, 1] become images with (255 * images).round().astype('uint8')."
    raise InputError(
        f"{where}: images must be (n, height, width) or (n, height, width, 3) of uint8, got {shape} of {dtype}.{hint}"
    )


def _checked(where: str, check: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
    """What a check returns; its error says where."""
    try:
        return check(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {str(error).replace('features', 'images')}") from error


Header = tuple[tuple[int, ...], np.dtype[Any]]


def _headers(path: Path) -> dict[str, Header]:
    """Shape and dtype of each array, from the headers alone, once the sizes they declare are proven sane."""
    found: dict[str, Header] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                _check_packing(path, info)
                with archive.open(info) as member:
                    shape, _, dtype, start = _npy_header(member, f"{path}, {info.filename}")
                expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
                if expected != info.file_size:
                    raise FileError(
                        f"{path}, {info.filename}: {shape} of {dtype} needs {expected} bytes, found {info.file_size}."
                    )
                found[info.filename.removesuffix(".npy")] = (shape, dtype)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise FileError(f"{path}: not a readable .npz ({error}).") from error
    return found


def _check_packing(path: Path, info: zipfile.ZipInfo) -> None:
    if info.compress_type == zipfile.ZIP_STORED:
        return
    bomb = info.file_size > BOMB_BYTES and info.file_size > BOMB_RATIO * max(info.compress_size, 1)
    if bomb or info.file_size > MAX_COMPRESSED_BYTES:
        raise FileError(
            f"{path}, {info.filename}: {info.compress_size} bytes unpack to {info.file_size}, too many to read into memory. "
            "If that is what it holds, save it with np.savez, which does not compress."
        )


def _npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, Fortran order, dtype, where the data starts) of an open .npy."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise FileError(f"{name}: it holds pickled Python objects, which are never loaded. Save plain numbers or text.")
    if any(size < 0 for size in shape):
        raise FileError(f"{name}: a shape cannot be negative, got {shape}.")
    return shape, fortran, dtype, file.tell()


def _load_npy(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not a readable .npy array ({error}).") from error


def _load_member(path: Path, key: str) -> np.ndarray:
    """One array of an .npz: mapped where it is stored plain, else read."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{key}.npy")
            _check_packing(path, info)
            with archive.open(info) as member:
                shape, fortran, dtype, start = _npy_header(member, f"{path}, {info.filename}")
        if info.compress_type == zipfile.ZIP_STORED and 0 not in shape:
            with open(path, "rb") as file:  # the local header says where the member's bytes begin
                file.seek(info.header_offset + 26)
                skip = int.from_bytes(file.read(2), "little") + int.from_bytes(file.read(2), "little")
            offset = info.header_offset + 30 + skip + start
            return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")
        with np.load(path, allow_pickle=False) as arrays:
            return np.asarray(arrays[key])
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"{path}, {key}: cannot be read ({error}).") from error

"""Samples as numbers for a network: images decoded ahead by threads; `extract`, `train`, `adapt` and `attack` read them here.

`Decoder` makes pixels of one image, and knows what to do with a broken one. `ImageInputs` and `ArrayInputs` are sets to train on,
in batches of any rows, cached in memory if they fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.checks import check_labels, check_unique, counted_from_one
from hardsight.data import BrokenImage, Degradation, ImageData, degrade, degraded_id
from hardsight.errors import FileError, InputError
from hardsight.files.samples import is_free
from hardsight.labels import Classes, read_labels
from hardsight.models.preprocessing import Preprocessing
from hardsight.pandas_index import align, index_ids
from hardsight.screen import Say
from hardsight.table import write_table
from hardsight.threads import ahead, decoders, num_threads

KEEP_BYTES = 2**30  # pixels of one set held in memory, so that later epochs need no decoding
AHEAD = 256  # images decoded ahead of the network

ERRORS = pa.schema([("id", pa.string()), ("reason", pa.string()), ("message", pa.string())])

Fit = Callable[[int, Image.Image], list[Image.Image]]  # a row and its picture -> views of it, each as large as the network takes
Seen = Callable[[int, Image.Image | BrokenImage], None]  # is told of every image as it was decoded, by several threads


@dataclass(frozen=True)
class Decoder:
    """Images as pixels at a network's size.

    Attributes:
        data: the images.
        preprocessing: the network's.
        strict: stop at an image that cannot be read.
        seen: called with the row of each image and the image as it was decoded, or the error.
    """

    data: ImageData
    preprocessing: Preprocessing
    strict: bool = False
    seen: Seen | None = None

    def __call__(
        self, row: int, versions: Sequence[Degradation | None] = (None,), fit: Fit | None = None
    ) -> list[np.ndarray] | BrokenImage:
        """(H, W, C) uint8: the image itself (None) or degraded; with `fit`, each view of it instead of the network's own."""
        try:
            picture = self.data.image(row, self.preprocessing.needed if fit is None else None)
            if self.seen is not None:
                self.seen(row, picture)
            views = [self.preprocessing.fitted(picture)] if fit is None else fit(row, picture)
            # At the input size of the network: shrinking a large image would average noise away.
            made = [view if how is None else degrade(view, how, self.data.ids[row]) for how in versions for view in views]
            return [np.asarray(view).reshape(view.height, view.width, -1) for view in made]
        except BrokenImage as error:
            if self.strict:
                raise FileError(f"{error} Omit --strict to skip such images.") from error
            if self.seen is not None:
                self.seen(row, error)
            return error


def stack(images: list[np.ndarray]) -> np.ndarray:
    """Images of one batch as one array, (b, ...)."""
    shapes = sorted({image.shape for image in images})
    if len(shapes) > 1:
        raise InputError(f"images of one batch must have the same size, got {shapes[0]} and {shapes[-1]}; use --size.")
    return np.stack(images)


def none_readable(count: int, first: object) -> FileError:
    """What to say where not one image can be read: why not, of the first."""
    return FileError(f"none of the {count} images can be read. The first is {first}")


def write_errors(directory: Path, broken: Sequence[dict[str, str]], of: str, say: Say) -> list[Path]:
    """errors.parquet: the images that could not be read, if there are any; `of` says of how many, in words."""
    if not broken:
        return []
    path = directory / "errors.parquet"
    write_table(pa.Table.from_pylist(list(broken), ERRORS), path)
    say(f"{len(broken)} {of} could not be read: see {path}")
    return [path]


@dataclass(frozen=True)
class InputBatch:
    """Some rows of a set, those that could be read."""

    rows: np.ndarray  # (b,) positions in the set
    inputs: np.ndarray  # (b, ...) float32; with several views of each sample (b * views, ...)


def even_batches(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows in batches of at most `size` that differ by one at most, so that none is too small for batch normalization."""
    return np.array_split(rows, max(1, -(-len(rows) // size)))


class ArrayInputs:
    """Numbers that go into the network as they are: (n, ...) float32.

    Attributes:
        ids: n unique strings.
        labels: (n,) class of each, -1 unlabeled.
        class_names: one per class, if known.
        columns: further columns for the snapshot, n entries each.
        broken: id -> (reason, message) of the samples that could not be read so far: none.
    """

    def __init__(
        self, inputs: Any, labels: Any, ids: Any = None, class_names: Sequence[str] | None = None, columns: Any = None
    ) -> None:
        ids = index_ids(inputs) if ids is None else align(ids, "ids", inputs, "inputs")
        labels = align(labels, "labels", inputs, "inputs")
        values = np.ascontiguousarray(np.asarray(inputs), np.float32)
        if values.ndim < 2 or len(values) == 0:
            raise InputError(f"inputs must be (n, ...) numbers of at least one sample, got shape {values.shape}.")
        if not np.isfinite(values).all():
            raise InputError("inputs must be finite numbers.")
        names = None if class_names is None else [str(name) for name in class_names]
        read = read_labels(labels, Classes(names))
        self.class_names = read.class_names
        self.inputs, self.labels = values, check_labels(read.numbers, len(values), None)
        hint = "" if self.class_names is not None else counted_from_one(self.labels)
        self.notes = (*read.notes, *([hint.strip()] if hint else []))
        self.ids = [str(id) for id in (range(len(values)) if ids is None else ids)]
        check_unique(np.array([*self.ids, None], dtype=object)[:-1], "the inputs", "Give each row its own id.")
        self.columns: dict[str, list[Any]] = columns or {}
        self.broken: dict[str, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: np.ndarray) -> ArrayInputs:
        """The same with only these rows, in this order; classes keep their index."""
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return ArrayInputs(self.inputs[rows], self.labels[rows], [self.ids[row] for row in rows], self.class_names, columns)

    def batches(self, rows: Sequence[np.ndarray]) -> Iterator[InputBatch]:
        """The inputs of each array of rows, in order."""
        return (InputBatch(batch_rows, self.inputs[batch_rows]) for batch_rows in rows)

    def fingerprint(self) -> dict[str, Any]:
        """Identity of the inputs: a resumed run must have the same."""
        digest = hashlib.sha256(self.inputs.tobytes() + self.labels.astype(np.int64).tobytes())
        digest.update("\n".join(self.ids).encode())
        if self.columns:
            digest.update(json.dumps(self.columns, default=str).encode())
        return {"kind": "arrays", "count": len(self), "sha256": digest.hexdigest()}


class ImageInputs:
    """The images of some data as a network takes them: each once, and once more per degradation; otherwise as `ArrayInputs`.

    Args:
        data: the images.
        preprocessing: the network's; its size must be given, so that images make a batch.
        degradations: further versions of each image.
        workers: decoding threads. Default: one per core.
        strict: stop at an image that cannot be read; else it is left out and listed.
    """

    def __init__(
        self,
        data: ImageData,
        preprocessing: Preprocessing,
        *,
        degradations: Sequence[Degradation] = (),
        workers: int | None = None,
        strict: bool = False,
    ) -> None:
        if preprocessing.size is None:
            raise InputError("images need one size to be trained on: give size=PIXELS.")
        self.data, self.preprocessing, self.workers = data, preprocessing, workers or num_threads()
        self.decoder = Decoder(data, preprocessing, strict)
        self.versions: list[Degradation | None] = [None, *degradations]
        self.ids = [id if how is None else degraded_id(id, how) for how in self.versions for id in data.ids]
        labels = np.full(len(data), -1) if data.labels is None else data.labels
        self.labels = np.tile(labels, len(self.versions))
        self.class_names = data.class_names
        self.columns = self._columns()
        self.broken: dict[str, tuple[str, str]] = {}
        self._shape = (*preprocessing.size, 1 if preprocessing.channels == "L" else 3)
        self._kept: np.ndarray | None = None  # (n, H, W, C) uint8
        self._known = np.zeros(len(self), bool)

    def __len__(self) -> int:
        return len(self.ids)

    def _columns(self) -> dict[str, list[Any]]:
        columns = {name: list(values) * len(self.versions) for name, values in self.data.columns.items() if is_free(name)}
        if len(self.versions) == 1:
            return columns
        n = len(self.data)
        return columns | {
            "base_id": self.data.ids * len(self.versions),
            "degradation": [None if how is None else how.kind for how in self.versions for _ in range(n)],
            "level": [None if how is None else how.level for how in self.versions for _ in range(n)],
        }

    def batches(self, rows: Sequence[np.ndarray], fit: Fit | None = None) -> Iterator[InputBatch]:
        """The inputs of each array of rows, in order.

        Args:
            fit: makes views of a picture instead of the one that the preprocessing makes; these are not kept in memory.
        """
        # A copy: a row that comes up twice is decoded twice, and both are taken from `decoded`.
        decoded_before = self._known.copy() if fit is None else np.zeros(len(self), bool)
        order = [int(row) for batch_rows in rows for row in batch_rows if not decoded_before[row]]
        with decoders(self.workers) as pool:
            decoded = ahead(pool, lambda row: self._pixels(row, fit), order, AHEAD)
            for batch_rows in rows:
                new_pixels = {int(row): next(decoded) for row in batch_rows if not decoded_before[row]}
                good = np.array([row for row in batch_rows if self._readable(int(row), new_pixels)], np.int64)
                pixels = [new_pixels[row] if row in new_pixels else self._kept[row] for row in good.tolist()]  # type: ignore[index]
                if fit is None:
                    self._keep(new_pixels)
                yield InputBatch(good, self.preprocessing.normalized(np.array(pixels, np.uint8).reshape(-1, *self._shape)))

    def _readable(self, row: int, new_pixels: dict[int, Any]) -> bool:
        result = new_pixels.get(row)
        if isinstance(result, BrokenImage):
            self.broken[self.ids[row]] = (result.reason, str(result))
        return self.ids[row] not in self.broken

    def _keep(self, new_pixels: dict[int, Any]) -> None:
        """Hold on to the pixels, if those of the whole set fit."""
        if not new_pixels or len(self) * int(np.prod(self._shape)) > KEEP_BYTES:
            return
        if self._kept is None:
            self._kept = np.zeros((len(self), *self._shape), np.uint8)
        for row, pixels in new_pixels.items():
            if not isinstance(pixels, BrokenImage):
                self._kept[row] = pixels
            self._known[row] = True

    def _pixels(self, row: int, fit: Fit | None = None) -> np.ndarray | BrokenImage:
        """(H, W, C) uint8, at the network's size; (views, H, W, C) with `fit`."""
        version, base = divmod(row, len(self.data))
        made = self.decoder(base, self.versions[version : version + 1], fit and (lambda _, picture: fit(row, picture)))
        return made if isinstance(made, BrokenImage) else made[0] if fit is None else np.stack(made)

    def fingerprint(self) -> dict[str, Any]:
        """Identity of the inputs: a resumed run must have the same."""
        return self.data.fingerprint()


Inputs = ArrayInputs | ImageInputs  # a set of labeled samples


def sized(preprocessing: Preprocessing, data: ImageData, chosen: Mapping[str, Any]) -> Preprocessing:
    """A network's preprocessing with what was chosen instead; without a size of either, with that of the first image."""
    preprocessing = replace(preprocessing, **chosen)
    if preprocessing.size is not None:
        return preprocessing
    broken: list[BrokenImage] = []
    for row in range(len(data)):
        try:
            width, height = data.image(row).size
            return replace(preprocessing, size=(height, width))
        except BrokenImage as error:
            broken.append(error)
    raise none_readable(len(data), broken[0])

"""The parts that a run is written in: how large they are, what each holds, and further features of the same images beside them.

samples/part-00000.parquet            features, and the images of this part that could not be read
layers/00-NAME/part-00000.parquet     the same of earlier layers
passes/NAME/samples/part-00000.parquet  of the images mirrored, or with dropout
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardsight.errors import FileError, RunError
from hardsight.files.checksums import check
from hardsight.files.parquet import open_parquet
from hardsight.files.reading import read_json, reading
from hardsight.files.samples import rows_per_part
from hardsight.models import Model
from hardsight.screen import Say

PART_ROWS, MOST_PARTS = 256, 1000  # only complete parts are kept, so they are small, but not so small that there are many more
IN_CACHE = 4 * 3 * 224 * 224  # numbers of a batch: with more, a CPU takes up to half as long again
PASSES = "passes"  # folder of the snapshots of extra passes
BROKEN = b"hardsight.errors"  # metadata key for a part's list of broken images
AGAIN = b"hardsight.decoded_again"  # and for how many of its pictures were decoded again, whole


@dataclass
class Part:
    """The rows of one part, and what the model gave for them so far."""

    file: Path
    rows: range
    kept: list[int] = field(default_factory=list)  # rows that could be read
    broken: list[dict[str, str]] = field(default_factory=list)
    again: int = 0  # pictures that were decoded a second time, whole
    features: list[np.ndarray] = field(default_factory=list)  # (b, d) of each batch
    layers: list[dict[str, np.ndarray]] = field(default_factory=list)  # the same of further layers
    passes: dict[ImagePass, list[np.ndarray]] = field(default_factory=dict)  # the same of further passes


def parts_of(folder: Path, count: int, size: int) -> list[Part]:
    """The parts of so many rows, in order."""
    starts = enumerate(range(0, count, size))
    return [Part(folder / f"part-{number:05d}.parquet", range(first, min(first + size, count))) for number, first in starts]


def class_names_metadata(names: Sequence[str] | None) -> dict[bytes, bytes]:
    """Metadata of a part that names the classes of its labels, whatever becomes of the head."""
    return {} if names is None else {b"hardsight": json.dumps({"class_names": list(names)}).encode()}


def read_back(parts: Sequence[Path]) -> tuple[dict[str, int], list[dict[str, str]], int]:
    """The rows of each part by name; the broken images of all, and how many were decoded again. Some may predate an interrupt."""
    rows, broken, again = {}, [], 0
    for part in parts:
        try:
            check(part)
            with reading(part), open_parquet(part) as file:
                rows[part.name] = file.metadata.num_rows
                metadata = file.schema_arrow.metadata or {}
                broken += json.loads(metadata.get(BROKEN, b"[]"))
                again += int(metadata.get(AGAIN, 0))
        except FileError as error:
            raise RunError(f"{error} Remove it, and run the same command again.") from error
    return rows, broken, again


@dataclass(frozen=True)
class ImagePass:
    """An extra pass over every image; `draw` numbers the dropout draws, and is None for mirrored images."""

    name: str
    draw: int | None = None

    def features(self, model: Model, batch: np.ndarray, seed: Sequence[int]) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features; `seed` tells batches apart, so a resumed run draws the same dropout masks."""
        if self.draw is None:
            return model(np.ascontiguousarray(batch[..., ::-1]))[0]
        drawn = int(np.random.SeedSequence([self.draw, *seed]).generate_state(1, np.uint64)[0] >> 1)
        return model.dropped(batch, drawn)

    def part(self, samples_part: Path) -> Path:
        """Path of its features for a part of samples/."""
        return samples_part.parent.parent / PASSES / self.name / "samples" / samples_part.name


def image_passes(passes: Sequence[str]) -> list[ImagePass]:
    """The passes named by `--passes`.

    Example:
        >>> [each.name for each in image_passes(["flip", "dropout=3"])]
        ['flip', 'dropout-00', 'dropout-01', 'dropout-02']
    """
    named = []
    for text in passes:
        kind, _, count = text.partition("=")
        named += [ImagePass(f"{kind}-{k:02d}", k) for k in range(int(count))] if count else [ImagePass(kind)]
    return named


def layer_parts(samples_part: Path, layers: Sequence[str]) -> dict[str, Path]:
    """Paths of the features of each layer for a part of samples/: layers/00-NAME/part-00000.parquet."""
    folder = samples_part.parent.parent / "layers"
    return {layer: folder / f"{number:02d}-{layer}" / samples_part.name for number, layer in enumerate(layers)}


def size_begun_with(output: Path, name: str) -> int | None:
    """The `batch_size` or `images_per_part` of an interrupted run: what fits on a GPU may have changed, the result must not."""
    try:
        size = read_json(output / "start.json")["arguments"][name]
    except (FileError, OSError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) and size > 0 else None


def fitting_batch_size(model: Model, sample: np.ndarray) -> int:
    """On a CPU 4 to 32, the fewer the larger an image is; on a GPU the largest power of two up to 512 that the memory holds."""
    device = getattr(getattr(model, "device", None), "type", "cpu")
    if device == "cpu":
        return max(4, min(32, IN_CACHE // sample[0].size))
    return largest_that_fits(lambda size: model(np.repeat(sample[:1], size, axis=0)))


def largest_that_fits(attempt: Callable[[int], object], largest: int = 512) -> int:
    """The largest power of two that does not run out of memory."""
    size = largest
    while size > 1:
        try:
            attempt(size)
            return size
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
                raise
            size //= 2
    return 1


def images_per_part(images: int, copies: int, batch_size: int, num_features: int, passes: int = 1) -> int:
    """Images per part, from the input alone, so that an interrupted run ends with the same parts as an uninterrupted one.

    About 256 forward passes, or a batch; more in a large run, to limit the number of parts; fewer if the features of one
    part, of all passes over it, would not fit in 16 MB.

    Example:
        >>> images_per_part(1670, copies=1, batch_size=32, num_features=1280)
        256
        >>> images_per_part(2_000_000, copies=1, batch_size=32, num_features=512)
        2048
    """
    rows = max(PART_ROWS, batch_size, math.ceil(images * copies / MOST_PARTS))
    rows = PART_ROWS * math.ceil(rows / PART_ROWS)  # whole batches, if their size is a power of two
    return max(1, min(math.ceil(rows / copies), rows_per_part(num_features) // (copies * passes)))


def check_space(folder: Path, size: int, say: Say) -> None:
    """Say so if so many bytes do not fit on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    if free < size:
        say(f"the features need {max(1, size / 1e6):,.0f} MB, but {folder} has only {max(1, free / 1e6):,.0f} MB free")

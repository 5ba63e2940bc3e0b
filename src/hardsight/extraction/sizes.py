"""How much at a time: images per batch and per part of a run, and whether all of them fit on the disk."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hardsight.errors import FileError, InputError
from hardsight.files.reading import read_json
from hardsight.files.samples import rows_per_part
from hardsight.models import Model
from hardsight.screen import Say

PART_ROWS, MOST_PARTS = 256, 1000  # only complete parts are kept, so they are small, but not so small that there are many more


def size_begun_with(output: Path, name: str) -> int | None:
    """The `batch_size` or `images_per_part` of an interrupted run: what fits on a GPU may have changed, the result must not."""
    try:
        size = read_json(output / "start.json")["arguments"][name]
    except (FileError, OSError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) and size > 0 else None


def fitting_batch_size(model: Model, sample: np.ndarray) -> int:
    """32 on a CPU; on a GPU the largest power of two up to 512 that the memory holds."""
    device = getattr(getattr(model, "device", None), "type", "cpu")
    if device == "cpu":
        return 32
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
        say(f"the features need {megabytes(size)}, but {folder} has only {megabytes(free)} free")


def megabytes(count: float) -> str:
    """Bytes as a readable size.

    Example:
        >>> megabytes(310e6), megabytes(8.2e9)
        ('310 MB', '8.2 GB')
    """
    return f"{max(1, count / 1e6):.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def stack(images: list[np.ndarray]) -> np.ndarray:
    """Images of one batch as one array: (C, H, W) each -> (b, C, H, W)."""
    if len({image.shape for image in images}) > 1:
        shapes = sorted({image.shape[1:] for image in images})
        raise InputError(f"images of one batch must have the same size, got {shapes[0]} and {shapes[-1]}; use --size.")
    return np.stack(images)

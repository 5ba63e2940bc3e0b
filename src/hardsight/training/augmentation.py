"""Flips and crops of training images, drawn from the seed, the epoch and the sample's id alone.

So a sample is changed in the same way whatever batch, order, process or resumed run it comes up in.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from hardsight.errors import InputError
from hardsight.extraction.feed import Fit, ImageInputs, InputBatch, Inputs

PAD = 4  # pixels, as for CIFAR
SCALE = (0.08, 1.0)  # of a random-resized crop: the usual part of a picture's area
RATIO = (3 / 4, 4 / 3)  # and its width over its height
ATTEMPTS = 10  # to draw a crop that fits
OWN_DRAWS = 3  # flip, down, right: numbers drawn for a sample before those of its crop


@dataclass(frozen=True)
class Augmentation:
    """Augmentations of a training image.

    Args:
        flip: mirrored left to right in half of the cases.
        crop: shifted by up to this many pixels in each direction; what comes in at the edges is 0, the mean color.
        scale: smallest and largest part of the picture's area that a random-resized crop takes; None for no such crop.
    """

    flip: bool = False
    crop: int = 0
    scale: tuple[float, float] | None = None

    def __str__(self) -> str:
        words = ["flip"] * self.flip + [f"crop={self.crop}"] * (self.crop > 0)
        words += [] if self.scale is None else [f"resized-crop={self.scale[0]:g}:{self.scale[1]:g}"]
        return ",".join(words) or "none"

    def __call__(self, images: np.ndarray, keys: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """(b, C, H, W) -> the same, flipped and shifted; `keys` (b,) identify the samples."""
        if not (self.flip or self.crop):
            return images
        flip, down, right = draws(keys, seed, epoch, OWN_DRAWS).T  # (b,) each, in [0, 1)
        changed = images.copy()
        if self.flip:
            chosen = flip < 0.5
            changed[chosen] = changed[chosen][..., ::-1]
        if self.crop:
            p = self.crop
            height, width = images.shape[2:]
            padded = np.pad(changed, ((0, 0), (0, 0), (p, p), (p, p)))
            for row, (y, x) in enumerate(zip((down * (2 * p + 1)).astype(int), (right * (2 * p + 1)).astype(int), strict=True)):
                changed[row] = padded[row, :, y : y + height, x : x + width]
        return changed


class AugmentedInputs:
    """A set of training samples in batches, augmented; of each batch, this process's share.

    Args:
        inputs: the set.
        augment: as `parse_augmentation` takes it.
        seed: of the augmentation.
    """

    def __init__(self, inputs: Inputs, augment: str, seed: int) -> None:
        self.inputs, self.augmentation, self.seed = inputs, parse_augmentation(augment), seed
        self.keys = sample_keys(inputs.ids)

    def batches(self, rows: Sequence[np.ndarray], epoch: int) -> Iterator[InputBatch]:
        """These rows, batch by batch, augmented for an epoch."""
        from hardsight.training.processes import shares  # with torch, which options are checked without

        for batch in self._batches(shares(rows), epoch):
            yield InputBatch(batch.rows, self.augmentation(batch.inputs, self.keys[batch.rows], self.seed, epoch))

    def _batches(self, rows: Sequence[np.ndarray], epoch: int) -> Iterator[InputBatch]:
        scale = self.augmentation.scale
        if scale is None:
            return self.inputs.batches(rows)
        if not isinstance(self.inputs, ImageInputs):
            raise InputError("a random-resized crop is for images, not for arrays.")
        return self.inputs.batches(rows, self._crop(self.inputs, scale, epoch))

    def _crop(self, images: ImageInputs, scale: tuple[float, float], epoch: int) -> Fit:
        """A crop of the whole picture, before anything of it is lost by resizing."""

        def fit(row: int, picture: Image.Image) -> list[Image.Image]:
            drawn = draws(self.keys[[row]], self.seed, epoch, OWN_DRAWS + 4 * ATTEMPTS)[0, OWN_DRAWS:]
            return [images.preprocessing.cropped(picture, random_box(picture.size, drawn.reshape(ATTEMPTS, 4), scale))]

        return fit


def parse_augmentation(words: str | Iterable[str]) -> Augmentation:
    """From `flip,crop`, `flip,crop=2` or `flip,resized-crop=0.25:1`; `none` is nothing.

    Example:
        >>> parse_augmentation("flip,crop"), str(parse_augmentation("none")), str(parse_augmentation("resized-crop"))
        (Augmentation(flip=True, crop=4, scale=None), 'none', 'resized-crop=0.08:1')
    """
    flip, crop, scale = False, 0, None
    for word in words.split(",") if isinstance(words, str) else words:
        name, equals, value = word.strip().partition("=")
        if name == "flip" and not equals:
            flip = True
        elif name == "crop" and (not equals or value.isdigit()):
            crop = int(value) if equals else PAD
        elif name == "resized-crop":
            scale = _scale(value) if equals else SCALE
        elif name not in ("none", "") or equals:
            raise InputError(
                "augmentation is made of flip, crop, crop=PIXELS, resized-crop and resized-crop=SMALLEST:LARGEST with commas, "
                f"or none; got {word!r}."
            )
    return Augmentation(flip, crop, scale)


def _scale(text: str) -> tuple[float, float]:
    """`0.25:1`, or `0.25` for up to the whole picture."""
    number = r"[0-9]*\.?[0-9]+"
    parts = [float(part) for part in text.split(":")] if re.fullmatch(f"{number}(:{number})?", text) else []
    low, high = (parts + [1.0])[:2] if parts else (0.0, 0.0)
    if not 0 < low <= high <= 1:
        raise InputError(f"resized-crop takes two parts of the area, above 0 and at most 1, as in 0.08:1; got {text!r}.")
    return low, high


def random_box(size: tuple[int, int], numbers: np.ndarray, scale: tuple[float, float]) -> tuple[int, int, int, int]:
    """A random-resized crop of a picture: area and proportions are drawn until it fits (Szegedy et al., CVPR 2015).

    Args:
        size: (width, height) of the picture.
        numbers: (attempts, 4) in [0, 1): of area, proportions, down and right.
        scale: smallest and largest part of the area.

    Returns:
        (left, top, right, bottom). If no attempt fits, the center, as much of it as the proportions allow.
    """
    width, height = size
    for area, ratio, down, right in numbers.tolist():
        pixels = width * height * (scale[0] + area * (scale[1] - scale[0]))
        proportion = RATIO[0] * (RATIO[1] / RATIO[0]) ** ratio  # log-uniform
        w, h = round(math.sqrt(pixels * proportion)), round(math.sqrt(pixels / proportion))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(right * (width - w + 1)), int(down * (height - h + 1))
            return left, top, left + w, top + h
    w, h = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def sample_keys(ids: Sequence[str]) -> np.ndarray:
    """(n,) one 64-bit number for each id."""
    return np.array([int.from_bytes(hashlib.sha256(id.encode()).digest()[:8], "little") for id in ids], np.uint64)


def draws(keys: np.ndarray, seed: int, epoch: int, count: int) -> np.ndarray:
    """(n, count) numbers in [0, 1), each a function of its key, the seed, the epoch and its column alone."""
    digest = hashlib.sha256(f"{seed} {epoch}".encode()).digest()
    columns = np.frombuffer(digest, np.uint64, 1) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = _mixed(_mixed(keys)[:, None] ^ _mixed(columns))
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Every bit of the result depends on every bit of x (the finalizer of SplitMix64: Steele et al., OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

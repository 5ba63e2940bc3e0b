"""Flips and crops of training images, drawn from the seed, the epoch and the sample's id alone.

So a sample is changed in the same way whatever batch, order, process or resumed run it comes up in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hardsight.errors import InputError
from hardsight.training.inputs import Batch, Inputs

PAD = 4  # pixels, as for CIFAR


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a training image.

    Args:
        flip: mirrored left to right in half of the cases.
        crop: shifted by up to this many pixels in each direction; what comes in at the edges is 0, the mean colour.
    """

    flip: bool = False
    crop: int = 0

    def __str__(self) -> str:
        return ",".join(["flip"] * self.flip + [f"crop={self.crop}"] * (self.crop > 0)) or "none"

    def __call__(self, images: np.ndarray, keys: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """(b, C, H, W) -> the same, changed; `keys` (b,) identify the samples."""
        if not (self.flip or self.crop):
            return images
        flip, down, right = draws(keys, seed, epoch, 3).T  # (b,) each, in [0, 1)
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
    """A set of training samples in batches, augmented.

    Args:
        inputs: the set.
        augment: as `parse_augmentation` takes it.
        seed: of the augmentation.
    """

    def __init__(self, inputs: Inputs, augment: str, seed: int) -> None:
        self.inputs, self.augmentation, self.seed = inputs, parse_augmentation(augment), seed
        self.keys = sample_keys(inputs.ids)

    def batches(self, rows: Sequence[np.ndarray], epoch: int) -> Iterator[Batch]:
        """The rows asked for, batch by batch, as they look in an epoch."""
        for batch in self.inputs.batches(rows):
            yield Batch(batch.rows, self.augmentation(batch.inputs, self.keys[batch.rows], self.seed, epoch))


def parse_augmentation(words: str | Iterable[str]) -> Augmentation:
    """From `flip,crop` or `flip,crop=2`; `none` is nothing.

    Example:
        >>> parse_augmentation("flip,crop"), str(parse_augmentation("none"))
        (Augmentation(flip=True, crop=4), 'none')
    """
    flip, crop = False, 0
    for word in words.split(",") if isinstance(words, str) else words:
        name, equals, value = word.strip().partition("=")
        if name == "flip" and not equals:
            flip = True
        elif name == "crop" and (not equals or value.isdigit()):
            crop = int(value) if equals else PAD
        elif name not in ("none", "") or equals:
            raise InputError(f"augmentation is made of flip, crop and crop=PIXELS with commas, or none; got {word!r}.")
    return Augmentation(flip, crop)


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

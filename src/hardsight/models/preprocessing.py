"""A picture as the array a model was trained on: resized, cropped, scaled and normalized.

Pillow and NumPy only. Pillow's resize is the one that timm, torchvision and transformers evaluate with, so the
pixels are theirs, and a `Preprocessing` is a handful of plain values that a run can write down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from hardsight.errors import InputError, check_choice

Resize = Literal["shortest", "squash", "longest"]
Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Channels = Literal["RGB", "BGR", "L"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
SCALINGS = {  # by name: mean and std of pixels in 0..1, one value for all channels or one per channel
    "unit": ((0.0,), (1.0,)),
    "imagenet": (IMAGENET_MEAN, IMAGENET_STD),
    "centered": ((128 / 255,), (128 / 255,)),  # (x - 128) / 128 of pixels in 0..255
}
MOST_PIXELS = 50_000_000  # of a resized picture, before its center is cut


@dataclass(frozen=True)
class Preprocessing:
    """How a picture becomes one input of a model. The defaults only scale the pixels to 0..1.

    Args:
        size: (height, width) that the model gets; None keeps each picture's own.
        resize: "shortest" scales the shortest side and cuts the center; "squash" ignores the proportions;
            "longest" fits the whole picture and fills the rest with the mean.
        crop_pct: the center crop as a part of the resized side: 0.875 resizes to 256 to cut 224.
        interpolation: a Pillow filter by name.
        mean, std: taken from, and divided into, pixels of 0..1; one value per channel.
        channels: "RGB", "BGR" or "L" (gray).
        exact_decode: decode every JPEG whole, also where it is at least twice as large as needed.

    Example:
        >>> gray = Preprocessing(size=(1, 2), channels="L", mean=(0.5,), std=(0.5,))
        >>> gray(Image.new("RGB", (8, 4), "white"))
        array([[[1., 1.]]], dtype=float32)
    """

    size: tuple[int, int] | None = None
    resize: Resize = "shortest"
    crop_pct: float = 1.0
    interpolation: Interpolation = "bilinear"
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    channels: Channels = "RGB"
    exact_decode: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name, allowed in (("resize", Resize), ("interpolation", Interpolation), ("channels", Channels)):
            check_choice(getattr(self, name), get_args(allowed), name)
        if self.size is not None:
            put(self, "size", tuple(int(side) for side in self.size))
            if len(self.size) != 2 or min(self.size) < 1:
                raise InputError(f"size must be (height, width) in pixels, got {self.size}.")
        if not 0 < self.crop_pct <= 1:
            raise InputError(f"crop_pct must be above 0 and at most 1, got {self.crop_pct}.")
        for name in ("mean", "std"):
            put(self, name, self._per_channel(name))
        if not np.isfinite(self.mean + self.std).all() or min(self.std) <= 0:
            raise InputError(f"mean and std must be finite and std above 0, got {self.mean} and {self.std}.")

    def _per_channel(self, name: str) -> tuple[float, ...]:
        values = tuple(float(value) for value in getattr(self, name))
        wanted = len(self.channels)
        if len(values) == wanted:
            return values
        if len(set(values)) == 1:  # one value for all: (0.5,) for RGB, (0, 0, 0) for gray
            return values[:1] * wanted
        raise InputError(f"{name} must have one value per channel, {wanted} for {self.channels}, got {values}.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """The inverse of `as_dict`; an unknown key is an error."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise InputError(f"preprocessing has no {unknown[0]!r}; it knows {', '.join(names)}.")
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def __call__(self, image: Image.Image) -> np.ndarray:
        """An 8-bit picture -> (C, H, W) float32."""
        return self.numbers(self.fitted(image))

    @property
    def needed(self) -> Callable[[int, int], tuple[int, int]] | None:
        """(width, height) of a picture -> those that it is shrunk to, for its decoder; None if it should come whole."""
        return None if self.exact_decode or self.size is None else self._needed

    def _needed(self, width: int, height: int) -> tuple[int, int]:
        height, width = self._resized_to((height, width))
        return width, height

    def fitted(self, image: Image.Image) -> Image.Image:
        """The picture as the model sees it: its mode, its size, still 8 bits."""
        image = self._in_mode(image)
        return image if self.size is None else self._resized(image)

    def cropped(self, image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
        """A part of the picture, (left, top, right, bottom), brought to the model's size whatever its proportions; 8 bits."""
        assert self.size is not None
        height, width = self.size
        return self._in_mode(image.crop(box)).resize((width, height), self._filter)

    def _in_mode(self, image: Image.Image) -> Image.Image:
        mode = "L" if self.channels == "L" else "RGB"
        if image.mode == mode:
            return image
        if image.mode[0] in "IF":
            raise InputError(f"the picture has mode {image.mode}, more than 8 bits per pixel: scale it to 8 bits first.")
        return image.convert(mode)

    @property
    def _filter(self) -> Image.Resampling:
        return Image.Resampling[self.interpolation.upper()]

    def numbers(self, image: Image.Image) -> np.ndarray:
        """A fitted picture as normalized (C, H, W) float32."""
        return self.normalized(np.asarray(image).reshape(1, image.height, image.width, -1))[0]

    def normalized(self, pixels: np.ndarray) -> np.ndarray:
        """(b, H, W, C) uint8 -> (b, C, H, W) float32."""
        if self.channels == "BGR":
            pixels = pixels[..., ::-1]
        std, mean = np.array(self.std), np.array(self.mean)
        scale, shift = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)
        result = np.empty((len(pixels), pixels.shape[3], *pixels.shape[1:3]), np.float32)
        np.multiply(pixels.transpose(0, 3, 1, 2), scale[:, None, None], out=result)
        result += shift[:, None, None]
        return result

    def five_crops(self, image: Image.Image) -> list[Image.Image]:
        """The four corners and the center of the resized picture, each of the model's size, still 8 bits."""
        assert self.size is not None
        height, width = self.size
        whole = self._scaled(self._in_mode(image))
        down, right = whole.height - height, whole.width - width
        places = [(0, 0), (right, 0), (0, down), (right, down), (round(right / 2), round(down / 2))]
        return [whole.crop((x, y, x + width, y + height)) for x, y in places]

    def _resized(self, image: Image.Image) -> Image.Image:
        assert self.size is not None
        height, width = self.size
        whole = self._scaled(image)
        top, left = round((whole.height - height) / 2), round((whole.width - width) / 2)
        return whole.crop((left, top, left + width, top + height))

    def _scaled(self, image: Image.Image) -> Image.Image:
        """The whole picture, at least as large as the model's size."""
        assert self.size is not None
        height, width = self.size
        box = image.info.get("box", (0, 0, image.width, image.height))  # the last pixels of a scaled JPEG are not whole ones
        before = (box[3] - box[1], box[2] - box[0])
        after = self._resized_to(before)
        if after[0] * after[1] > MOST_PIXELS:  # a strip of 1 x 100000 pixels: cut first, or it becomes gigapixels
            cut = [min(old, math.ceil(side * old / new) + 2) for side, old, new in zip(self.size, before, after, strict=True)]
            y, x = (before[0] - cut[0]) // 2, (before[1] - cut[1]) // 2
            box = (x, y, x + cut[1], y + cut[0])
            parts = zip(self.size, cut, after, before, strict=True)
            after = tuple(max(to, round(c * new / old)) for to, c, new, old in parts)
        if after != before:
            image = image.resize((after[1], after[0]), self._filter, box)
        top, left = round((after[0] - height) / 2), round((after[1] - width) / 2)
        if top < 0 or left < 0:  # "longest" leaves room on two sides
            fill = tuple(round(255 * value) for value in self.mean)
            canvas = Image.new(image.mode, (max(width, after[1]), max(height, after[0])), fill if len(fill) > 1 else fill[0])
            canvas.paste(image, (max(0, -left), max(0, -top)))
            return canvas
        return image

    def _resized_to(self, before: tuple[float, float]) -> tuple[int, int]:
        """(height, width) of the whole picture, before its center is cut."""
        assert self.size is not None
        height, width = (math.floor(side / self.crop_pct + 1e-6) for side in self.size)
        if self.resize == "squash":
            return height, width
        if self.resize == "longest":
            ratio = max(before[0] / height, before[1] / width)
            return max(1, round(before[0] / ratio)), max(1, round(before[1] / ratio))
        if height == width:
            short = min(before)
            tall, wide = (height if side == short else int(height * side / short) for side in before)
            return tall, wide
        ratio = min(before[0] / height, before[1] / width)
        return max(height, round(before[0] / ratio)), max(width, round(before[1] / ratio))


def flat_images(batch: np.ndarray) -> np.ndarray:
    """(b, C, H, W) -> (b, H * W * C), the order of `images.reshape(len(images), -1)` on ordinary pictures."""
    return batch.transpose(0, 2, 3, 1).reshape(len(batch), -1) if batch.ndim == 4 else batch.reshape(len(batch), -1)


def flat_preprocessing(num_values: int | None) -> Preprocessing:
    """The square gray or color picture that has this many values, if there is one; 64 is an 8 x 8 digit."""
    modes: dict[int, Channels] = {1: "L", 3: "RGB"}
    for count, channels in modes.items():
        side = math.isqrt((num_values or 0) // count)
        if side and count * side * side == num_values:
            return Preprocessing(size=(side, side), channels=channels)
    return Preprocessing()

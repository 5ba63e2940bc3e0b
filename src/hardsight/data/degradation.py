"""Image degradation level (Chen et al., Angular Visual Hardness, ICML 2020, Definition 4) and three more kinds.

    kind        level                         neutral   what it does
    contrast    factor, 0 and up              1.0       mean + level * (image - mean), mean: the image's mean gray
    noise       half width, 0 to 1            0.0       image + U(-level, level) of the full range, clipped
    blur        sigma / shorter side, 0 to 1  0.0       Gaussian; a fraction, so that images of any size blur alike
    sharpness   factor, 0 and up              1.0       smooth + level * (image - smooth), smooth: 3 x 3 mean, center 5/13
    brightness  factor, 0 and up              1.0       level * image

Noise is drawn per pixel and channel from a seed made of id, kind and level: the same on every run, machine and worker, in
any order. Resizing averages noise away: degrade the image at the size the model takes it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from hardsight.errors import InputError, check_choice

NEUTRAL = {"contrast": 1.0, "noise": 0.0, "blur": 0.0, "sharpness": 1.0, "brightness": 1.0}
LARGEST = {"noise": 1.0, "blur": 1.0}  # the others have no upper end


@dataclass(frozen=True)
class Degradation:
    """One kind at one level. Written `contrast=0.3`, as in a degraded sample's id.

    Example:
        >>> str(Degradation("contrast", 0.3))
        'contrast=0.3'
    """

    kind: str
    level: float

    def __post_init__(self) -> None:
        check_choice(self.kind, NEUTRAL, "a degradation")
        object.__setattr__(self, "level", float(self.level) + 0.0)  # -0.0 is 0.0
        top = LARGEST.get(self.kind, math.inf)
        if not (0 <= self.level <= top and math.isfinite(self.level)):
            allowed = f"from 0 to {top:g}" if math.isfinite(top) else "0 or more"
            raise InputError(f"a {self.kind} level must be {allowed}, got {self.level:g}.")

    def __str__(self) -> str:
        return f"{self.kind}={self.level!r}"


def parse_degradations(texts: Iterable[str]) -> list[Degradation]:
    """Parse `kind=level,level,...`; the order is kept.

    Example:
        >>> [str(d) for d in parse_degradations(["contrast=0.1,1.0", "noise=0.2"])]
        ['contrast=0.1', 'contrast=1.0', 'noise=0.2']
    """
    degradations: list[Degradation] = []
    for text in [texts] if isinstance(texts, str) else texts:
        kind, equals, levels = text.partition("=")
        if not equals or not levels.strip():
            raise InputError(f"a degradation is written kind=level,level,... as in contrast=0.3,1.0, got {text!r}.")
        degradations += [Degradation(kind.strip(), _level(level, text)) for level in levels.split(",")]
    twice = sorted({str(each) for each in degradations if degradations.count(each) > 1})
    if twice:
        raise InputError(f"each degradation may be requested once, but {', '.join(twice)} is repeated.")
    return degradations


def _level(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"a degradation level must be a number, got {text!r} in {whole!r}.") from error


def degraded_id(base_id: str, degradation: Degradation) -> str:
    """The id of a degraded sample.

    Example:
        >>> degraded_id("cat/1.png", Degradation("contrast", 0.3))
        'cat/1.png#contrast=0.3'
    """
    return f"{base_id}#{degradation}"


def degrade(image: Image.Image, degradation: Degradation, id: str) -> Image.Image:
    """The image at this level of degradation; mode and size are kept. At the neutral level the image is returned unchanged.

    Args:
        image: RGB or L.
        degradation: what to do, and how much.
        id: the sample's own id (`base_id`), from which noise is seeded.

    Example:
        >>> gray = Image.new("L", (2, 2), 100)
        >>> degrade(gray, Degradation("brightness", 0.5), "0").getpixel((0, 0))
        50
    """
    if image.mode not in ("RGB", "L"):
        raise InputError(f"an image to degrade must be RGB or L, got mode {image.mode}: convert it first.")
    level = degradation.level
    if level == NEUTRAL[degradation.kind]:
        return image
    if degradation.kind == "noise":
        return _add_noise(image, degradation, id)
    if degradation.kind == "blur":
        return image.filter(ImageFilter.GaussianBlur(level * min(image.size)))
    enhancer = {"contrast": ImageEnhance.Contrast, "sharpness": ImageEnhance.Sharpness, "brightness": ImageEnhance.Brightness}
    return enhancer[degradation.kind](image).enhance(level)


def _add_noise(image: Image.Image, degradation: Degradation, id: str) -> Image.Image:
    key = json.dumps([id, degradation.kind, degradation.level])
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
    pixels = np.asarray(image, dtype=np.float32)  # (h, w) or (h, w, 3)
    uniform = np.random.default_rng(seed).random(pixels.shape, dtype=np.float32) * 2 - 1  # in [-1, 1)
    noisy = pixels + np.float32(255 * degradation.level) * uniform
    return Image.fromarray(np.rint(noisy).clip(0, 255).astype(np.uint8))

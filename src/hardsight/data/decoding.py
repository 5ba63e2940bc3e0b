"""Bytes in, an upright 8-bit image out, or `BrokenImage` with a short reason.

The format is detected from the bytes, never from the name, and only plain raster formats are tried (Pillow's EPS reader,
for one, starts another program). The size is read from the header and refused before any pixel is decoded.

    CMYK, YCbCr, HSV, palette    converted to RGB
    alpha                        laid over white, as a person sees it on a page
    16-bit gray                  scaled to 8 bits (not clipped); floats in [0, 1] likewise
    EXIF orientation             applied, then dropped with all other metadata
    animation                    first frame

Where the caller says what size it will shrink a picture to, a JPEG that is at least twice as large is decoded at a half, a fourth
or an eighth of its size, by JPEG's own scaled decoding: a tenth of the time for a photograph of 12 megapixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.Image import DecompressionBombError, DecompressionBombWarning, Transpose

from hardsight.errors import FileError

MAX_PIXELS = 50_000_000
STRIP = 2_000_000  # pixels that are converted at a time where a conversion takes several times the picture's memory
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
SUFFIXES = frozenset(".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .ppm .pgm .pbm .pnm".split())

Box = tuple[float, float, float, float]  # left, top, right, bottom
BOX, WHOLE = "box", "whole"  # in the info of a picture that came smaller: the part of it that the whole fills, and its size
SPARE = 2.0  # times as large as needed, at least: what is then shrunk looks as if it had come whole
Needed = Callable[[int, int], tuple[int, int]]  # (width, height) of a whole picture -> of what it will be shrunk to

# Is told how many pixels a picture has before the first is decoded: a server may wait there until it has room for them.
before_pixels: ContextVar[Callable[[int], None]] = ContextVar("before_pixels", default=lambda pixels: None)

REASONS = {
    "missing": "there is no such file",
    "outside_root": "it lies outside the data's folder, through a link",
    "not_a_file": "it is a folder, a pipe or a device, not a file",
    "empty": "the file has no bytes",
    "not_an_image": f"its bytes are none of {', '.join(FORMATS)}",
    "too_large": f"it has more than {MAX_PIXELS // 1_000_000} million pixels",
    "truncated": "the file ends before the picture does",
    "unsupported_depth": "its numbers fit neither 8 bits, 16 bits nor [0, 1]",
    "unreadable": "it cannot be read",
}


class BrokenImage(FileError):
    """One image that cannot be read. `reason` is a key of `REASONS`; a run lists it and continues.

    Example:
        >>> print(BrokenImage("truncated", "cat/7.png"))
        cat/7.png: the file ends before the picture does (truncated).
    """

    def __init__(self, reason: str, name: str = "", detail: str = "") -> None:
        super().__init__(reason, name, detail)  # all three in args, so that it crosses processes whole
        self.reason, self.name, self.detail = reason, name, detail

    def __str__(self) -> str:
        where = f"{self.name}: " if self.name else ""
        because = f"; {self.detail}" if self.detail else ""
        return f"{where}{REASONS.get(self.reason, self.reason)} ({self.reason}{because})."


def decode(stream: IO[bytes], name: str, needed: Needed | None = None) -> Image.Image:
    """An upright RGB image from an open file, or BrokenImage. Safe to call from several threads.

    Args:
        needed: the size that the picture will be shrunk to: it may come smaller than it is, but not smaller than that.
    """
    try:
        picture = Image.open(stream, formats=FORMATS)
    except UnidentifiedImageError as error:
        stream.seek(0)
        raise BrokenImage("not_an_image" if stream.read(1) else "empty", name) from error
    except (DecompressionBombError, DecompressionBombWarning) as error:
        raise BrokenImage("too_large", name, str(error)) from error
    except Exception as error:  # a plugin may raise anything on bytes made to confuse it
        raise BrokenImage("unreadable", name, _oneline(error)) from error
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise BrokenImage("too_large", name, f"{width} x {height}")
    extent = None if needed is None else _decode_smaller(picture, needed)
    before_pixels.get()(picture.width * picture.height)
    try:
        picture.load()
        pixels = _as_rgb(_upright(picture))
    except BrokenImage as broken:
        raise BrokenImage(broken.reason, name, broken.detail) from broken
    except MemoryError as error:
        raise BrokenImage("too_large", name, f"{width} x {height}") from error
    except Exception as error:
        cut_short = isinstance(error, (EOFError, SyntaxError)) or "truncated" in str(error).lower()
        raise BrokenImage("truncated" if cut_short else "unreadable", name, _oneline(error)) from error
    pixels = pixels.copy() if pixels is picture else pixels  # a plain Image, free of its file
    pixels.info = {} if extent is None else {BOX: extent, WHOLE: _upright_size(picture, (width, height))}  # not turned again
    return pixels


def within(side: int) -> Needed:
    """The size of a picture whose longest side becomes `side`, or its own if that is smaller.

    Example:
        >>> within(100)(4000, 3000), within(100)(40, 30)
        ((100, 75), (40, 30))
    """

    def shrunk(width: int, height: int) -> tuple[int, int]:
        ratio = max(1.0, width / side, height / side)
        return max(1, round(width / ratio)), max(1, round(height / ratio))

    return shrunk


TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
ORIENTATION = 0x0112
ON_ITS_SIDE = (Transpose.TRANSPOSE, Transpose.ROTATE_270, Transpose.TRANSVERSE, Transpose.ROTATE_90)
MIRRORED_ACROSS = (Transpose.FLIP_LEFT_RIGHT, Transpose.ROTATE_180, Transpose.TRANSVERSE, Transpose.ROTATE_90)
MIRRORED_DOWN = (Transpose.FLIP_TOP_BOTTOM, Transpose.ROTATE_180, Transpose.TRANSVERSE, Transpose.ROTATE_270)


def _turn(picture: Image.Image) -> Transpose | None:
    """What its EXIF orientation says."""
    try:
        return TURNS.get(picture.getexif().get(ORIENTATION, 1))
    except Exception:  # broken metadata is no reason to lose the pixels
        return None


def _upright(picture: Image.Image) -> Image.Image:
    """The picture turned as its EXIF orientation says. Called after load(): Pillow already turns TIFF there."""
    turn = _turn(picture)
    return picture if turn is None else picture.transpose(turn)


def _upright_size(picture: Image.Image, size: tuple[int, int]) -> tuple[int, int]:
    return size[::-1] if _turn(picture) in ON_ITS_SIDE else size


def _decode_smaller(picture: Image.Image, needed: Needed) -> Box | None:
    """Let the decoder leave out what is not needed, as JPEG's can: the part of the upright result that the picture fills."""
    if picture.format not in ("JPEG", "MPO"):
        return None
    turn = _turn(picture)
    on_its_side = turn in ON_ITS_SIDE
    width, height = needed(*_upright_size(picture, picture.size))
    smallest = (math.ceil(SPARE * width), math.ceil(SPARE * height))
    drafted = picture.draft(None, smallest[::-1] if on_its_side else smallest)
    if drafted is None:
        return None
    (across, down), (_, _, right, bottom) = picture.size, drafted[1]
    left, top = 0.0, 0.0
    if turn in MIRRORED_ACROSS:
        left, right = across - right, across - left
    if turn in MIRRORED_DOWN:
        top, bottom = down - bottom, down - top
    return (top, left, bottom, right) if on_its_side else (left, top, right, bottom)


def _as_rgb(picture: Image.Image) -> Image.Image:
    """Any Pillow mode as RGB, 8 bits."""
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    rows = max(1, STRIP // picture.width)
    if rows < picture.height:
        return _as_rgb_in_strips(picture, rows)
    if picture.mode.startswith("I") or picture.mode == "F":
        return Image.fromarray(_eight_bits(np.asarray(picture))).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")


def _as_rgb_in_strips(picture: Image.Image, rows: int) -> Image.Image:
    """The same, so many rows at a time: alpha and 16 bits would take four and sixteen times the memory of the picture."""
    whole = Image.new("RGB", picture.size)
    for top in range(0, picture.height, rows):
        strip = picture.crop((0, top, picture.width, min(top + rows, picture.height)))
        whole.paste(_as_rgb(strip), (0, top))
    return whole


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """(h, w) 16-bit integers, or floats in [0, 1], as uint8."""
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    if not (values.min() >= 0 and values.max() <= top):  # false for NaN too
        raise BrokenImage("unsupported_depth", detail=f"values {values.min()} to {values.max()}")
    return np.rint(values * (255.0 / top)).astype(np.uint8)


def _oneline(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]

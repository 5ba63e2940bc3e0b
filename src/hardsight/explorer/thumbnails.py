"""A sample's image: found below the run's declared folders, decoded, and re-encoded.

No byte of an image file reaches the browser as it is, so a script named .png cannot. An image that cannot be read becomes a
gray one that says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition

from PIL import Image, ImageDraw

from hardsight.data import BrokenImage, Degradation, degrade
from hardsight.data.decoding import MAX_PIXELS, before_pixels, within
from hardsight.data.run_images import RunImages
from hardsight.errors import HardsightError, InputError
from hardsight.explorer.display import Display
from hardsight.files.run import read_start
from hardsight.models.preprocessing import Preprocessing
from hardsight.render.table_views import thumbnail
from hardsight.snapshot import Snapshot

THUMB, LARGE = 128, 768  # longest side in pixels, in the grid and in the dialog of one sample
KEPT = 8192  # thumbnails, of a few kB each
FIRST = 100  # samples whose images are looked for in the folder that a user named
MANY_PIXELS = 1_000_000  # of an image after which memory is returned to the system
AT_ONCE = MAX_PIXELS  # of all images that are decoded and encoded at a time; a single one may have as many


class Pictures:
    """Images of the samples of a display; `thumb(row)` gives a small WebP and keeps it.

    Args:
        display: the samples.
        images: what a user named with --images: a folder that paths are below, or anything `open_data` reads.
    """

    def __init__(self, display: Display, images: str | None = None) -> None:
        self.display = display
        found = display.images if images is None else None
        self.source = found or RunImages(display.start.get("sources") or {}, display.directory, images)
        self.roots = self.source.roots
        self.room = PixelRoom(AT_ONCE)
        self.thumb = functools.lru_cache(KEPT)(lambda row: self.small(row, THUMB))
        self._preprocessing = _preprocessing(display)
        self.source.check_named(images)
        if images is not None:
            self._check_named(images)

    @classmethod
    def of(cls, samples: Snapshot, images: str | None) -> Pictures:
        """The images of samples that no page shows, where their run says where they are; a wrong `images` is refused."""
        source, columns = Path(samples.where), samples.columns()
        display = Display(samples, source.name, source, samples.class_names or [], start=read_start(source))
        kept = [name for name in ("path", "base_id", "degradation", "level") if name in columns.column_names]
        display.add_further(columns.select(kept))
        return cls(display, images)

    def _check_named(self, images: str) -> None:
        """Refuse images that do not exist or are of other samples, with an id of each side."""
        if self.roots and self.display.paths is not None:
            rows = [row for row in range(min(len(self.display), FIRST)) if self.display.image_path(row) is not None]
            if rows and not any(self._exists(row) for row in rows):
                first = self.display.image_path(rows[0])
                raise InputError(f"{images} has none of the images of the first samples: {first!r} is not in it.")
            return
        self.source.check_ids([self._base(row) for row in range(len(self.display))])

    def _exists(self, row: int) -> bool:
        with contextlib.suppress(BrokenImage):
            return self.file(row) is not None or self._degradation(row) is not None
        return False

    @property
    def any(self) -> bool:
        """Whether it is known where images are."""
        return bool(self.source.specs) or (bool(self.roots) and self.display.paths is not None)

    def warm(self) -> None:
        """Open the images before the first request; an error is reported with that request."""
        with contextlib.suppress(HardsightError):
            if self.any and not (self.roots and self.display.paths is not None):
                self.source.open()

    def small(self, row: int, side: int) -> bytes:
        """A WebP of at most `side` pixels."""
        with self._turn():
            return thumbnail(self._safe(row, side), side)

    def reduced(self, row: int, side: int) -> Image.Image:
        """The image, or a gray one that says why not, of at most `side` pixels, so that many fit in memory."""
        with self._turn():
            image = self._safe(row, side)
            image.thumbnail((side, side))  # in place, and never larger
            return image

    def file(self, row: int) -> Path | None:
        """The image file, if the sample is one unchanged; None for arrays and degraded copies.

        Raises BrokenImage if it is missing or outside the roots.
        """
        path = self.display.image_path(row)
        if path is None or not self.roots or self._degradation(row) is not None:
            return None
        return self.source.file(path)

    def trouble(self, row: int) -> str | None:
        """Why the image cannot be shown, or None."""
        try:
            self.image(row)
        except HardsightError as error:
            return error.reason.replace("_", " ") if isinstance(error, BrokenImage) else str(error)
        return None

    def image(self, row: int) -> Image.Image:
        """The image as the model saw it, degraded like the sample. Raises BrokenImage."""
        with self._turn():
            return self._image(row)

    __getitem__ = image

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Images decoded in this block wait for room for their pixels, and keep it until the end of the block."""
        held: list[int] = []

        def take(pixels: int) -> None:
            if not held:  # what is decoded counts, not each step after it
                self.room.take(pixels)
                held.append(pixels)

        token = before_pixels.set(take)
        try:
            yield
        finally:
            before_pixels.reset(token)
            if sum(held) >= MANY_PIXELS and (trim := _malloc_trim()) is not None:
                trim(0)
            self.room.release(sum(held))

    def _image(self, row: int, side: int | None = None) -> Image.Image:
        degradation = self._degradation(row)
        needed = None if side is None or degradation is not None else within(side)
        image = self.source.find(self.display.image_path(row), self._base(row), needed)
        before_pixels.get()(image.width * image.height)  # an image from an array was not decoded
        if degradation is None:
            return image
        if self._preprocessing is not None:
            image = self._preprocessing.fitted(image)  # images are degraded at the size that the model sees
        return degrade(image, degradation, self._base(row))

    def _safe(self, row: int, side: int) -> Image.Image:
        try:
            return self._image(row, side)
        except BrokenImage as error:
            return _placeholder(error.reason.replace("_", " "))
        except HardsightError:
            return _placeholder("no image")

    def _base(self, row: int) -> str:
        base = None if self.display.base_ids is None else self.display.base_ids[row].as_py()
        return str(base if base is not None else self.display.ids[row].as_py())

    def _degradation(self, row: int) -> Degradation | None:
        how, level = self.display.columns.get("degradation"), self.display.columns.get("level")
        if how is None or level is None or how.names is None or how.value(row) is None:
            return None
        return Degradation(how.value(row), round(float(level.values[row]), 6))


class PixelRoom:
    """Room for `most` pixels in memory at a time; an image with more has it to itself."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._changed = Condition()

    def take(self, pixels: int) -> None:
        """Wait until there is room for these pixels."""
        with self._changed:
            self._changed.wait_for(lambda: self.used == 0 or self.used + pixels <= self.most)
            self.used += pixels

    def release(self, pixels: int) -> None:
        """Give the room back."""
        with self._changed:
            self.used -= pixels
            self._changed.notify_all()


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's function that returns freed memory to the system; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim  # else each thread keeps the memory of a large image: gigabytes in all
    except (OSError, AttributeError, TypeError):  # other systems return large blocks at once
        return None


def _preprocessing(display: Display) -> Preprocessing | None:
    """How images were prepared for the model, if the run records it."""
    arguments = (display.start.get("arguments") or {}).get("preprocessing")
    try:
        return None if arguments is None else Preprocessing.from_dict(arguments)
    except (HardsightError, TypeError, ValueError):
        return None


def _placeholder(words: str) -> Image.Image:
    image = Image.new("RGB", (THUMB, THUMB), "#9aa0a6")
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = draw.textbbox((0, 0), words)
    draw.text(((THUMB - right + left) / 2, (THUMB - bottom + top) / 2), words, fill="white")
    return image

"""A row's picture: found below the run's declared roots, decoded, and encoded anew.

No byte of an image file reaches the browser as it is, so a script that calls itself .png ends here. A picture that
cannot be read becomes a gray one that says why.
"""

from __future__ import annotations

import contextlib
import io
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from PIL import Image, ImageDraw

from hardsight.data import BrokenImage, Degradation, degrade
from hardsight.data.decoding import MAX_PIXELS, before_pixels
from hardsight.data.run_images import RunImages
from hardsight.errors import HardsightError, InputError
from hardsight.explorer.memory_limit import Turns
from hardsight.explorer.sheet import Sheet
from hardsight.models.preprocessing import Preprocessing

THUMB, LARGE = 128, 768  # longest side in pixels
SMALL = 64  # up to here no pixel is lost
KEPT = 8192  # thumbnails, of a few kB each
FIRST = 100  # samples whose images are looked for where a user named a folder
AT_ONCE = MAX_PIXELS  # in all pictures that are decoded and encoded at a time: one alone may have as many


class Pictures:
    """Pictures of a sheet's rows.

    Args:
        sheet: whose rows they are.
        images: what a user named with --images: a folder that paths are below, or anything `open_data` reads.
        source: where the images are, if that is known already; else found from the sheet and `images`.
    """

    def __init__(self, sheet: Sheet, images: str | None = None, source: RunImages | None = None) -> None:
        self.sheet = sheet
        self.source = source or RunImages(sheet.start.get("sources") or {}, sheet.directory, images)
        self.roots = self.source.roots
        self._keeping = Lock()
        self.turns = Turns(AT_ONCE)
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._preprocessing = _preprocessing(sheet)
        self.source.check_named(images)
        if images is not None:
            self._check_named(images)

    def _check_named(self, images: str) -> None:
        """Images that are not there, or of other samples, are said at once, with an id of each side."""
        if self.roots and self.sheet.paths is not None:
            some = [row for row in range(min(len(self.sheet), FIRST)) if self.sheet.paths[row].as_py() is not None]
            if some and not any(self._is_there(row) for row in some):
                raise InputError(
                    f"{images} holds none of the samples' first images: {self.sheet.paths[some[0]].as_py()!r} is not in it."
                )
            return
        self.source.check_ids([self._base(row) for row in range(len(self.sheet))])

    def _is_there(self, row: int) -> bool:
        with contextlib.suppress(BrokenImage):
            return self.file(row) is not None or self._degradation(row) is not None
        return False

    @property
    def any(self) -> bool:
        """Whether there is a place to look for pictures at all."""
        return bool(self.source.specs) or (bool(self.roots) and self.sheet.paths is not None)

    def warm(self) -> None:
        """Get ready for the first question; whatever is wrong is said when it is asked."""
        with contextlib.suppress(HardsightError):
            if self.any and not (self.roots and self.sheet.paths is not None):
                self.source.open()

    def thumb(self, row: int) -> bytes:
        """A small WebP."""
        with self._keeping:
            thumbnail = self._kept.get(row)
        if thumbnail is not None:
            return thumbnail
        made = self.small(row, THUMB)
        with self._keeping:
            self._kept[row] = made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def large(self, row: int) -> bytes:
        """The same for the close-up."""
        return self.small(row, LARGE)

    def small(self, row: int, side: int) -> bytes:
        """A WebP of at most `side` pixels."""
        with self._turn():
            return _encoded(self._safe(row), side)

    def reduced(self, row: int, side: int) -> Image.Image:
        """The picture, or a gray one that says why not, of at most `side` pixels: many of them fit in memory."""
        with self._turn():
            image = self._safe(row)
            image.thumbnail((side, side))  # in its place, and never larger
            return image

    def file(self, row: int) -> Path | None:
        """The image file itself, where the picture is one as it stands; None for arrays and degraded copies.

        Raises BrokenImage where it is missing or lies outside the roots.
        """
        path = None if self.sheet.paths is None else self.sheet.paths[row].as_py()
        if path is None or not self.roots or self._degradation(row) is not None:
            return None
        return self.source.file(path)

    def trouble(self, row: int) -> str | None:
        """Why the picture cannot be shown, or None."""
        try:
            self.image(row)
        except HardsightError as error:
            return error.reason.replace("_", " ") if isinstance(error, BrokenImage) else str(error)
        return None

    def image(self, row: int) -> Image.Image:
        """The picture as the model saw it: degraded where the row is. Raises BrokenImage."""
        with self._turn():
            return self._image(row)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Whatever is decoded in this block waits for room for its pixels, and keeps it until the end of the block."""
        with self.turns.turn() as turn:
            token = before_pixels.set(turn.take)
            try:
                yield
            finally:
                before_pixels.reset(token)

    def _image(self, row: int) -> Image.Image:
        image = self._found(row)
        before_pixels.get()(image.width * image.height)  # one from an array needed no decoding
        return self._degraded(row, image)

    def _safe(self, row: int) -> Image.Image:
        try:
            return self._image(row)
        except BrokenImage as error:
            return _placeholder(error.reason.replace("_", " "))
        except HardsightError:
            return _placeholder("no image")

    def _found(self, row: int) -> Image.Image:
        path = None if self.sheet.paths is None else self.sheet.paths[row].as_py()
        return self.source.find(path, self._base(row))

    def _base(self, row: int) -> str:
        base = None if self.sheet.base_ids is None else self.sheet.base_ids[row].as_py()
        return str(base if base is not None else self.sheet.ids[row].as_py())

    def _degraded(self, row: int, image: Image.Image) -> Image.Image:
        degradation = self._degradation(row)
        if degradation is None:
            return image
        if self._preprocessing is not None:
            image = self._preprocessing.fitted(image)  # degradations are made at the size the model sees
        return degrade(image, degradation, self._base(row))

    def _degradation(self, row: int) -> Degradation | None:
        how, level = self.sheet.columns.get("degradation"), self.sheet.columns.get("level")
        if how is None or level is None or how.names is None or how.values[row] >= len(how.names):
            return None
        return Degradation(how.names[how.values[row]], round(float(level.values[row]), 6))


def _preprocessing(sheet: Sheet) -> Preprocessing | None:
    """How the model's pictures were made, where the run says it."""
    arguments = (sheet.start.get("arguments") or {}).get("preprocessing")
    try:
        return None if arguments is None else Preprocessing.from_dict(arguments)
    except (HardsightError, TypeError, ValueError):
        return None


def _encoded(image: Image.Image, side: int) -> bytes:
    """WebP of at most `side` pixels; small ones without loss."""
    if max(image.size) > side:
        image.thumbnail((side, side))  # in its place: a copy would be as large again
    width, height = (max(1, length) for length in image.size)
    stream = io.BytesIO()
    image = image.convert("RGB") if image.mode != "RGB" else image
    image.save(stream, "WEBP", lossless=max(width, height) <= SMALL, quality=82, method=2)
    return stream.getvalue()


def _placeholder(words: str) -> Image.Image:
    image = Image.new("RGB", (THUMB, THUMB), "#9aa0a6")
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = draw.textbbox((0, 0), words)
    draw.text(((THUMB - right + left) / 2, (THUMB - bottom + top) / 2), words, fill="white")
    return image

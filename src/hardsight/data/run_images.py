"""Images of a run's samples: below the roots that the run declares, or in the data that it was extracted from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage
from hardsight.data.files import ImageFiles, path_below
from hardsight.data.opening import open_data
from hardsight.errors import InputError


class RunImages:
    """Where the images are.

    Args:
        sources: what start.json says of them: `data` to open, and `roots` that paths are below.
        directory: the run, whose own images are taken where nothing else is said.
        images: what a user named instead: a folder that paths are below, or anything `open_data` reads.
    """

    def __init__(self, sources: Mapping[str, Any], directory: Path | None = None, images: str | None = None) -> None:
        self.spec: str | None = images or sources.get("data")
        roots = [images] if images and Path(images).is_dir() else sources.get("roots") or []
        if not roots and directory is not None and self.spec is None:
            roots = [str(directory)]  # such as the demo's own images/
        self.roots = [str(Path(root).resolve()) for root in roots]
        self._data: tuple[ImageData, dict[str, int]] | None = None
        self._opening = Lock()

    def check_named(self, images: str | None) -> None:
        """Refuse at once what a user named and nobody can open; files are opened when the first image is asked for."""
        if images is not None and not self.roots and not Path(images).is_file() and not images.startswith("digits"):
            self.open()

    def check_ids(self, ids: Sequence[str]) -> None:
        """Refuse images of other samples, with an id of each side; `ids` are those of undegraded samples."""
        data, row_of = self.open()
        if len(ids) and not any(id in row_of for id in ids):
            raise InputError(
                f"{self.spec}: no image has the id of a sample; its ids look like {next(iter(data.ids), '')!r}, "
                f"the samples' like {ids[0]!r}."
            )

    def find(self, path: str | None, id: str) -> Image.Image:
        """The image of an undegraded sample, by its path or its id. Raises BrokenImage."""
        if self.roots and path is not None:
            return self._file(path)
        if self.spec is None:
            raise BrokenImage("missing")
        data, row_of = self.open()
        at = row_of.get(id)
        if at is None:
            raise BrokenImage("missing", id)
        return data.image(at)

    def open(self) -> tuple[ImageData, dict[str, int]]:
        """The data that was extracted from and the row of each id, opened when the first image is asked for."""
        with self._opening:
            if self._data is None:
                assert self.spec is not None
                data = open_data(self.spec)
                self._data = data, {id: row for row, id in enumerate(data.ids)}
            return self._data

    def _file(self, path: str) -> Image.Image:
        broken = BrokenImage("missing", path)
        for root in self.roots:
            try:
                return ImageFiles(root, [path_below(root, path, "path")]).image(0)
            except InputError as error:
                broken = BrokenImage("outside_root", path, str(error))
            except BrokenImage as error:
                broken = error
                if error.reason != "missing":
                    break
        raise broken

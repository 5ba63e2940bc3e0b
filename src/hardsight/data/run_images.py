"""Images of a run's samples: below the roots that the run declares, or in the data that it was made from."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage, Needed
from hardsight.data.files import ImageFiles, path_below
from hardsight.data.opening import open_data
from hardsight.errors import HardsightError, InputError
from hardsight.files.kinds import holds_features


class RunImages:
    """Where the images are.

    Args:
        sources: what start.json says of them: `data` to open, and `roots` that paths are below; of a training, the data that it
            was `train`ed on and what it did `watch`, by name.
        directory: the run, whose own images are taken where nothing else is said.
        images: what a user named instead: a folder that paths are below, or anything `open_data` reads.
    """

    def __init__(self, sources: Mapping[str, Any], directory: Path | None = None, images: str | None = None) -> None:
        named = images or sources.get("data")
        self.specs: list[str] = [named] if named else _of_training(sources)
        roots = [images] if images and Path(images).is_dir() else sources.get("roots") or []
        if not roots and directory is not None and not self.specs:
            roots = [str(directory)]  # such as the demo's own images/
        self.roots = [str(Path(root).resolve()) for root in roots]
        self._rows: dict[str, tuple[ImageData, int]] | None = None  # by id
        self._opening = Lock()

    def check_named(self, images: str | None) -> None:
        """Refuse at once what a user named and nobody can open; files are opened when the first image is asked for."""
        if images is not None and not self.roots and not Path(images).is_file() and not images.startswith("digits"):
            self.open()

    def check_ids(self, ids: Sequence[str]) -> None:
        """Refuse images of other samples, with an id of each side; `ids` are those of undegraded samples."""
        rows = self.open()
        if len(ids) and not any(id in rows for id in ids):
            raise InputError(
                f"{', '.join(self.specs)}: no image has the id of a sample; its ids look like {next(iter(rows), '')!r}, "
                f"the samples' like {ids[0]!r}."
            )

    def find(self, path: str | None, id: str, needed: Needed | None = None) -> Image.Image:
        """The image of an undegraded sample, by its path or its id. Raises BrokenImage."""
        if self.roots and path is not None:
            return self._file(path, needed)
        if not self.specs:
            raise BrokenImage("missing")
        if id not in (rows := self.open()):
            raise BrokenImage("missing", id)
        data, row = rows[id]
        return data.image(row, needed)

    def file(self, path: str) -> Path:
        """The image file at a path below one of the roots. Raises BrokenImage where it is missing or lies outside."""
        for root in self.roots:
            with contextlib.suppress(InputError):
                file = os.path.join(root, path_below(root, path, "path"))
                real = os.path.realpath(file)
                if os.path.commonpath([root, real]) == root and os.path.isfile(real):
                    return Path(file)
        raise BrokenImage("missing", path)

    def open(self) -> dict[str, tuple[ImageData, int]]:
        """By id, the data that it is in and its row there; opened when the first image is asked for."""
        with self._opening:
            if self._rows is None:
                rows: dict[str, tuple[ImageData, int]] = {}
                for spec in self.specs:
                    data = open_data(spec)
                    for row, id in enumerate(data.ids):
                        rows.setdefault(id, (data, row))  # a run leaves out a set whose ids an earlier one has
                self._rows = rows
            return self._rows

    def _file(self, path: str, needed: Needed | None) -> Image.Image:
        broken = BrokenImage("missing", path)
        for root in self.roots:
            try:
                return ImageFiles(root, [path_below(root, path, "path")]).image(0, needed)
            except InputError as error:
                broken = BrokenImage("outside_root", path, str(error))
            except BrokenImage as error:
                broken = error
                if error.reason != "missing":
                    break
        raise broken


def _of_training(sources: Mapping[str, Any]) -> list[str]:
    """What a run was trained on, and what it watched, as far as that is images."""
    watched = sources.get("watch")
    specs = [sources.get("train"), *(watched.values() if isinstance(watched, Mapping) else ())]
    return [spec for spec in specs if isinstance(spec, str) and not _is_snapshot(spec)]


def _is_snapshot(spec: str) -> bool:
    with contextlib.suppress(HardsightError):  # a damaged one is told of when its images are asked for
        return holds_features(Path(spec))
    return False

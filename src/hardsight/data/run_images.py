"""Images of samples: below the roots that a run declares, or in the data that it was made from; `pictures_of` a snapshot."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from hardsight.data.decoding import BrokenImage, Needed
from hardsight.data.degradation import Degradation, degrade
from hardsight.data.files import ImageFiles, is_image_name, path_below
from hardsight.data.opening import open_data
from hardsight.errors import HardsightError, InputError
from hardsight.files.kinds import holds_features
from hardsight.files.reading import read_object
from hardsight.snapshot import Snapshot

COLUMNS = ("id", "path", "base_id", "degradation", "level")
Rows = dict[str, tuple[Any, Any]]  # id -> the data that it is in, such as `ImageData`, and its row there
SOME = 100  # paths that are looked for


class RunImages:
    """Where the images are.

    Args:
        sources: what start.json says of them: `data` to open, and `roots` that paths are below; of a training, the data that it
            was `train`ed on and what it did `watch`, by name.
        directory: the run, whose own images are taken where nothing else is said.
        images: what a user named instead: a folder that paths are below, or anything `open_data` reads.
        rows: images in memory: by id as text, what has them, and which of its images it is.
    """

    def __init__(
        self, sources: Mapping[str, Any], directory: Path | None = None, images: str | None = None, rows: Rows | None = None
    ) -> None:
        named = images or sources.get("data")
        self.specs: list[str] = [named] if named else _of_training(sources)
        roots = [images] if images and Path(images).is_dir() else sources.get("roots") or []
        if not roots and directory is not None and not self.specs:
            roots = [str(directory)]  # such as the demo's own images/
        self.roots = [str(Path(root).resolve()) for root in roots]
        self._rows = rows  # by id
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

    def open(self) -> Rows:
        """By id, the data that it is in and its row there; opened when the first image is asked for."""
        with self._opening:
            if self._rows is None:
                rows: Rows = {}
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


class RunPictures:
    """Images by id, read on demand: those of a run, below a folder that a user named, or at the paths of a table."""

    def __init__(self, snapshot: Snapshot, directory: Path | None, images: str | None) -> None:
        self.snapshot, self.directory, self.given = snapshot, directory, images

    @functools.cached_property
    def source(self) -> RunImages:
        """Where the images are."""
        if self.directory is None and self.given is None:
            return RunImages({"roots": self._roots()})
        sources = None if self.directory is None else read_object(self.directory / "run.json").get("sources")
        return RunImages(sources if isinstance(sources, dict) else {}, self.directory, self.given)

    @functools.cached_property
    def columns(self) -> pa.Table:
        """The columns that locate a sample's image; where nothing else does, ids are taken for paths."""
        located = self.snapshot.columns([name for name in COLUMNS if name in self.snapshot.column_names])
        if "path" in located.column_names or self.directory is not None or self.given is not None:
            return located
        return located.append_column("path", located.column("id").cast(pa.string()))

    def _roots(self) -> list[str]:
        """The folder that the paths of a table are below: their own, that of the table's file, or the current one."""
        paths = [str(path) for path in self.columns.column("path").drop_null().slice(0, SOME).to_pylist()]
        whole = [path for path in paths if os.path.isabs(path)]
        if whole:
            return [os.path.commonpath([os.path.dirname(path) for path in whole])]
        folders = [Path.cwd()] if self.snapshot.name is None else [Path(self.snapshot.name).parent, Path.cwd()]
        return [str(folder) for folder in folders if any(is_image_name(p) and (folder / p).is_file() for p in paths)][:1]

    def image(self, id: Any) -> Image.Image | None:
        """The image of a sample, degraded like the sample; None if there is none."""
        try:
            ids = self.columns.column("id")
            row = pc.index(ids, pa.scalar(id, ids.type)).as_py()
            if row < 0:
                return None
            sample = self.columns.slice(row, 1).to_pylist()[0]
            base = str(id if sample.get("base_id") is None else sample["base_id"])
            image = self.source.find(sample.get("path"), base)
            if sample.get("degradation") is None:
                return image
            return degrade(image, Degradation(sample["degradation"], round(float(sample["level"]), 6)), base)
        except (HardsightError, TypeError, ValueError):  # moved, broken, or other columns: show no images
            return None


def pictures_of(snapshot: Snapshot, images: Any = None) -> RunPictures | None:
    """Where to find the images of a snapshot's samples; None if nothing could lead to them."""
    directory = snapshot.run
    image_path = str(images) if isinstance(images, (str, Path)) else None
    located = "path" in snapshot.column_names or pa.types.is_string(snapshot.source.id_type)
    return RunPictures(snapshot, directory, image_path) if located or directory is not None or image_path is not None else None

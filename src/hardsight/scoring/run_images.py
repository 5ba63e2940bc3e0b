"""Images of the samples of a run, shown with its scores table."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from hardsight.data.degradation import Degradation, degrade
from hardsight.data.files import is_image_name
from hardsight.data.run_images import RunImages
from hardsight.errors import HardsightError
from hardsight.files.reading import read_json
from hardsight.snapshot import Snapshot

COLUMNS = ("id", "path", "base_id", "degradation", "level")
SOME = 100  # paths that are looked for


class RunPictures:
    """Images by id, read on demand: those of a run, below a folder that a user named, or at the paths of a table."""

    def __init__(self, snapshot: Snapshot, directory: Path | None, images: str | None) -> None:
        self.snapshot, self.directory, self.given = snapshot, directory, images

    @functools.cached_property
    def source(self) -> RunImages:
        """Where the images are."""
        if self.directory is None and self.given is None:
            return RunImages({"roots": self._roots()})
        manifest = None if self.directory is None else read_json(self.directory / "run.json")
        sources = manifest.get("sources") if isinstance(manifest, dict) else None
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

"""Images of the samples of a run, shown with its scores table."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from hardsight.data.degradation import Degradation, degrade
from hardsight.data.run_images import RunImages
from hardsight.errors import HardsightError
from hardsight.files.reading import read_json
from hardsight.snapshot import Snapshot

COLUMNS = ("id", "path", "base_id", "degradation", "level")


class RunPictures:
    """Images by id, read on demand."""

    def __init__(self, snapshot: Snapshot, directory: Path | None, images: str | None) -> None:
        self.snapshot, self.directory, self.given = snapshot, directory, images

    @functools.cached_property
    def source(self) -> RunImages:
        """Where the images are."""
        manifest = None if self.directory is None else read_json(self.directory / "run.json")
        sources = manifest.get("sources") if isinstance(manifest, dict) else None
        return RunImages(sources if isinstance(sources, dict) else {}, self.directory, self.given)

    @functools.cached_property
    def columns(self) -> pa.Table:
        """The columns that locate a sample's image."""
        return self.snapshot.columns([name for name in COLUMNS if name in self.snapshot.column_names])

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
    """Where to find the images of a snapshot's samples; None for arrays, which have none."""
    path = (snapshot.loaded_from or {}).get("path")
    directory = path if isinstance(path, Path) and path.is_dir() else None
    image_path = str(images) if isinstance(images, (str, Path)) else None
    return RunPictures(snapshot, directory, image_path) if directory is not None or image_path is not None else None

"""What every export needs: the samples with all their columns, the folder to write to, and every sample's image as a file.

Images that are files stay where they are. Those that come from arrays, and degraded copies, are written as PNG.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from hardsight.data import BrokenImage
from hardsight.data.decoding import FORMATS
from hardsight.errors import FileError, InputError
from hardsight.explorer.display import Display
from hardsight.explorer.thumbnails import Pictures
from hardsight.files.reading import read_json
from hardsight.files.writing import TEMPORARY, write_json, writing
from hardsight.labels import distinct_names
from hardsight.table import HARDNESS
from hardsight.version import VERSION

CLASSES = ("label", "predicted", "suggested_label", "suggestion")  # columns of class indices
MARKER = ".hardsight-export.json"  # marks the folder of an export: no other folder is overwritten
DIGITS = 7  # of a number in JSON: the columns are float32


@dataclass
class Material:
    """Samples to export."""

    display: Display
    pictures: Pictures
    rows: np.ndarray  # (m,) of the display
    table: pa.Table  # (m rows) id, path, classes by index, scores, verdicts, marks
    folder: Path
    image_url: str | None = None
    push: str | None = None  # a dataset of the Hub to upload to
    notes: list[str] = field(default_factory=list)  # for the user, one sentence each

    def __post_init__(self) -> None:
        self.class_names = distinct_names(self.display.class_names)

    def samples(self) -> Iterator[dict[str, Any]]:
        """Each sample's values for JSON: classes by name, nulls left out."""
        table = self.table.drop_columns([name for name in self.table.column_names if name.removesuffix("_name") in CLASSES])
        classes = {name: self.table.column(name).to_pylist() for name in CLASSES if name in self.table.column_names}
        for index, row in enumerate(table.to_pylist()):
            named = {name: self.class_names[codes[index]] for name, codes in classes.items() if codes[index] is not None}
            yield {name: json_value(value) for name, value in {**row, **named}.items() if json_value(value) is not None}

    def labels(self) -> np.ndarray:
        """(m,) given class, -1 for unlabeled."""
        return self.display.labels[self.rows]

    def hardest_first(self) -> np.ndarray:
        """(m,) rows of the table, hardest first by the score that the explorer sorts by; those without it last."""
        rank = np.full(len(self.display), len(self.display))  # (n,)
        hardest = self.display.hardest()
        rank[hardest] = np.arange(len(hardest))
        return np.argsort(rank[self.rows], kind="stable")


def json_value(value: Any) -> Any:
    """A value for JSON, rounded to the digits of float32; None for NaN and infinities."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def default_folder(run: Path | None, tool: str) -> Path:
    """Next to the run or the file: photo-coco for photo.npz; table-coco for a table in memory."""
    path = Path("table" if run is None else run).resolve()
    return path.parent / f"{path.name if path.is_dir() else path.stem}-{tool}"


def check_folder(folder: Path, tool: str, run: Path | None) -> None:
    """Refuse a folder that contains the run, or anything but an earlier export to the same tool. Nothing is created."""
    if run is not None and Path(os.path.realpath(run)).is_relative_to(os.path.realpath(folder)):
        raise FileError(f"{folder} holds {run}, the input of this command; give another -o.")
    with writing(folder, "could not be read"):
        if os.path.lexists(folder) and not folder.is_dir():
            what = "a file; an export is a folder" if folder.exists() else "a link to nothing"
            raise FileError(f"{folder} is {what}. Give another -o.")
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [name for name in names if not TEMPORARY.fullmatch(name)]  # of a killed export: removed by the next write
    if not names:
        return
    if MARKER not in names:
        raise FileError(f"{folder} is not empty and not an earlier export (it holds {names[0]}); give another -o.")
    marker = read_json(folder / MARKER)
    before = marker.get("tool") if isinstance(marker, dict) else None
    if before != tool:
        raise FileError(f"{folder} holds an export to {before}, not to {tool}; give another -o.")


def claim_folder(folder: Path, tool: str, name: str, hardness: bool = False) -> None:
    """Create the folder, and mark it as an export."""
    make_folder(folder)
    view = {"as": HARDNESS} if hardness else {}
    write_json(folder / MARKER, {"tool": tool, "run": name, "hardsight": VERSION, **view})


def make_folder(folder: Path) -> Path:
    """Create a folder, unless it is there already."""
    with writing(folder, "could not be created"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_samples(material: Material, tool: str, needs: tuple[str, ...]) -> None:
    """The samples have the probabilities, the labels and the images that a tool needs; images come from another folder."""
    where = material.display.where
    if "probabilities" in needs and material.display.snapshot is None:
        raise InputError(
            f"{where}: {tool} needs probabilities, and there are none; "
            "export the run or the snapshot that the scores were made from."
        )
    if "labels" in needs and not (material.labels() >= 0).any():
        raise InputError(f"{where}: an export to {tool} needs labels, and no sample has one.")
    if "images" in needs:
        refuse_inside(material, [Path(root) for root in located(material.pictures).roots])


# Images

WRITTEN = re.compile(r"[0-9]{6,}\.png")  # names of images that an export writes


@dataclass(frozen=True)
class SampleImages:
    """A folder, and each sample's image file below it."""

    root: Path
    files: list[Path | None]  # (m,) None where there is no image
    written: bool  # whether this export wrote them

    def name(self, index: int) -> str:
        """The posix path of a sample's image, below the root."""
        file = self.files[index]
        assert file is not None
        return file.relative_to(self.root).as_posix()


def located(pictures: Pictures) -> Pictures:
    """The pictures, refused where it is not known where they are."""
    if not pictures.any:
        raise InputError(f"{pictures.display.where} does not say where its images are; give --images.")
    return pictures


def refuse_inside(material: Material, paths: list[Path]) -> None:
    """Refuse to read images from the folder in which images are written and removed."""
    folder = material.folder.resolve()
    if any(path.is_relative_to(folder) for path in paths):
        raise InputError(f"{material.folder} contains the images to export; give another -o.")


def find_images(material: Material, folder: str = "images") -> SampleImages:
    """Every sample's image file; those that are not files yet are written to `folder`, inside the export."""
    files = _existing_files(material)
    refuse_inside(material, [file for file in files or [] if file is not None])
    _clear(material.folder / folder)
    found = SampleImages(_common_root(material, files), files, False) if files is not None else _written(material, folder)
    missing = sum(file is None for file in found.files)
    if missing == len(found.files):
        first = material.pictures.trouble(int(material.rows[0]))
        raise InputError(
            f"{material.display.where}: none of the {missing} images can be read (the first: {first}); "
            "give --images with images of the same ids or paths."
        )
    if missing:
        material.notes.append(f"{missing} of {len(found.files)} samples have no image that can be read and are left out.")
    return found


def _existing_files(material: Material) -> list[Path | None] | None:
    """(m,) the image files that exist; None if an image is not a file."""
    files: list[Path | None] = []
    for row in material.rows:
        try:
            file = material.pictures.file(int(row))
        except BrokenImage:
            files.append(None)
            continue
        if file is None:
            return None
        files.append(file)
    return files


def _common_root(material: Material, files: list[Path | None]) -> Path:
    roots = [root for root in material.pictures.roots if all(file is None or file.is_relative_to(root) for file in files)]
    return Path(roots[0] if roots else os.path.commonpath(material.pictures.roots))


def _clear(folder: Path) -> None:
    """Remove the images of an earlier export: tools open whatever is in the folder."""
    with writing(folder):
        for file in folder.glob("*.png") if folder.is_dir() else ():
            if WRITTEN.fullmatch(file.name):
                file.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _written(material: Material, name: str) -> SampleImages:
    folder = make_folder(material.folder / name)
    files: list[Path | None] = []
    for index, row in enumerate(material.rows):
        file = folder / f"{index:06d}.png"
        try:
            with writing(folder):  # many small files that the same command writes again: no need to flush each
                file.write_bytes(png(material.pictures.image(int(row))))
            files.append(file)
        except BrokenImage:
            files.append(None)
    return SampleImages(material.folder, files, True)


def png(image: Image.Image) -> bytes:
    """An image as PNG."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def image_size(file: Path) -> tuple[int, int] | None:
    """Width and height from the header; None if it is not an image."""
    try:
        with Image.open(file, formats=FORMATS) as picture:
            return picture.size
    except Exception:  # a plugin may raise anything on bytes made to confuse it
        return None

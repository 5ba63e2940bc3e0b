"""Every sample's image as a file, for tools that read files.

Images that are files stay where they are. Those that come from arrays, and degraded copies, are written as PNG.
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from hardsight.data import BrokenImage
from hardsight.data.decoding import FORMATS
from hardsight.errors import FileError, InputError
from hardsight.explorer.thumbnails import Pictures
from hardsight.exporting.samples import Material, make_folder
from hardsight.files.writing import why

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
    roots = [Path(root) for root in material.pictures.roots]
    existing = [file for file in files if file is not None]
    for root in roots:
        if all(file.is_relative_to(root) for file in existing):
            return root
    return Path(os.path.commonpath(roots))


def _clear(folder: Path) -> None:
    """Remove the images of an earlier export: tools open whatever is in the folder."""
    try:
        for file in folder.glob("*.png") if folder.is_dir() else ():
            if WRITTEN.fullmatch(file.name):
                file.unlink()
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise FileError(f"{folder} could not be written: {why(error)}") from error


def _written(material: Material, name: str) -> SampleImages:
    folder = make_folder(material.folder / name)
    files: list[Path | None] = []
    for index, row in enumerate(material.rows):
        file = folder / f"{index:06d}.png"
        try:  # many small files that the same command writes again: no need to flush each
            file.write_bytes(png(material.pictures.image(int(row))))
            files.append(file)
        except BrokenImage:
            files.append(None)
        except OSError as error:
            raise FileError(f"{folder} could not be written: {why(error)}") from error
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

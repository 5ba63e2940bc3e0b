"""A folder of images, on a disk or in a store (s3:// and its like): class folders, or domain/class folders.

Images in a store are listed once and fetched one by one; nothing is kept on the disk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage, Needed, decode
from hardsight.data.files import UNREAD, ImageFiles, hash_lines, is_image_name, unread_note
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import Place, Remote, place, utf8_name


def read_folder(root: Place, level: int | None = None) -> ImageData:
    """Every image below root, sorted by path; `layout` reads what the folders mean."""
    listed = _listed(root) if isinstance(root, Remote) else [(path, 0, 0) for path in _walk(str(root))]
    found = sorted(entry for entry in listed if is_image_name(entry[0]))
    paths = [path for path, _, _ in found]
    if not found:
        what = "" if isinstance(root, Remote) else f" It holds: {_holds(root)}."
        raise InputError(f"{root}: a data folder must hold images (.jpg, .png, .webp, ...) at some depth, found none.{what}")
    images: Any = RemoteImages(root.uri, found) if isinstance(root, Remote) else ImageFiles.below(root, paths)
    layout = read_layout(paths, level)
    names = [utf8_name(path) for path in paths]
    return ImageData(
        kind="folder",
        ids=names,
        images=images,
        labels=layout.labels,
        class_names=layout.class_names,
        columns={"path": names, **layout.columns},
        roots=[] if isinstance(root, Remote) else [Path(os.path.realpath(root))],
        notes=layout.notes + unread_note(path for path, _, _ in listed),
    )


@dataclass(frozen=True)
class RemoteImages:
    """Image files below a folder of a store, as they were when it was listed."""

    root: str  # the whole URI: a worker opens it again
    files: list[tuple[str, int, int]]  # path below the root, size, time

    def __len__(self) -> int:
        return len(self.files)

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Fetch and decode the image of one row."""
        name, root = self.files[row][0], place(self.root)
        try:
            with (root / name).open("rb") as file:
                content = file.read()
        except (FileError, OSError) as error:
            raise BrokenImage("missing" if "does not exist" in str(error) else "unreadable", name, str(error)) from error
        return decode(io.BytesIO(content), name, needed)

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over the sorted (id, size, time of change) of the files."""
        states = (self.files[row] for row in rows)
        return hash_lines(f"{id}\0{size}\0{time}\n" for id, (_, size, time) in zip(ids, states, strict=True))


def _listed(root: Remote) -> list[tuple[str, int, int]]:
    """Path, size and time of all files of a store below root. Hidden files and folders are left out."""
    return [entry for entry in root.files_below() if "/." not in f"/{entry[0]}"]


def _walk(root: str) -> list[str]:
    """Posix paths below root of all files. Hidden files and folders are left out."""
    real_root = os.path.realpath(root)
    files: list[str] = []
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except OSError as error:
            raise FileError(f"{utf8_name(os.path.join(root, folder))}: cannot be listed ({error.strerror}).") from error
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name != "__MACOSX":
                    waiting.append(path)
            elif entry.is_symlink() and entry.is_dir():
                _check_link(entry.path, real_root)
            elif not entry.name.startswith("."):
                files.append(path)
    return files


def _check_link(link: str, root: str) -> None:
    """A linked folder inside the root is already read under its own name; one outside would be lost silently."""
    target = os.path.realpath(link)
    if os.path.commonpath([root, target]) != root:
        raise InputError(
            f"{utf8_name(link)}: links may not lead out of the data folder, this one leads to {utf8_name(target)}. "
            "Copy or mount the images inside, or pass the folder it leads to."
        )


def _holds(root: Path) -> str:
    names = sorted(utf8_name(name) for name in os.listdir(root))
    listed = (", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")) or "nothing"
    unread = next((name for _, _, files in os.walk(root) for name in files if name.lower().endswith(UNREAD)), None)
    return listed if unread is None else f"{listed}. Files such as {utf8_name(unread)} are not read: convert them to JPEG or PNG"

"""A folder of images: class folders, domain/class folders, or image_list.txt files with the labels."""

from __future__ import annotations

import os
from pathlib import Path

from hardsight.data.dataset import ImageData
from hardsight.data.files import UNREAD, ImageFiles, is_image_name, unread_note
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import utf8_name


def read_folder(root: Path, level: int | None = None) -> ImageData:
    """Every image below root, sorted by path; `layout` reads what the folders mean."""
    files = _walk(str(root))
    paths = sorted(filter(is_image_name, files))
    if not paths:
        raise InputError(
            f"{root}: a data folder must hold images (.jpg, .png, .webp, ...) at some depth, found none. "
            f"It holds: {_holds(root)}."
        )
    layout = read_layout(paths, level)
    names = [utf8_name(path) for path in paths]
    return ImageData(
        kind="folder",
        ids=names,
        images=ImageFiles.below(root, paths),
        labels=layout.labels,
        class_names=layout.class_names,
        columns={"path": names, **layout.columns},
        roots=[Path(os.path.realpath(root))],
        notes=layout.notes + unread_note(files),
    )


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

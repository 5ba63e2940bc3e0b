"""Image files below one root, and folders of them: class folders, or domain/class folders, on a disk or in a store (s3://, ...).

On a disk no name, link or list entry leads out of the root. Images in a store are listed once and fetched one by one; nothing is
kept on the disk.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import SUFFIXES, BrokenImage, Needed, decode
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import Place, Remote, place, utf8_name
from hardsight.screen import first_few

UNREAD = (".heic", ".heif", ".avif", ".raw", ".cr2", ".nef", ".dng", ".dcm", ".svg")  # pictures that are not opened


def is_image_name(name: str) -> bool:
    """Whether the name ends like an image's and is not hidden (`.name`, as some systems leave beside each file)."""
    file = name.rpartition("/")[2]
    return not file.startswith(".") and os.path.splitext(file)[1].lower() in SUFFIXES


def unread_note(names: Iterable[str]) -> tuple[str, ...]:
    """A note that counts the pictures among these files that are not read; empty if there are none.

    Example:
        >>> unread_note(["a.jpg", "b.HEIC", "c.heic", "d.avif"])
        ('3 pictures are not read (2 .heic, 1 .avif): convert them to JPEG or PNG.',)
    """
    endings = Counter(os.path.splitext(name)[1].lower() for name in names)
    counted = {ending: endings[ending] for ending in UNREAD if endings[ending]}
    if not counted:
        return ()
    n, each = sum(counted.values()), ", ".join(f"{count:,} {ending}" for ending, count in counted.items())
    return (f"{n:,} picture{'s are' if n > 1 else ' is'} not read ({each}): convert {'them' if n > 1 else 'it'} to JPEG or PNG.",)


def path_below(root: str, text: str, where: str) -> str:
    """A path from a list or table as a posix path below root, or an InputError that says where.

    Relative paths are read from the root. An absolute one must lie below it. `..`, URLs, drive letters and network
    shares are refused. Links are checked when the file is read.

    Example:
        >>> path_below("/data", "./cat//1.png", "row 0")
        'cat/1.png'
    """
    if not text:
        raise InputError(f"{where}: the path is empty.")
    if "\0" in text or re.match(r"(?i)[a-z][a-z0-9+.-]*:[\\/]|file:|data:|\\\\|//", text):
        raise _refused(where, text, "a URL, a drive, a network share or no path at all")
    if ".." in re.split(r"[\\/]", text):
        raise _refused(where, text, "it goes up with `..`")
    if os.path.isabs(text):
        if os.path.commonpath([root, os.path.normpath(text)]) == root:
            text = os.path.relpath(text, root)
        elif os.path.commonpath([root, os.path.realpath(text)]) == root:  # the root itself was named through a link
            text = os.path.relpath(os.path.realpath(text), root)
        else:
            raise _refused(where, text, "it lies outside")
    return os.path.normpath(text).replace(os.sep, "/")


def _refused(where: str, text: str, why: str) -> InputError:
    return InputError(
        f"{where}: a path must name a file below the folder of the file that lists it, got {utf8_name(text)!r} ({why}). "
        "Write it relative to that folder, or move the listing to a folder above the images."
    )


@dataclass(frozen=True)
class ImageFiles:
    """Images as files: a root (real, absolute) and posix paths below it, as the file system spells them."""

    root: str
    paths: list[str]

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Decode the image of one row; BrokenImage if that fails or the file is outside the root."""
        name, real = utf8_name(self.paths[row]), os.path.realpath(os.path.join(self.root, self.paths[row]))
        if os.path.commonpath([self.root, real]) != self.root:
            raise BrokenImage("outside_root", name)
        # real holds no link any more; if one is put there meanwhile, NOFOLLOW refuses it. NONBLOCK: a pipe does not hang.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            if not stat.S_ISREG(os.stat(real).st_mode):
                raise BrokenImage("not_a_file", name)
            handle = os.open(real, flags)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BrokenImage("missing", name) from error
        except OSError as error:
            raise BrokenImage("unreadable", name, error.strerror or str(error)) from error
        with os.fdopen(handle, "rb") as stream:
            return decode(stream, name, needed)

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over the sorted (id, size, time of change) of the files; a missing one has size -1."""
        lines = []
        for id, row in zip(ids, rows, strict=True):
            try:
                stat = os.stat(os.path.join(self.root, self.paths[row]))
                lines.append(f"{id}\0{stat.st_size}\0{stat.st_mtime_ns}\n")
            except OSError:
                lines.append(f"{id}\0-1\0-1\n")
        return hash_lines(lines)


def hash_lines(lines: Iterable[str]) -> str:
    """sha256 of lines in sorted order."""
    digest = hashlib.sha256()
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def read_folder(root: Place, level: int | None = None) -> ImageData:
    """Every image below root, sorted by path; `layout` reads what the folders mean."""
    listed = _listed(root) if isinstance(root, Remote) else [(path, 0, 0) for path in _walk(str(root))]
    found = sorted(entry for entry in listed if is_image_name(entry[0]))
    paths = [path for path, _, _ in found]
    if not found:
        what = "" if isinstance(root, Remote) else f" It holds: {_holds(root)}."
        raise InputError(f"{root}: a data folder must hold images (.jpg, .png, .webp, ...) at some depth, found none.{what}")
    images: Any = RemoteImages(root.uri, found) if isinstance(root, Remote) else ImageFiles(os.path.realpath(root), paths)
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
    files: list[str] = []
    for folder, folders, names in os.walk(root, onerror=_refuse_unlisted):
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in folders:
            if os.path.islink(os.path.join(folder, name)):
                _check_link(os.path.join(folder, name), os.path.realpath(root))
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__MACOSX"]
        files += [name if below == "." else f"{below}/{name}" for name in names if not name.startswith(".")]
    return files


def _refuse_unlisted(error: OSError) -> None:
    raise FileError(f"{utf8_name(error.filename)}: cannot be listed ({error.strerror}).") from error


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
    listed = first_few(names) or "nothing"
    unread = next((name for _, _, files in os.walk(root) for name in files if name.lower().endswith(UNREAD)), None)
    return listed if unread is None else f"{listed}. Files such as {utf8_name(unread)} are not read: convert them to JPEG or PNG"

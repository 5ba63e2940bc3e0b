"""Image files below one root. No name, link or list entry leads out of it, and nothing is ever fetched."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from hardsight.data.decoding import SUFFIXES, BrokenImage, Needed, decode
from hardsight.errors import InputError
from hardsight.files.places import utf8_name

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

    @classmethod
    def below(cls, root: Path, paths: Iterable[str]) -> ImageFiles:
        """Files at posix paths relative to root, whose links are resolved once."""
        return cls(os.path.realpath(root), list(paths))

    def __len__(self) -> int:
        return len(self.paths)

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

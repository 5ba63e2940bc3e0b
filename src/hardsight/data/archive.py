"""A .tar of images, read in place: an index of the members' positions, then one read per image."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage, decode
from hardsight.data.files import hash_lines, is_image_name
from hardsight.data.labels import split_name
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import utf8_name


@dataclass(frozen=True)
class Member:
    """Position of one file in the archive."""

    name: str
    offset: int
    size: int
    mtime: float


@dataclass(frozen=True)
class TarImages:
    """Images inside an uncompressed tar."""

    archive: str
    members: list[Member]
    seen: tuple[int, int]  # size and time of the archive when it was indexed

    def __len__(self) -> int:
        return len(self.members)

    def take(self, rows: Sequence[int]) -> TarImages:
        """The images of these rows, in this order."""
        return TarImages(self.archive, [self.members[row] for row in rows], self.seen)

    def image(self, row: int) -> Image.Image:
        """Decode the image of one row."""
        member = self.members[row]
        try:
            with open(self.archive, "rb") as archive:  # opened each time: workers and threads share no position
                if _state(os.fstat(archive.fileno())) != self.seen:
                    raise FileError(f"{self.archive}: the archive changed while it was read. Start again once it is complete.")
                archive.seek(member.offset)
                content = archive.read(member.size)
        except OSError as error:
            raise BrokenImage("missing", member.name, error.strerror or str(error)) from error
        return decode(io.BytesIO(content), member.name)

    def digest(self, ids: Sequence[str]) -> str:
        """sha256 over the sorted (id, size, time) that the archive records for its members: a copy has the same hash."""
        return hash_lines(f"{id}\0{m.size}\0{m.mtime}\n" for id, m in zip(ids, self.members, strict=True))


def read_tar(path: Path, level: int | None = None) -> ImageData:
    """Every image in the tar, sorted by name; folders inside mean what they mean on disk.

    Ids are the names as if the tar were unpacked and its one top folder, if it has one, opened as data.
    """
    seen = _state(os.stat(path))
    members = sorted(_index(path).values(), key=lambda member: member.name)
    if not members:
        raise InputError(f"{path}: a data archive must hold images (.jpg, .png, .webp, ...), found none.")
    ids = _without_top([member.name for member in members])
    layout = read_layout(ids, level)
    return ImageData(
        kind="tar",
        ids=ids,
        images=TarImages(os.path.abspath(path), members, seen),
        labels=layout.labels,
        class_names=layout.class_names,
        columns=dict(layout.columns),
        notes=layout.notes,
    )


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def _index(path: Path) -> dict[str, Member]:
    """Image members by name; as tar has it, a later member replaces an earlier one of the same name."""
    end = path.stat().st_size
    members: dict[str, Member] = {}
    try:
        with tarfile.open(path, "r:", encoding="utf-8") as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                if not is_image_name(name) or re.search(r"(^|/)\.(?!\./)", name):  # hidden folders are left out, as on disk
                    continue
                if name.startswith("/") or ".." in name.split("/"):
                    raise InputError(f"{path}: names inside must be relative, without `..`, got {utf8_name(info.name)!r}.")
                if info.islnk() or info.issym():
                    raise InputError(
                        f"{path}: links inside a tar are not followed, and {utf8_name(info.name)!r} is one. "
                        "Create it again with tar --dereference --hard-dereference."
                    )
                if info.isreg() and not info.issparse():
                    if info.offset_data + info.size > end:
                        raise FileError(f"{path}: the archive ends inside {utf8_name(info.name)!r}; it is truncated.")
                    members[name] = Member(utf8_name(name), info.offset_data, info.size, info.mtime)
    except tarfile.TarError as error:
        hint = " Compressed archives cannot be read in place: decompress it to a plain .tar first."
        packed = path.name.lower().endswith((".gz", ".tgz", ".bz2", ".xz", ".zst"))
        raise FileError(f"{path}: not a readable tar ({error}).{hint if packed else ''}") from error
    return members


def _without_top(names: list[str]) -> list[str]:
    """Names without the one folder that holds everything, as long as class folders remain below it."""
    top = names[0].partition("/")[0]
    wrapped = all(name.startswith(f"{top}/") and name.count("/") > 1 for name in names)
    return [name[len(top) + 1 :] for name in names] if wrapped and split_name(top) is None else names

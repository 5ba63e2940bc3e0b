"""Tars of images, read in place: an index of the members' positions, then one read per image.

Also the shards of a WebDataset, `train-{000..012}.tar`: files of one sample share their name up to the first dot, and
`key.cls` holds the class. Only the index is in memory, whatever the size of the shards.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from PIL import Image

from hardsight.data.dataset import ImageData
from hardsight.data.decoding import BrokenImage, Needed, decode
from hardsight.data.files import hash_lines, is_image_name
from hardsight.data.labels import read_labels, split_name
from hardsight.data.layout import Layout, read_layout
from hardsight.errors import FileError, InputError
from hardsight.files.places import Place, Remote, address, place, utf8_name
from hardsight.files.reading import FileState, file_state
from hardsight.labels import Written

LONGEST_CLASS = 1000  # bytes of a .cls file
MOST_SHARDS = 100_000


@dataclass(frozen=True)
class Member:
    """Position of one file in its archive."""

    name: str
    offset: int
    size: int
    mtime: float
    archive: int = 0


@dataclass(frozen=True)
class TarImages:
    """Images inside uncompressed tars."""

    archives: list[str]
    members: list[Member]
    seen: list[FileState]  # of each archive when it was indexed

    def image(self, row: int, needed: Needed | None = None) -> Image.Image:
        """Decode the image of one row."""
        member = self.members[row]
        archive = place(self.archives[member.archive])
        try:
            if file_state(archive) != self.seen[member.archive]:
                raise FileError(f"{archive}: the archive changed while it was read. Start again once it is complete.")
            content = _part(archive, member.offset, member.size)
        except OSError as error:
            raise BrokenImage("missing", member.name, error.strerror or str(error)) from error
        return decode(io.BytesIO(content), member.name, needed)

    def digest(self, ids: Sequence[str], rows: Sequence[int]) -> str:
        """sha256 over the sorted (id, size, time) that the archive records for its members: a copy has the same hash."""
        members = (self.members[row] for row in rows)
        return hash_lines(f"{id}\0{member.size}\0{member.mtime}\n" for id, member in zip(ids, members, strict=True))


def _part(path: Place, offset: int, size: int) -> bytes:
    """Some bytes of a file, which is opened each time: workers and threads share no position."""
    if isinstance(path, Remote):
        return path.read_at(offset, size)
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def read_tars(paths: Sequence[Place], level: int | None = None) -> ImageData:
    """The images of one or more tars, shard by shard, each sorted by name.

    Folders inside mean what they mean on disk, unless `.cls` files say more. Ids are the names as if the tars were unpacked
    and their one top folder, if there is one, opened as data.
    """
    members: list[Member] = []
    classes: dict[tuple[int, str], str] = {}  # by shard and key
    states = [file_state(path) for path in paths]
    for number, path in enumerate(paths):
        indexed, texts = _index(path, number)
        members += sorted(indexed.values(), key=lambda member: member.name)
        classes |= {(number, key): text for key, text in texts.items()}
    if not members:
        raise InputError(f"{paths[0]}: a data archive must hold images (.jpg, .png, .webp, ...), found none.")
    ids = _without_top([member.name for member in members])
    layout = read_layout(ids, level) if level is not None or not classes else _of_classes(members, classes, paths)
    return ImageData(
        kind="tar",
        ids=_unique(ids, members, paths),
        images=TarImages([address(path) for path in paths], members, states),
        labels=layout.labels,
        class_names=layout.class_names,
        columns={**_splits(members, paths), **layout.columns},
        notes=layout.notes,
    )


def _of_classes(members: Sequence[Member], classes: dict[tuple[int, str], str], paths: Sequence[Place]) -> Layout:
    """Labels from .cls files: numbers counted from 0, or names; an image without one is unlabeled."""
    texts = [classes.get((member.archive, _key(member.name))) for member in members]
    labels = read_labels(Written(texts), lambda row: f"{paths[members[row].archive]}, class of {members[row].name!r}")
    return Layout(labels.numbers, labels.class_names, {}, labels.notes)


def _splits(members: Sequence[Member], paths: Sequence[Place]) -> dict[str, list[str | None]]:
    """The split that the names of shards begin with, where every one does: train-000.tar."""
    if len(paths) == 1:
        return {}
    splits = [split_name(re.split(r"[-_.]", path.name)[0]) for path in paths]
    return {} if None in splits else {"split": [splits[member.archive] for member in members]}


def _unique(ids: list[str], members: Sequence[Member], paths: Sequence[Place]) -> list[str]:
    """Ids with the name of their shard before them, where two shards have the same names."""
    if len(paths) == 1 or len(set(ids)) == len(ids):
        return ids
    shards = [utf8_name(path.name.removesuffix(".tar")) for path in paths]
    if len(set(shards)) < len(shards):
        raise InputError(
            f"shards must have different names, but {Counter(shards).most_common(1)[0][0]}.tar appears more than once."
        )
    return [f"{shards[member.archive]}/{id}" for id, member in zip(ids, members, strict=True)]


def expand_braces(text: str) -> list[str]:
    """The names that a pattern of shards stands for: {000..012} counts, {a,b} lists.

    Example:
        >>> expand_braces("s3://bucket/train-{08..10}.tar")
        ['s3://bucket/train-08.tar', 's3://bucket/train-09.tar', 's3://bucket/train-10.tar']
    """
    braces = re.search(r"\{(?:(?P<first>[0-9]{1,9})\.\.(?P<last>[0-9]{1,9})|(?P<words>[^{}]*,[^{}]*))\}", text)
    if braces is None:
        return [text]
    if braces["words"] is not None:
        middle = braces["words"].split(",")
    else:
        first, last, width = int(braces["first"]), int(braces["last"]), len(braces["first"])
        if not first <= last < first + MOST_SHARDS:
            raise InputError(f"{text}: a pattern of shards counts upwards, as in {{000..012}}, got {braces[0]}.")
        middle = [f"{number:0{width}d}" for number in range(first, last + 1)]
    tails = expand_braces(text[braces.end() :])
    return [f"{text[: braces.start()]}{word}{tail}" for word in middle for tail in tails]


def _index(path: Place, number: int = 0) -> tuple[dict[str, Member], dict[str, str]]:
    """Image members by name, and the text of .cls files by key; as tar has it, a later member replaces an earlier one."""
    end = path.stat().st_size
    members: dict[str, Member] = {}
    classes: dict[str, str] = {}
    try:
        with path.open("rb") as file:
            for info in _infos(file):
                name = info.name.removeprefix("./")
                image = is_image_name(name)
                if not (image or name.endswith(".cls")) or re.search(r"(^|/)\.(?!\./)", name):  # hidden: left out, as on disk
                    continue
                _check_member(path, info, end)
                if image and info.isreg() and not info.issparse():
                    members[name] = Member(utf8_name(name), info.offset_data, info.size, info.mtime, number)
                elif info.isreg():
                    classes[_key(utf8_name(name))] = _class_text(path, file, info)
    except tarfile.TarError as error:
        hint = " Compressed archives cannot be read in place: decompress it to a plain .tar first."
        packed = path.name.lower().endswith((".gz", ".tgz", ".bz2", ".xz", ".zst"))
        raise FileError(f"{path}: not a readable tar ({error}).{hint if packed else ''}") from error
    return members, classes


def _infos(file: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """Headers one after the other; those that were read are not kept."""
    with tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]
            yield info


def _check_member(path: Place, info: tarfile.TarInfo, end: int) -> None:
    name = info.name.removeprefix("./")
    if name.startswith("/") or ".." in name.split("/"):
        raise InputError(f"{path}: names inside must be relative, without `..`, got {utf8_name(info.name)!r}.")
    if info.islnk() or info.issym():
        raise InputError(
            f"{path}: links inside a tar are not followed, and {utf8_name(info.name)!r} is one. "
            "Create it again with tar --dereference --hard-dereference."
        )
    if info.isreg() and not info.issparse() and info.offset_data + info.size > end:
        raise FileError(f"{path}: the archive ends inside {utf8_name(info.name)!r}; it is truncated.")


def _class_text(path: Place, file: IO[bytes], info: tarfile.TarInfo) -> str:
    """What a .cls file holds: one short text."""
    if info.size > LONGEST_CLASS:
        raise InputError(f"{path}: {utf8_name(info.name)!r} must hold one class, and has {info.size} bytes.")
    position = file.tell()
    file.seek(info.offset_data)
    text = file.read(info.size).decode("utf-8", "backslashreplace").strip()
    file.seek(position)
    return text


def _key(name: str) -> str:
    """What the files of one sample share: the path up to the first dot of the name."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


def _without_top(names: list[str]) -> list[str]:
    """Names without the one folder that holds everything, as long as class folders remain below it."""
    top = names[0].partition("/")[0]
    wrapped = all(name.startswith(f"{top}/") and name.count("/") > 1 for name in names)
    return [name[len(top) + 1 :] for name in names] if wrapped and split_name(top) is None else names

"""Checksums, to detect damaged files.

A run's `run.json` lists the sha256 of each of its files. Standalone files and files added later carry their own, in a
seal of 98 bytes, in a spot that the format leaves free and other tools ignore:

    .parquet        between the last page and the footer
    .npz            the comment of the zip archive
    .safetensors    an entry of the metadata, `checksum`
    .json           the last field, `checksum` (run.json)
    .html           a comment at the end

A seal holds the sha256 of the whole file with the seal's own 64 digits read as zeros, so it covers headers and footers.
Readers call `check`, which reads an unchanged file once per process. Files from other tools have no seal and pass.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import IO, Any, NamedTuple

from hardsight.errors import FileError
from hardsight.files.places import Place, Remote, kind_by_name

MARK = b"hardsight-sha256"
ZEROS = b"0" * 64
UNSEALED = b"%b=%b=%b" % (MARK, ZEROS, MARK)  # placeholder for the seal
SEAL = re.compile(b"%b=([0-9a-f]{64})=%b" % (MARK, MARK))
TAIL = 256  # bytes at the end of a file in which to look for its seal
LARGEST_HEADER = 100 * 2**20  # of safetensors
BLOCK = 2**20
SETTLED = 2 * 10**9  # nanoseconds: a newer file could change again within one tick of its clock
LEVELS = 6  # directories between a file and its run.json
NOT_AS_LISTED = "damaged, or changed since it was written: it does not match the checksum in its run.json"
NOT_AS_SEALED = "damaged, or changed since it was written: it does not match its own checksum"
NO_CHECKSUM = "run.json does not list it, and it has no checksum"


class Entry(NamedTuple):
    """The entry of a file in a run.json. A file that is not a part may have been rewritten by a later command."""

    sha256: str
    part: bool


def check(path: Place) -> None:
    """Check that a file is unchanged: it matches the `run.json` that lists it, or its embedded checksum.

    Remote files are not read twice for this; `hardsight verify` does that.
    """
    if isinstance(path, Remote) or not path.is_file():
        return
    try:
        stamp = _stamp(path)
        if stamp in _sound:
            return
        fault = fault_in(path, find_entry(path))
        if fault not in (None, NO_CHECKSUM):
            raise FileError(f"{path}: {fault}.")
        if _stamp(path) == stamp and _settled(path):
            _sound.add(stamp)
    except OSError as error:
        raise FileError(f"{path} could not be read: {error.strerror or error}.") from error


def fault_in(path: Path, entry: Entry | None) -> str | None:
    """What is wrong with a file, by its entry in a run.json or else by its embedded checksum; None if nothing is.

    NO_CHECKSUM if it has neither.
    """
    if entry is not None and sha256(path) == entry.sha256:
        return None
    if entry is not None and entry.part:
        return NOT_AS_LISTED
    matches = own_checksum(path)
    if matches is None and entry is None:
        return NO_CHECKSUM
    return None if matches else NOT_AS_SEALED if entry is None else NOT_AS_LISTED


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def own_checksum(path: Path) -> bool | None:
    """Whether a file matches its embedded checksum; None if it has none."""
    with path.open("rb") as file:
        start, content = _around_seal(file, kind_by_name(path))
        found = SEAL.search(content)
        if found is None:
            return False if MARK in content else None
        return _digest(file, start + found.start(1)) == found[1].decode()


def seal(path: Path, kind: str) -> None:
    """Embed a checksum in a complete file, if its format has room for one."""
    with path.open("r+b") as file:
        if kind in MAKE_ROOM:
            MAKE_ROOM[kind](file)
        start, content = _around_seal(file, kind)
        if UNSEALED in content:
            digits = start + content.index(UNSEALED) + UNSEALED.index(ZEROS)
            digest = _digest(file, digits)
            file.seek(digits)
            file.write(digest.encode())


# ---- the files of a run ----


def entries(manifest: Any) -> dict[str, Entry]:
    """The entries of a run.json by file name: its parts, and every other file that existed when the run ended."""
    if not isinstance(manifest, dict):
        return {}
    parts = [(part.get("name"), part.get("sha256")) for part in manifest.get("parts") or [] if isinstance(part, dict)]
    listed = [(*entry, False) for entry in (manifest.get("files") or {}).items()] + [(*entry, True) for entry in parts]
    return {name: Entry(digest, part) for name, digest, part in listed if isinstance(name, str) and isinstance(digest, str)}


def find_entry(path: Path) -> Entry | None:
    """The entry of a file in the nearest run.json above it, resolving links."""
    for name in resolved_names(path):
        for directory in name.parents[:LEVELS]:
            manifest = directory / "run.json"
            if manifest.is_file():
                with contextlib.suppress(OSError):
                    entry = _listing(_stamp(manifest)).get(name.relative_to(directory).as_posix())
                    if entry is not None:
                        return entry
    return None


def resolved_names(path: Path) -> list[Path]:
    """A file under its own name in the resolved directory, and fully resolved: a run may contain links, or be linked to."""
    named, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))
    return list(dict.fromkeys([named, Path(os.path.realpath(path.parent)) / named.name, real]))


Stamp = tuple[str, int, int, int, int]  # path, size, times and inode: any change to a file changes one of these
_sound: set[Stamp] = set()  # files that matched their checksum in this process


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return os.path.abspath(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _settled(path: Path) -> bool:
    stat = path.stat()
    return time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED


@functools.lru_cache(maxsize=64)
def _listing(stamp: Stamp) -> dict[str, Entry]:
    try:
        return entries(json.loads(Path(stamp[0]).read_text(encoding="utf-8")))
    except (ValueError, RecursionError, AttributeError, TypeError):  # the reader of the run will report it
        return {}


# ---- where the seal is ----


def _around_seal(file: IO[bytes], kind: str) -> tuple[int, bytes]:
    """The bytes of a file that hold its seal if it has one, and their offset."""
    size = file.seek(0, os.SEEK_END)
    if kind == "safetensors":
        return 0, _read(file, 0, min(LARGEST_HEADER, max(BLOCK, 8 + _number(file, 0, 8))))
    if kind != "parquet":
        return max(0, size - TAIL), _read(file, size - TAIL, TAIL)
    start = _footer(file) - len(UNSEALED)
    content = _read(file, start, len(UNSEALED))
    if MARK not in content and SEAL.search(_read(file, size - BLOCK, BLOCK)):  # the length of the footer is damaged
        return max(0, size - BLOCK), _read(file, size - BLOCK, BLOCK)
    return max(0, start), content


def _room_in_parquet(file: IO[bytes]) -> None:
    start = _footer(file)
    footer = _read(file, start, -1)
    file.seek(start)
    file.write(UNSEALED + footer)  # pages are located from the start, the footer from the end


def _room_in_zip(file: IO[bytes]) -> None:
    size = file.seek(-22, os.SEEK_END)
    if file.read(4) == b"PK\5\6":  # the end-of-archive record, without a comment yet
        file.seek(size + 20)
        file.write(len(UNSEALED).to_bytes(2, "little") + UNSEALED)


def _room_in_html(file: IO[bytes]) -> None:
    file.seek(0, os.SEEK_END)
    file.write(b"<!-- %b -->\n" % UNSEALED)


MAKE_ROOM = {"parquet": _room_in_parquet, "npz": _room_in_zip, "html": _room_in_html}


def _footer(file: IO[bytes]) -> int:
    """Offset of the footer of a Parquet file, by the length that it claims."""
    size = file.seek(0, os.SEEK_END)
    return max(0, size - 8 - _number(file, size - 8, 4))


def _number(file: IO[bytes], start: int, length: int) -> int:
    return int.from_bytes(_read(file, start, length), "little")


def _read(file: IO[bytes], start: int, length: int) -> bytes:
    file.seek(max(0, start))
    return file.read(length)


def _digest(file: Any, digits: int) -> str:
    """sha256 of a file; the digits of its seal, at that offset, are read as zeros."""
    digest = hashlib.sha256()
    file.seek(0)
    while file.tell() < digits:
        digest.update(file.read(min(BLOCK, digits - file.tell())))
    digest.update(ZEROS)
    file.seek(digits + len(ZEROS))
    return hashlib.file_digest(file, lambda: digest).hexdigest()

"""Checksums, to detect damaged files.

A run's `run.json` lists the sha256 of each of its files. Standalone files and files added later carry their own, in a
seal of 98 bytes, in a spot that the format leaves free and other tools ignore:

    .parquet        between the last page and the footer
    .npz            the comment of the zip archive
    .safetensors    an entry of the metadata, `checksum`
    .json           the last field, `checksum` (run.json)
    .html           a comment at the end

A seal holds the sha256 of the whole file with the seal's own 64 digits read as zeros, so it covers headers and footers.
Readers call `check`. Its result is cached by path, size, time and inode: in this process, and for large files in the
user's cache directory, so that a run opens quickly the second time. Files from other tools have no seal and pass.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from hardsight.errors import FileError
from hardsight.files.formats import kind_by_name
from hardsight.files.places import Place, Remote

MARK = b"hardsight-sha256"
ZEROS = b"0" * 64
UNSEALED = b"%b=%b=%b" % (MARK, ZEROS, MARK)  # placeholder for the seal
SEAL = re.compile(b"%b=([0-9a-f]{64})=%b" % (MARK, MARK))
AFTER_MARK = len(MARK) + 1
TAIL = 256  # bytes at the end of a file in which to look for its seal
LARGEST_HEADER = 100 * 2**20  # of safetensors
BLOCK = 2**20
REMEMBERED = 4 * 2**20  # hashing a smaller file is faster than a cache lookup
SETTLED = 2 * 10**9  # nanoseconds: a newer file could change again within one tick of its clock
LEVELS = 6  # directories between a file and its run.json
MARKS_BESIDE = ".review.parquet"  # a person's marks on photo.npz are in photo.review.parquet
MARKED = (".npz", ".npy", ".parquet", ".pq", ".csv", ".tsv", ".json")
# Commands write these files, and figures/, into a complete run.
WRITTEN_LATER = ("scores.parquet", "suspects.parquet", "labels.parquet", "report.html", "samples.html")

ProgressCallback = Callable[[int], None]  # bytes read


def sha256(path: Path, progress: ProgressCallback | None = None) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return _digest(file, None, progress)


def seal(path: Path, kind: str) -> None:
    """Embed a checksum in a complete file, if its format has room for one."""
    with path.open("r+b") as file:
        if kind == "parquet":
            _room_in_parquet(file)
        elif kind == "npz":
            _room_in_zip(file)
        elif kind == "html":
            file.seek(0, os.SEEK_END)
            file.write(b"<!-- %b -->\n" % UNSEALED)
        at = _find(file, UNSEALED, kind)
        if at is not None:
            digest = _digest(file, at)
            file.seek(at + AFTER_MARK)
            file.write(digest.encode())


def own_checksum(path: Path, progress: ProgressCallback | None = None) -> bool | None:
    """Whether a file matches its embedded checksum; None if it has none."""
    written = _own_digits(path)
    return None if written is None else written == _digest_without_seal(path, progress)


def _own_digits(path: Path) -> str | None:
    """The embedded checksum of a file: an empty one if its seal is damaged, None if it has no seal."""
    with path.open("rb") as file:
        at = _find(file, MARK, kind_by_name(path))
        seal = None if at is None else SEAL.fullmatch(_read(file, at, len(UNSEALED)))
        return None if at is None else "" if seal is None else seal[1].decode()


def _digest_without_seal(path: Path, progress: ProgressCallback | None = None) -> str:
    with path.open("rb") as file:
        return _digest(file, _find(file, MARK, kind_by_name(path)), progress)


def check(path: Place) -> None:
    """Check that a file is unchanged: it matches the `run.json` that lists it, or its embedded checksum.

    Remote files are not read twice for this; `hardsight verify` does that.
    """
    if isinstance(path, Remote) or not path.is_file():
        return
    try:
        stamp = _stamp(path)
        if stamp not in _sound:
            _compare(path)
            if _stamp(path) == stamp and _settled(stamp):
                _sound.add(stamp)
    except OSError as error:
        raise FileError(f"{path} could not be read: {error.strerror or error}.") from error


def _compare(path: Path) -> None:
    entry = find_entry(path)
    if entry is not None and _gives(path, sha256, entry.sha256):
        return
    if entry is None or not entry.part:
        written = _own_digits(path)
        if (written is None and entry is None) or (written and _gives(path, _digest_without_seal, written)):
            return
    which = "its own checksum" if entry is None else "the checksum in its run.json"
    raise FileError(f"{path}: damaged, or changed since it was written: it does not match {which}.")


class Entry(NamedTuple):
    """The entry of a file in a run.json. A file that is not a part may have been rewritten by a later command."""

    sha256: str
    part: bool


def entries(manifest: Any) -> dict[str, Entry]:
    """The entries of a run.json by file name: its parts, and every other file that existed when the run ended."""
    if not isinstance(manifest, dict):
        return {}
    parts = [(part.get("name"), part.get("sha256")) for part in manifest.get("parts") or [] if isinstance(part, dict)]
    listed = [(*entry, False) for entry in (manifest.get("files") or {}).items()] + [(*entry, True) for entry in parts]
    return {name: Entry(digest, part) for name, digest, part in listed if isinstance(name, str) and isinstance(digest, str)}


def is_part_of_run(path: Path) -> bool:
    """Whether a file belongs to a run and must not be overwritten by later commands.

    These are start.json, run.json, review marks, and everything run.json lists, except for what later commands write:
    scores, the report and figures, unless they are parts.
    """
    if any(_has_own_writer(name) for name in _names(path)):
        return True
    entry, folder = find_entry(path), os.path.basename(os.path.realpath(path.parent))
    return entry is not None and (entry.part or not (path.name in WRITTEN_LATER or folder == "figures"))


def holds_marks(path: Path) -> bool:
    """Whether a file holds the review marks of another: photo.review.parquet next to photo.npz."""
    return any(
        name.is_file() and any(name.with_name(name.name.removesuffix(MARKS_BESIDE) + ending).is_file() for ending in MARKED)
        for name in _names(path)
        if name.name.endswith(MARKS_BESIDE)
    )


def _has_own_writer(path: Path) -> bool:
    """Whether only the run itself, or only the explorer's review, writes the file."""
    start, manifest = path.with_name("start.json"), path.with_name("run.json")
    if path.name == "run.json":
        return start.is_file()  # also in an incomplete run, which must not look complete
    in_run = start.is_file() or manifest.is_file() or path.with_name("scores.parquet").is_file()
    return path.is_file() and (path.name == "start.json" or (path.name == "review.parquet" and in_run))


def find_entry(path: Path) -> Entry | None:
    """The entry of a file in the nearest run.json above it, resolving links."""
    for name in _names(path):
        for directory in name.parents[:LEVELS]:
            manifest = directory / "run.json"
            if manifest.is_file():
                with contextlib.suppress(OSError):
                    entry = _listing(_stamp(manifest)).get(name.relative_to(directory).as_posix())
                    if entry is not None:
                        return entry
    return None


def _names(path: Path) -> list[Path]:
    """A file under its own name in the resolved directory, and fully resolved: a run may contain links, or be linked to."""
    named, real = Path(os.path.abspath(path)), Path(os.path.realpath(path))
    return list(dict.fromkeys([named, Path(os.path.realpath(path.parent)) / named.name, real]))


@functools.lru_cache(maxsize=64)
def _listing(stamp: _Stamp) -> dict[str, Entry]:
    try:
        with open(stamp.path, encoding="utf-8") as file:
            return entries(json.load(file))
    except (ValueError, RecursionError, AttributeError, TypeError):  # the reader of the run will report it
        return {}


# ---- locating a seal ----


def _find(file: IO[bytes], mark: bytes, kind: str) -> int | None:
    """Offset of the seal, or where it would start if damage destroyed its first mark; None if there is none."""
    size = file.seek(0, os.SEEK_END)
    if kind == "parquet":
        start, length = size - 8 - _footer_length(file, size) - len(UNSEALED), len(UNSEALED)
    elif kind == "safetensors":
        start, length = 0, min(LARGEST_HEADER, max(BLOCK, 8 + _number(file, 0, 8)))
    else:
        start, length = size - TAIL, TAIL
    content = _read(file, start, length)
    first = content.find(mark)
    if first >= 0:
        whole = mark == UNSEALED or content[first + len(MARK) : first + AFTER_MARK] == b"="
        return max(0, start) + first if whole else max(0, start + first + len(MARK) - len(UNSEALED))  # the second mark
    if kind == "parquet" and (elsewhere := SEAL.search(_read(file, size - BLOCK, BLOCK))):
        return max(0, size - BLOCK) + elsewhere.start()  # the length of the footer is damaged
    return None


def _read(file: IO[bytes], start: int, length: int) -> bytes:
    file.seek(max(0, start))
    return file.read(length)


def _number(file: IO[bytes], start: int, length: int) -> int:
    return int.from_bytes(_read(file, start, length), "little")


def _footer_length(file: IO[bytes], size: int) -> int:
    return min(_number(file, size - 8, 4), max(0, size - 8))


def _room_in_parquet(file: IO[bytes]) -> None:
    size = file.seek(0, os.SEEK_END)
    start = size - 8 - _footer_length(file, size)
    footer = _read(file, start, size)
    file.seek(start)
    file.write(UNSEALED + footer)  # pages are located from the start, the footer from the end


def _room_in_zip(file: IO[bytes]) -> None:
    size = file.seek(-22, os.SEEK_END)
    if file.read(4) == b"PK\5\6":  # the end-of-archive record, without a comment yet
        file.seek(size + 20)
        file.write(len(UNSEALED).to_bytes(2, "little") + UNSEALED)


def _digest(file: IO[bytes], seal_at: int | None, progress: ProgressCallback | None = None) -> str:
    """sha256 of a file, with the digits of its seal read as zeros."""
    digest, position = hashlib.sha256(), 0
    digits = range(0) if seal_at is None else range(seal_at + AFTER_MARK, seal_at + AFTER_MARK + len(ZEROS))
    file.seek(0)
    while block := file.read(BLOCK):
        if digits and position < digits.stop and position + len(block) > digits.start:
            first, last = max(digits.start - position, 0), min(digits.stop - position, len(block))
            block = block[:first] + ZEROS[: last - first] + block[last:]
        digest.update(block)
        position += len(block)
        if progress is not None:
            progress(len(block))
    return digest.hexdigest()


# ---- cached results ----


class _Stamp(NamedTuple):
    """The state of a file: any change to it changes one of these."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


_sound: set[_Stamp] = set()  # files that matched their checksum in this process


def _stamp(path: Path) -> _Stamp:
    stat = path.stat()
    return _Stamp(os.path.abspath(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _settled(stamp: _Stamp) -> bool:
    return time.time_ns() - max(stamp.mtime_ns, stamp.ctime_ns) > SETTLED


def _gives(path: Path, digest: Callable[[Path], str], expected: str) -> bool:
    """Whether a file has this digest, or had it before with the same path, size, time and inode.

    The cache can only confirm: a damaged entry must not condemn a file.
    """
    stamp = _stamp(path)
    folder = cache_directory()
    if folder is None or stamp.size < REMEMBERED or not _settled(stamp):
        return digest(path) == expected
    entry = folder / "checksums" / hashlib.sha256(repr((digest.__name__, stamp)).encode()).hexdigest()[:32]
    with contextlib.suppress(OSError, ValueError):
        if entry.is_file() and entry.read_text(encoding="utf-8") == expected:
            return True
    agrees = digest(path) == expected
    if agrees and _stamp(path) == stamp:
        with contextlib.suppress(OSError):  # the cache is optional: ignore it if it is not writable
            entry.parent.mkdir(parents=True, exist_ok=True)
            entry.unlink(missing_ok=True)  # it may be anything, even a pipe
            entry.write_text(expected, encoding="utf-8")
    return agrees


def cache_directory() -> Path | None:
    """The cache directory: HARDSIGHT_CACHE, or hardsight in the user's cache directory; None if there is none."""
    chosen = os.environ.get("HARDSIGHT_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "hardsight"
        if os.name == "nt":
            local = os.environ.get("LOCALAPPDATA")
            return Path(local) / "hardsight" / "Cache" if local else None
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardsight"
    except RuntimeError:  # no home directory
        return None

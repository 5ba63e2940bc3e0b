"""`verify`: reread every file of a run, or one file, and compare it with its checksum, ignoring the cache."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hardsight.errors import FileError, first_line
from hardsight.files.checksums import Entry, entries, find_entry, own_checksum, sha256
from hardsight.files.formats import kind_by_name
from hardsight.files.places import missing, place_on_disk
from hardsight.files.run import not_a_run
from hardsight.screen import Progress

NOT_AS_LISTED = "damaged or changed: it does not match run.json"
LISTED = re.compile(r'"([^"\n]+)": "([0-9a-f]{64})"|"name": "([^"\n]+)",\s+"rows": [^,]*,\s+"sha256": "([0-9a-f]{64})"')


@dataclass(frozen=True)
class Verification:
    """The result of `verify`.

    Attributes:
        sound: names of files that match their checksums.
        damaged: what is wrong, by file name: damaged, missing or changed.
        unchecked: why a file could not be verified, by file name.
    """

    sound: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)


def verify(path: str | os.PathLike[str], progress: Progress | None = None) -> Verification:
    """Compare a complete run, or a single file, with its checksums.

    Args:
        path: a run directory; or a .parquet, .npz, .safetensors or .html file of ours.
        progress: called with bytes done and total bytes.
    """
    path = place_on_disk(path)
    if path.is_dir():
        return _Reading(path, progress).run()
    if not path.is_file():
        raise FileError(missing(path) if not path.exists() else f"{path} is a pipe or a device, not a file.")
    entry = find_entry(path)
    return _Reading(path.parent, progress).files({path.name: path}, {} if entry is None else {path.name: entry})


class _Reading:
    """One pass over the files below a directory."""

    def __init__(self, directory: Path, progress: Progress | None) -> None:
        self.directory, self.progress = directory, progress
        self.done = self.total = 0
        self.trusted = True  # whether run.json is sound

    def run(self) -> Verification:
        """Verify every file of a run, and find missing ones."""
        manifest = self.directory / "run.json"
        if not manifest.is_file():
            raise FileError(not_a_run(self.directory))
        files = {path.relative_to(self.directory).as_posix(): path for path in sorted(_visible_files(self.directory))}
        del files["run.json"]
        listed, trouble = _manifest(manifest)
        if trouble is not None:
            self.trusted = False
            result = self.files(files, _entries_left(manifest))
            return Verification(result.sound, {"run.json": trouble, **result.damaged}, result.unchecked)
        missing = dict.fromkeys(sorted(listed.keys() - files), "missing")
        result = self.files(files, listed)
        unchecked = {} if own_checksum(manifest) else {"run.json": "it has no checksum"}
        sound = [*(["run.json"] if not unchecked else []), *result.sound]
        return Verification(sound, {**result.damaged, **missing}, {**unchecked, **result.unchecked})

    def files(self, files: dict[str, Path], listed: dict[str, Entry]) -> Verification:
        """Compare files with their listed checksums, or else with their own."""
        result = Verification()
        self.total = sum(path.stat().st_size for path in files.values())
        for name, path in files.items():
            done = self.done
            try:
                trouble = self._trouble(path, listed.get(name))
            except OSError as error:
                result.damaged[name] = f"it could not be read: {error.strerror or error}"
            except _Unchecked as reason:
                result.unchecked[name] = str(reason)
            else:
                if trouble is None:
                    result.sound.append(name)
                else:
                    result.damaged[name] = trouble
            self.done = done
            self._read(path.stat().st_size if path.is_file() else 0)
        return result

    def _trouble(self, path: Path, entry: Entry | None) -> str | None:
        """What is wrong with a file, or None."""
        digest = None if entry is None else sha256(path, self._read)
        if entry is not None and digest == entry.sha256:
            return None
        if entry is not None and entry.part and self.trusted:
            return NOT_AS_LISTED
        sound = own_checksum(path, self._read)
        if sound is not None:
            return None if sound else "damaged or changed: it does not match its own checksum"
        try:
            return _trouble_in_format(path)
        except _Unchecked:
            if entry is None or digest is None:
                raise
            if not self.trusted and sum(a != b for a, b in zip(digest, entry.sha256, strict=True)) < 3:
                raise _Unchecked("its checksum in run.json is damaged") from None
            return NOT_AS_LISTED

    def _read(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


class _Unchecked(Exception):
    """A file has no checksum to compare with."""


def _visible_files(directory: Path) -> Iterator[Path]:
    """All files except those whose names start with a dot: locks and temporary files."""
    return (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def _manifest(path: Path) -> tuple[dict[str, Entry], str | None]:
    """The entries of a run.json, and what is wrong with it."""
    try:
        if own_checksum(path) is False:
            return {}, "damaged or changed: it does not match its own checksum"
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            return {}, "damaged: it does not hold a JSON object"
        return entries(content), None
    except (OSError, ValueError, RecursionError, AttributeError, TypeError) as error:
        return {}, f"damaged: {first_line(error)}"


def _entries_left(manifest: Path) -> dict[str, Entry]:
    """The entries that a damaged run.json still holds, line by line, since it may no longer be valid JSON."""
    text = manifest.read_text(encoding="utf-8", errors="replace")
    lines = [(match[1] or match[3], match[2] or match[4], bool(match[3])) for match in LISTED.finditer(text)]
    return {name: Entry(digest, part) for name, digest, part in lines}


def _trouble_in_format(path: Path) -> str | None:
    """Check a file without a checksum by its format: Parquet and PNG have internal checksums."""
    kind = kind_by_name(path)
    if kind == "png":
        return None if _png_is_sound(path) else "damaged: not a readable PNG image"
    if kind == "parquet":
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for _ in file.iter_batches():
                    pass
        except (pa.ArrowException, OSError, ValueError) as error:
            return f"damaged: {first_line(error)}"
    raise _Unchecked("run.json does not list it, and it has no checksum")


def _png_is_sound(path: Path) -> bool:
    """Each chunk of a PNG image ends with the CRC of its type and data; the last chunk is IEND."""
    content = path.read_bytes()
    at, kind = 8, b""
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        kind, end = content[at + 4 : at + 8], at + 8 + length
        if int.from_bytes(content[end : end + 4], "big") != zlib.crc32(content[at + 4 : end]) or end + 4 > len(content):
            return False
        at = end + 4
    return content[:8] == b"\x89PNG\r\n\x1a\n" and kind == b"IEND" and at == len(content)

"""`verify`: reread every file of a run, or one file, and compare it with its checksum."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hardsight.errors import FileError, first_line
from hardsight.files.checksums import NOT_AS_SEALED, Entry, NoChecksum, entries, fault_in, find_entry, own_checksum
from hardsight.files.places import kind_by_name, place_on_disk
from hardsight.files.reading import existing_file
from hardsight.files.run import not_a_run
from hardsight.screen import Progress


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
        return _verify_run(path, progress)
    existing_file(path)
    entry = find_entry(path)
    return _compare({path.name: path}, {} if entry is None else {path.name: entry}, progress)


def _verify_run(directory: Path, progress: Progress | None) -> Verification:
    """Verify every file of a run, and find missing ones."""
    manifest = directory / "run.json"
    if not manifest.is_file():
        raise FileError(not_a_run(directory))
    files = {path.relative_to(directory).as_posix(): path for path in sorted(_visible_files(directory)) if path != manifest}
    listed, fault = _read_manifest(manifest)
    if fault is not None:
        result = _compare(files, {}, progress)
        return Verification(result.sound, {"run.json": fault, **result.damaged}, result.unchecked)
    result = _compare(files, listed, progress)
    missing = dict.fromkeys(sorted(listed.keys() - files), "missing")
    damaged = {**result.damaged, **missing}
    if own_checksum(manifest) is None:
        return Verification(result.sound, damaged, {"run.json": "it has no checksum", **result.unchecked})
    return Verification(["run.json", *result.sound], damaged, result.unchecked)


def _compare(files: Mapping[str, Path], listed: Mapping[str, Entry], progress: Progress | None) -> Verification:
    """Compare files with their listed checksums, or else with their own."""
    result = Verification()
    done, total = 0, sum(path.stat().st_size for path in files.values())
    for name, path in files.items():
        try:
            fault = _fault(path, listed.get(name))
        except _Unchecked as reason:
            result.unchecked[name] = str(reason)
        else:
            if fault is None:
                result.sound.append(name)
            else:
                result.damaged[name] = fault
        done += path.stat().st_size
        if progress is not None:
            progress(done, total)
    return result


class _Unchecked(Exception):
    """A file could not be verified."""


def _fault(path: Path, entry: Entry | None) -> str | None:
    """What is wrong with a file, or None."""
    try:
        return fault_in(path, entry)
    except NoChecksum:
        return _fault_in_format(path)
    except OSError as error:
        return f"it could not be read: {error.strerror or error}"


def _visible_files(directory: Path) -> Iterator[Path]:
    """All files except those whose names start with a dot: locks and temporary files."""
    return (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def _read_manifest(path: Path) -> tuple[dict[str, Entry], str | None]:
    """The entries of a run.json, and what is wrong with it."""
    try:
        if own_checksum(path) is False:
            return {}, NOT_AS_SEALED
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            return {}, "damaged: it does not hold a JSON object"
        return entries(content), None
    except (OSError, ValueError, RecursionError, AttributeError, TypeError) as error:
        return {}, f"damaged: {first_line(error)}"


def _fault_in_format(path: Path) -> str | None:
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
    chunk, kind = 8, b""
    while chunk + 12 <= len(content):
        length = int.from_bytes(content[chunk : chunk + 4], "big")
        kind, end = content[chunk + 4 : chunk + 8], chunk + 8 + length
        if int.from_bytes(content[end : end + 4], "big") != zlib.crc32(content[chunk + 4 : end]) or end + 4 > len(content):
            return False
        chunk = end + 4
    return content[:8] == b"\x89PNG\r\n\x1a\n" and kind == b"IEND" and chunk == len(content)

"""`verify`: reread every file of a run, or one file, and compare it with its checksum."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from hardsight.errors import FileError, first_line
from hardsight.files.checksums import NO_CHECKSUM, NOT_AS_SEALED, Entry, entries, fault_in, find_entry, own_checksum
from hardsight.files.places import kind_by_name, place_on_disk
from hardsight.files.reading import existing_file
from hardsight.files.run import not_a_run
from hardsight.screen import Progress

LAST_CHUNK = b"\0\0\0\0IEND\xaeB`\x82"  # of every PNG


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


def verify(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Verification:
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
    visible = [path for path in sorted(directory.rglob("*")) if not path.name.startswith(".")]  # no locks and temporary files
    files = {path.relative_to(directory).as_posix(): path for path in visible if path.is_file() and path != manifest}
    listed, fault = _read_manifest(manifest)
    result = _compare(files, listed, progress)
    if fault is not None:
        return Verification(result.sound, {"run.json": fault, **result.damaged}, result.unchecked)
    damaged = {**result.damaged, **dict.fromkeys(sorted(listed.keys() - files), "missing")}
    if own_checksum(manifest) is None:
        return Verification(result.sound, damaged, {"run.json": "it has no checksum", **result.unchecked})
    return Verification(["run.json", *result.sound], damaged, result.unchecked)


def _compare(files: Mapping[str, Path], listed: Mapping[str, Entry], progress: Progress | None) -> Verification:
    """Compare files with their listed checksums, or else with their own."""
    result = Verification()
    done, total = 0, sum(path.stat().st_size for path in files.values())
    for name, path in files.items():
        fault = _fault(path, listed.get(name))
        if fault is None:
            result.sound.append(name)
        else:
            (result.unchecked if fault == NO_CHECKSUM else result.damaged)[name] = fault
        done += path.stat().st_size
        if progress is not None:
            progress(done, total)
    return result


def _fault(path: Path, entry: Entry | None) -> str | None:
    """What is wrong with a file, or None."""
    try:
        fault = fault_in(path, entry)
        return _fault_in_format(path) if fault == NO_CHECKSUM else fault
    except OSError as error:
        return f"it could not be read: {error.strerror or error}"


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
    return NO_CHECKSUM


def _png_is_sound(path: Path) -> bool:
    """Whether each chunk of a PNG image has the CRC that it says, by Pillow, and nothing follows the last one."""
    content = path.read_bytes()
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            image.verify()
    except Exception:  # a plugin may raise anything on damaged bytes
        return False
    return content.find(LAST_CHUNK) == len(content) - len(LAST_CHUNK)

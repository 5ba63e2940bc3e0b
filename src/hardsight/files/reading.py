"""Shared by all readers: damage becomes one error that names the file, and a file must not change while it is read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from hardsight.errors import FileError, HardsightError, InputError, first_line
from hardsight.files.checksums import check
from hardsight.files.places import Place, missing, place

MISTAKES_OF_OURS = (NameError, AttributeError, ImportError, AssertionError)  # bugs, not damaged files

FileState = tuple[int, int, int]  # size, time of the last change, inode


@contextlib.contextmanager
def reading(name: object, fault: str = "damaged") -> Iterator[None]:
    """Turn whatever a library raises on the bytes of a file into a FileError that names the file.

    A damaged file can fail in any of a hundred ways: zipfile alone raises five kinds of error, NumPy parses a header as Python.
    """
    try:
        yield
    except (HardsightError, *MISTAKES_OF_OURS):
        raise
    except Exception as error:
        raise FileError(f"{name}: {fault}: {first_line(error)}") from error


@contextlib.contextmanager
def naming(where: object) -> Iterator[None]:
    """An error about what a file holds names the file; nothing is added for None."""
    try:
        yield
    except InputError as error:
        if where is None or str(error).startswith(str(where)):
            raise
        raise InputError(f"{where}: {error}") from error


def read_json(path: Place, fault: str = "damaged") -> Any:
    """A JSON document, with its checksum verified."""
    check(path)
    with reading(path, fault):
        return json.loads(path.read_text(encoding="utf-8"))


def read_object(path: Place, fault: str = "damaged") -> dict[str, Any]:
    """A JSON document that must be an object."""
    content = read_json(path, fault)
    if not isinstance(content, dict):
        raise FileError(f"{path}: {fault}: it does not hold a JSON object.")
    return content


def existing_file(path: Any) -> Place:
    """The path of an existing regular file."""
    path = place(path)
    if path.is_dir():
        raise FileError(f"{path} is a directory, not a file.")
    if not path.is_file():
        raise FileError(missing(path) if not path.exists() else f"{path} is a pipe or a device, not a file.")
    return path


def file_state(path: Place) -> FileState:
    """The state of a file, which changes when it is replaced or written to."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, getattr(status, "st_ino", 0)  # remote files have no inode


def check_unchanged(path: Place, before: FileState) -> None:
    """Reject a file that changed since it was opened: the rows read so far would be a mixture."""
    with reading(path, "it changed while it was read"):
        if file_state(path) != before:
            raise FileError(f"{path} changed while it was read. Start again when nothing writes to it.")

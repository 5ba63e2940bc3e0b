"""The one way files are written: under a temporary name, flushed to disk, then renamed over the old one.

Whoever reads a file of ours sees the old one or the new one, never a part of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardsight.errors import FileError
from hardsight.places import Remote, place


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it becomes `path`, on any error it is removed."""
    path = place(path)
    if isinstance(path, Remote):
        with path.sent_when_complete() as temporary:
            yield temporary
        return
    if not path.parent.is_dir():
        raise FileError(f"{path}: the directory {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise FileError(f"{path} is a directory; give the name of a file in it.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise FileError(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """One JSON document, readable by people, without the NaN that JSON does not have."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

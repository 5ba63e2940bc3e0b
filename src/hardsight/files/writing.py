"""The one way files are written: checked first, under a temporary name, sealed, flushed to disk, then renamed over the old one.

Whoever reads a file of ours sees the old one or the new one, never a part of it. Nothing that the command reads is
replaced, nor a file of another kind, nor what belongs to a run.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, first_line
from hardsight.files import checksums, formats
from hardsight.files.inputs import is_input, is_own, note_output
from hardsight.files.locking import new_locked_file, remove_if_abandoned
from hardsight.files.places import Place, Remote, place

_discards = False  # set in a process that works beside the one whose files count

TEMPORARY = re.compile(r"\..+\.(\d+)\.[0-9a-f]+\.tmp")  # .NAME.PID.HEX.tmp


@contextlib.contextmanager
def discarding() -> Iterator[None]:
    """Inside, whatever is written is thrown away: for a process that works beside the one whose files count."""
    global _discards
    before, _discards = _discards, True
    try:
        yield
    finally:
        _discards = before


def discards() -> bool:
    """Whether this process throws away what it writes."""
    return _discards


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], kind: str | None = None, table: str | None = None) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it becomes `path`, on any error it is removed.

    Args:
        path: of the file, which is replaced if it may be.
        kind: what is written, one of `formats.WORDS`, where the name's ending does not tell it.
        table: of a table, what it holds: see `table_kinds`.
    """
    path = place(path)
    if _discards:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / path.name
        return
    kind = kind or formats.kind_by_name(path)
    check_output(path, kind, table)
    if isinstance(path, Remote):
        with path.sent_when_complete() as temporary:
            yield temporary
            checksums.seal(temporary, kind)
        note_output(path)
        return
    target = Path(os.path.realpath(path)) if path.is_symlink() else path  # a link stays one, and leads to the new file
    sweep(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with new_locked_file(temporary):
            yield temporary
            checksums.seal(temporary, kind)
            _sync(temporary)
            os.replace(temporary, target)
        _sync(target.parent)
        note_output(path)
    except OSError as error:
        raise FileError(f"{path} could not be written: {why(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_output(path: Place, kind: str | None = None, table: str | None = None) -> None:
    """A file may be written here: before anything slow, and again before its first byte. Arguments as of `replacing`."""
    kind = kind or formats.kind_by_name(path)
    if isinstance(path, Path):
        check_place_for(path)
    if is_input(path):
        raise FileError(f"{path} is the input of this command; write to another name.")
    if is_own(path):
        return
    try:
        right_kind = not path.is_file() or formats.holds(path, kind)
    except OSError as error:
        raise FileError(f"{path} exists and could not be read: {why(error)}") from error
    if not right_kind:
        raise FileError(f"{path} exists and is not {formats.WORDS[kind]}; give another name.")
    if isinstance(path, Path) and checksums.is_part_of_run(path):
        raise FileError(f"{path} is a part of a run; give another name.")
    if isinstance(path, Path) and checksums.holds_marks(path):
        raise FileError(f"{path} holds a person's marks; give another name.")
    if table is not None and path.is_file():
        _check_same_table(path, table)


def _check_same_table(path: Place, table: str) -> None:
    from hardsight.files.table_kinds import kind_in_file  # which takes Arrow to import, and JSON does not need

    held = kind_in_file(path)
    if held is not None and held != table:
        raise FileError(
            f"{path} holds {held}, and would be replaced by {table}; give another name, or remove it if you no longer need it."
        )


def check_page_output(path: Path) -> None:
    """An HTML page may be written here, under a name that a browser opens."""
    check_output(path, "html")
    if path.suffix and formats.kind_by_name(path) != "html":
        raise FileError(f"{path}: the page is HTML: give a name that ends in .html.")


def sweep(directory: Path) -> None:
    """Remove the temporary files of processes that were killed; those of processes that run stay."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if name := TEMPORARY.fullmatch(entry.name):
                remove_if_abandoned(directory / entry.name, int(name[1]))


def check_place_for(path: Path) -> None:
    """There is a directory for the file that can be written to, and nothing but a file in its place: a link is followed."""
    try:
        folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        mode = _mode(path)
    except FileNotFoundError as error:
        raise FileError(f"{path}: the directory {folder} does not exist; make it first.") from error
    except NotADirectoryError as error:
        raise FileError(f"{path}: {folder} is a file, not a directory; give another name.") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{path} could not be written: {why(error)}") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise FileError(f"{path} is a directory; give the name of a file in it.")
    if mode is not None and not stat.S_ISREG(mode):
        raise FileError(f"{path} is a pipe or a device, not a file; give the name of a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"{path} could not be written: {folder} is not yours to write to, or its disk can only be read.")


def _mode(path: Path) -> int | None:
    """What is under that name now; None if nothing is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


REMEDIES = {
    errno.ENOSPC: "make room on that disk, or write to another one",
    errno.EDQUOT: "make room in your quota, or write to another disk",
    errno.EFBIG: "files may not grow so large there (see ulimit -f); write to another disk",
    errno.EACCES: "write to a directory that is yours, or ask for the right to",
    errno.EPERM: "write to a directory that is yours, or ask for the right to",
    errno.EROFS: "that disk can only be read; write to another one",
    errno.ENAMETOOLONG: "give a shorter name",
}


def why(error: OSError | ValueError) -> str:
    """What the system says of a file it would not write, and what to change."""
    number = getattr(error, "errno", None)
    if number is None:
        return f"{first_line(error)}."
    said = "no file can be made there" if number == errno.ENOENT else os.strerror(number)
    return f"{said}; {REMEDIES.get(number, 'write to another place')}."


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

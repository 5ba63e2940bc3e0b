"""The one write path: check, write under a temporary name, add a checksum, flush to disk, then rename over the old file.

Readers see either the old file or the new one, never a part of it. Files of another kind and files that belong to a run are
never replaced; nor are the inputs of a command, which says what they are before anything slow: `check_output(..., inputs=...)`.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import os
import re
import secrets
import stat
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from hardsight.errors import FileError, HardsightError, first_line
from hardsight.files import checksums
from hardsight.files.locking import new_locked_file, remove_if_abandoned
from hardsight.files.places import SAMPLE_ENDINGS, WORDS, Place, Remote, kind_by_name, place

_discards = False  # set in worker processes, whose files do not count
_being_written: set[str] = set()  # run directories and files, by this process, resolved

TEMPORARY = re.compile(r"\..+\.(\d+)\.[0-9a-f]+\.tmp")  # .NAME.PID.HEX.tmp
REVIEW_ENDING = ".review.parquet"  # a person's marks on photo.npz are in photo.review.parquet
REVIEWED = (*SAMPLE_ENDINGS, ".json")
# Commands write these files, and figures/, into a complete run.
WRITTEN_LATER = ("scores.parquet", "suspects.parquet", "labels.parquet", "report.html", "samples.html")


@contextlib.contextmanager
def discarding() -> Iterator[None]:
    """Discard everything written inside: for worker processes, whose files do not count."""
    global _discards
    before, _discards = _discards, True
    try:
        yield
    finally:
        _discards = before


def discards() -> bool:
    """Whether this process discards what it writes."""
    return _discards


@contextlib.contextmanager
def owning(path: Path) -> Iterator[None]:
    """Inside, this process may replace the file, or every file of the run directory: it is the one that writes them."""
    real = os.path.realpath(path)
    if real in _being_written:
        yield
        return
    _being_written.add(real)
    try:
        yield
    finally:
        _being_written.discard(real)


def _is_being_written(path: Place) -> bool:
    return isinstance(path, Path) and any(Path(os.path.realpath(path)).is_relative_to(each) for each in _being_written)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], kind: str | None = None, table: str | None = None) -> Iterator[Path]:
    """A temporary path next to `path` to write to. It becomes `path` on success, and is removed on any error.

    Args:
        path: the file, which is replaced if that is allowed.
        kind: the format, one of `places.WORDS`, if the extension does not tell.
        table: for a table, what it holds: see `kinds`.
    """
    path = place(path)
    if _discards:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / path.name
        return
    kind = kind or kind_by_name(path)
    check_output(path, kind, table)
    if isinstance(path, Remote):
        with path.sent_when_complete() as temporary:
            yield temporary
            checksums.seal(temporary, kind)
        return
    target = Path(os.path.realpath(path)) if path.is_symlink() else path  # keep the link, and let it point to the new file
    remove_abandoned(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with new_locked_file(temporary):
            yield temporary
            checksums.seal(temporary, kind)
            _sync(temporary)
            os.replace(temporary, target)
        _sync(target.parent)
    except OSError as error:
        raise FileError(f"{path} could not be written: {why(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_output(path: Place, kind: str | None = None, table: str | None = None, inputs: Iterable[Any] = ()) -> None:
    """Check that a file may be written here: before anything slow, and again before its first byte.

    Args:
        path, kind, table: as for `replacing`.
        inputs: what the command reads: none of these files is replaced, under any name. Values that are not paths are ignored.
    """
    kind = kind or kind_by_name(path)
    if isinstance(path, Path):
        check_place_for(path)
    if any(is_same_file(path, value) for value in inputs):
        raise FileError(f"{path} is an input of this command; use another name.")
    if _is_being_written(path):
        return
    with writing(path, "exists and could not be read"):
        right_kind = not path.is_file() or holds(path, kind)
    if not right_kind:
        raise FileError(f"{path} exists and is not {WORDS[kind]}; use another name.")
    if isinstance(path, Path) and is_part_of_run(path):
        raise FileError(f"{path} is part of a run; use another name.")
    if isinstance(path, Path) and holds_marks(path):
        raise FileError(f"{path} holds review marks; use another name.")
    if table is not None and path.is_file():
        _check_same_table(path, table)


def is_same_file(path: Place, value: Any) -> bool:
    """Whether a value is a path of the same file: a symbolic or hard link is the file that it leads to."""
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        return False
    if isinstance(path, Remote):
        return path.resolve() == place(value).resolve()
    try:
        return os.path.realpath(path) == os.path.realpath(value) or os.path.samefile(path, value)
    except (OSError, ValueError):  # one of them does not exist, or cannot
        return False


def is_part_of_run(path: Path) -> bool:
    """Whether a file belongs to a run and must not be overwritten by later commands.

    These are start.json, run.json, review marks, and everything run.json lists, except for what later commands write:
    scores, the report and figures, unless they are parts.
    """
    if any(_has_own_writer(name) for name in checksums.resolved_names(path)):
        return True
    entry, folder = checksums.find_entry(path), os.path.basename(os.path.realpath(path.parent))
    return entry is not None and (entry.part or not (path.name in WRITTEN_LATER or folder == "figures"))


def _has_own_writer(path: Path) -> bool:
    """Whether only the run itself, or only the explorer's review, writes the file."""
    start, manifest = path.with_name("start.json"), path.with_name("run.json")
    if path.name == "run.json":
        return start.is_file()  # also in an incomplete run, which must not look complete
    in_run = start.is_file() or manifest.is_file() or path.with_name("scores.parquet").is_file()
    return path.is_file() and (path.name == "start.json" or (path.name == "review.parquet" and in_run))


def holds_marks(path: Path) -> bool:
    """Whether a file holds the review marks of another: photo.review.parquet next to photo.npz."""
    return any(
        name.is_file() and any(name.with_name(name.name.removesuffix(REVIEW_ENDING) + ending).is_file() for ending in REVIEWED)
        for name in checksums.resolved_names(path)
        if name.name.endswith(REVIEW_ENDING)
    )


def _check_same_table(path: Place, table: str) -> None:
    from hardsight.files.kinds import kind_in_file  # imports Arrow, which JSON does not need

    present = kind_in_file(path)
    if present is not None and present != table:
        raise FileError(
            f"{path} holds {present}, and would be replaced by {table}; use another name, or remove it if you no longer need it."
        )


def check_page_output(path: Path) -> None:
    """Check that an HTML page may be written here, under a name that a browser opens."""
    check_output(path, "html")
    if path.suffix and kind_by_name(path) != "html":
        raise FileError(f"{path}: the page is HTML: use a name that ends in .html.")


def remove_abandoned(directory: Path) -> None:
    """Remove the temporary files of killed processes; those of running processes are kept."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if name := TEMPORARY.fullmatch(entry.name):
                remove_if_abandoned(directory / entry.name, int(name[1]))


def check_place_for(path: Path) -> None:
    """Check that the directory of the file is writable and that only a file would be replaced. Links are followed."""
    with writing(path):
        folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
        if not folder.is_dir():
            file = next((parent for parent in (folder, *folder.parents) if parent.is_file()), None)
            if file is not None:
                raise FileError(f"{path}: {file} is a file, not a directory; use another name.")
            raise FileError(f"{path}: the directory {folder} does not exist; create it first.")
        with contextlib.suppress(FileNotFoundError):
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                what = (
                    "a directory; name a file in it" if stat.S_ISDIR(mode) else "a pipe or a device, not a file; use another name"
                )
                raise FileError(f"{path} is {what}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"{path} could not be written: no write permission for {folder}, or its disk is read-only.")


REMEDIES = {
    errno.ENOSPC: "free some space on that disk, or write to another one",
    errno.EDQUOT: "free some of your quota, or write to another disk",
    errno.EFBIG: "the file exceeds the size limit (see ulimit -f); write to another disk",
    errno.EACCES: "write to another directory, or get write permission",
    errno.EPERM: "write to another directory, or get write permission",
    errno.EROFS: "that disk is read-only; write to another one",
    errno.ENAMETOOLONG: "use a shorter name",
}


@contextlib.contextmanager
def writing(path: object, fault: str = "could not be written", kind: type[HardsightError] = FileError) -> Iterator[None]:
    """The system's errors inside become one that names the path and says what to change."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise kind(f"{path} {fault}: {why(error)}") from error


def why(error: OSError | ValueError) -> str:
    """The system's reason why a file could not be written, and what to change."""
    number = getattr(error, "errno", None)
    if number is None:
        return f"{first_line(error)}."
    reason = "no file can be created there" if number == errno.ENOENT else os.strerror(number)
    return f"{reason}; {REMEDIES.get(number, 'write somewhere else')}."


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a human-readable JSON document; NaN, which JSON does not have, is not allowed."""
    if kind_by_name(place(path)) != "json":
        raise FileError(f"{path}: JSON must be written to a name that ends in .json.")
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: str | os.PathLike[str], text: str, kind: str | None = None) -> None:
    """Write a text in UTF-8; `kind` is as for `replacing`."""
    with replacing(path, kind) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a directory
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- the format of a file, by its first bytes ----

START = 2**16  # bytes to inspect
CONTROL = bytes({*range(32)} - {7, 8, 9, 10, 12, 13, 27})  # bytes that never occur in text


def holds(path: Place, kind: str) -> bool:
    """Whether a file has a format, by its first bytes. An empty file matches every format."""
    with path.open("rb") as file:
        start = file.read(START)
    return not start or LOOKS[kind](start)


def _npz(start: bytes) -> bool:
    """A zip whose first member is an array; other zips are documents, models or archives."""
    if start[:4] == b"PK\5\6":  # an empty zip
        return True
    if start[:4] != b"PK\3\4" or len(start) < 30:
        return False
    (length,) = struct.unpack_from("<H", start, 26)
    return start[30 : 30 + length].endswith(b".npy")


def _text(start: bytes) -> bool:
    return not start.translate(None, bytes(set(range(256)) - set(CONTROL)))


def _markup(*openings: bytes) -> Callable[[bytes], bool]:
    return lambda start: start.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(openings)


def _csv(start: bytes) -> bool:
    """Lines of text with the same number of cells, two or more; the last line may be cut off."""
    if not _text(start) or _markup(b"<", b"{", b"[")(start):
        return False
    lines = start.decode("utf-8-sig", "replace").splitlines(keepends=True)
    try:
        rows = [row for row in csv.reader(lines) if row]
    except csv.Error:
        return False
    widths = {len(row) for row in (rows[:-1] if len(start) == START else rows)}
    return len(widths) == 1 and widths.pop() > 1


LOOKS: dict[str, Callable[[bytes], bool]] = {
    "parquet": lambda start: start[:4] == b"PAR1",
    "csv": _csv,
    "json": lambda start: _text(start) and _markup(b"{", b"[")(start),
    "npz": _npz,
    "safetensors": lambda start: start[8:9] == b"{",
    "html": _markup(b"<!doctype html", b"<html"),
    "png": lambda start: start[:8] == b"\x89PNG\r\n\x1a\n",
    "svg": _markup(b"<?xml", b"<svg"),
    "pdf": lambda start: start[:4] == b"%PDF",
    "tex": lambda start: _text(start) and start.startswith(b"\\begin{table}"),  # not just any LaTeX document
    "md": lambda start: _text(start) and start.startswith(b"**") and b"\n| " in start,
    "text": lambda start: _text(start) and start[:4] != b"%PDF",
}

"""A person's marks: fine, wrong label (with the right class), ambiguous or drop. They are saved at once.

Marks on a run are in its `review.parquet`; marks on a file are next to it: `photo.review.parquet` for `photo.npz`.

Each mark, of one sample or of a group, is one change, made under a lock on the current file. So neither two tabs nor two
servers on the same run lose each other's marks, and a tab undoes only its own marks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from hardsight.errors import FileError, InputError, check_choice, first_line
from hardsight.files.locking import lock_file
from hardsight.files.parquet import read_parquet, write_parquet
from hardsight.files.writing import REVIEW_ENDING, owning

if TYPE_CHECKING:
    from hardsight.explorer.display import Display

MARKS = ("fine", "wrong label", "ambiguous", "drop")
SCHEMA = pa.schema(
    [("id", pa.string()), ("mark", pa.string()), ("suggestion", pa.int64()), ("suggestion_name", pa.string())]
    + [("marked_at", pa.timestamp("ms", tz="UTC"))]
)
MOST_UNDONE = 10_000  # changes remembered for undo


@dataclass(frozen=True)
class Mark:
    """A person's mark on one sample; `suggestion` is a class index, for a wrong label."""

    mark: str
    suggestion: int | None
    marked_at: int  # milliseconds since 1970


@dataclass(frozen=True)
class _Change:
    tab: str
    before: dict[str, Mark | None]  # by id, of every sample that it changed
    after: dict[str, Mark | None]


def review_file(path: Path) -> Path:
    """Where the marks of a run directory or of a file are.

    Example:
        >>> review_file(Path("photo.npz")).name
        'photo.review.parquet'
    """
    return path / "review.parquet" if path.is_dir() else path.with_suffix(REVIEW_ENDING)


class Review:
    """The marks of one run or file.

    Args:
        path: `review_file` of it; None for no file.
        class_names: names of the classes that suggestions index.
    """

    def __init__(self, path: Path | None, class_names: list[str]) -> None:
        self.path, self.class_names = path, class_names
        self.marks: dict[str, Mark] = {}
        self.version = 0  # increases with every change, so that other tabs notice
        self._seen: tuple[int, int, int] | None = None  # the file as it was last read or written
        self._changes: list[_Change] = []
        self._lock = Lock()
        with self._lock:
            self._refresh()

    @classmethod
    def of(cls, display: Display) -> Review:
        """The marks on what is shown; of a table in memory, in memory."""
        return cls(None if display.path is None else review_file(display.path), display.class_names)

    def why_not_saved(self) -> str | None:
        """Why marks cannot be saved in the file, or None."""
        folder = None if self.path is None else self.path.resolve().parent
        if folder is None or os.access(folder, os.W_OK):
            return None
        return f"{folder} cannot be written to; copy or link what is there to a folder of your own to mark its samples."

    def current(self) -> tuple[int, dict[str, Mark]]:
        """The version and all marks, including those of other processes."""
        with self._lock:
            self._refresh()
            return self.version, dict(self.marks)

    def put(self, tab: str, id: str, mark: str | None, suggestion: int | None = None) -> None:
        """Mark a sample, or remove its mark with None."""
        after = None if mark is None else self._checked(mark, suggestion)
        with self._writing():
            self._change(tab, {id: after})

    def put_all(self, tab: str, mark: str, suggestions: Mapping[str, int | None]) -> int:
        """Mark all unmarked samples of a group, each with its own suggestion, as one change, and return how many."""
        after = {id: self._checked(mark, suggestion) for id, suggestion in suggestions.items()}
        with self._writing():
            fresh: dict[str, Mark | None] = {id: made for id, made in after.items() if id not in self.marks}
            if fresh:
                self._change(tab, fresh)
            return len(fresh)

    def _change(self, tab: str, after: dict[str, Mark | None]) -> None:
        self._changes.append(_Change(tab, {id: self.marks.get(id) for id in after}, after))
        del self._changes[:-MOST_UNDONE]
        self._set(after)

    def undo(self, tab: str) -> list[str]:
        """Undo the tab's last change, except where another tab has changed it since, and return its ids."""
        with self._writing():
            for index in reversed([index for index, change in enumerate(self._changes) if change.tab == tab]):
                change = self._changes.pop(index)
                unchanged = [id for id, after in change.after.items() if self.marks.get(id) == after]
                if unchanged:
                    self._set({id: change.before[id] for id in unchanged})
                    return unchanged
            return []

    def table(self) -> pa.Table:
        """All marks as rows, in the order of the ids' first marks."""
        rows = [{"id": id, **vars(mark), "suggestion_name": self._name(mark.suggestion)} for id, mark in self.marks.items()]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _name(self, index: int | None) -> str | None:
        if index is None:
            return None
        return self.class_names[index] if index < len(self.class_names) else str(index)

    def _checked(self, mark: str, suggestion: int | None) -> Mark:
        check_choice(mark, MARKS, "a mark")
        if suggestion is not None and (mark != "wrong label" or not 0 <= suggestion < max(1, len(self.class_names))):
            most = len(self.class_names) - 1
            raise InputError(f"a suggestion is a class from 0 to {most} for a wrong label, got {suggestion}.")
        return Mark(mark, suggestion, time.time_ns() // 1_000_000)

    def _set(self, marks: Mapping[str, Mark | None]) -> None:
        for id, mark in marks.items():
            if mark is None:
                self.marks.pop(id, None)
            else:
                self.marks[id] = mark
        self.version += 1

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Read the file, change the marks, write the file: atomic, also for other processes."""
        lock = contextlib.nullcontext() if self.path is None else lock_file(self.path.with_name(".review.lock"), wait=True)
        with self._lock, lock:
            self._refresh()
            kept, version = dict(self.marks), self.version
            try:
                yield
                if self.path is not None and self.version != version:
                    with owning(self.path):
                        write_parquet(self.path, self.table())
                    self._seen = _stamp(self.path)
            except BaseException:
                self.marks, self.version = kept, version  # a mark that is not on disk does not count
                raise

    def _refresh(self) -> None:
        if self.path is None or not self.path.is_file():
            return
        stamp = _stamp(self.path)
        if stamp == self._seen:
            return
        try:
            rows = read_parquet(self.path, _READ.names)
            read = rows.cast(_READ).to_pylist()
            marks = {row.pop("id"): Mark(**row) for row in read}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FileError(f"{self.path}: not a readable review: {first_line(error)}") from error
        self.marks, self._seen = marks, stamp
        self.version += 1


_READ = pa.schema([("id", pa.string()), ("mark", pa.string()), ("suggestion", pa.int64()), ("marked_at", pa.int64())])


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino

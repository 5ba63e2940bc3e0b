"""Files that a command reads, so that it does not overwrite them.

Readers note the files a user named; `files.writing` refuses to replace one of them, whatever the name it goes by: a
symbolic or a hard link is the same file. Notes last as long as the command: outside of one there are none. What a function
inside of a command read is still an input when the function has returned: `--table` is written then.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardsight.files.places import Place  # which takes long to import, for a command that reads nothing


@dataclass
class _Command:
    """One command, with those that started it."""

    outer: _Command | None
    own: Path | None  # the run directory or the file it writes: what is read back from there is no input
    files: set[Hashable] = field(default_factory=set)
    written: set[Hashable] = field(default_factory=set)  # by this command: reading them back makes no inputs of them


_current: ContextVar[_Command | None] = ContextVar("command", default=None)


@contextmanager
def command(own: Path | None = None) -> Iterator[None]:
    """Within this context, no file noted as read is overwritten. `own` is the run directory or the file being written."""
    here = _Command(_current.get(), None if own is None else own.resolve())
    token = _current.set(here)
    try:
        yield
    finally:
        _current.reset(token)
        if here.outer is not None:
            here.outer.files |= here.files
            here.outer.written |= here.written


def note_input(*values: Any) -> None:
    """Note files that this command reads. Values that are not paths (arrays, None) are ignored."""
    here = _current.get()
    if here is None:
        return
    from hardsight.files.places import place

    for value in values:
        if isinstance(value, (str, os.PathLike)):
            path = place(value)
            if not is_own(path) and not is_written(path):
                here.files.update(_names(path))


def note_output(path: Place) -> None:
    """Note a file that this command has written."""
    here = _current.get()
    if here is not None:
        here.written.add(_names(path)[0])


def is_own(path: Place) -> bool:
    """Whether a path lies in a run directory that this command writes."""
    if not isinstance(path, Path):
        return False
    real = Path(os.path.realpath(path))
    return any(here.own is not None and real.is_relative_to(here.own) for here in _commands())


def is_input(path: Place) -> bool:
    """Whether this command, or one that started it, reads the file."""
    names = _names(path)
    return not is_written(path) and any(name in here.files for here in _commands() for name in names)


def is_written(path: Place) -> bool:
    """Whether this command, or one that started it, has written the file."""
    name = _names(path)[0]
    return any(name in here.written for here in _commands())


def _commands() -> Iterator[_Command]:
    """The command that runs, and those that started it."""
    here = _current.get()
    while here is not None:
        yield here
        here = here.outer


def _names(path: Place) -> list[Hashable]:
    """Identity of a file: its path without links and, if it exists, its inode."""
    if not isinstance(path, Path):
        return [path.resolve().uri]
    names: list[Hashable] = [os.path.realpath(path)]
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return names
    return [*names, (stat.st_dev, stat.st_ino)] if stat.st_ino else names

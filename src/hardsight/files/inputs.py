"""The input files of a command, so that it does not overwrite them.

Readers record the files a user named; `files.writing` refuses to replace any of them, under any name: a symbolic or hard
link is the same file. Records last as long as the command; outside of a command there are none. What a function inside a
command has read remains an input after the function returns, because `--table` is written then.
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
    from hardsight.files.places import Place  # slow to import for a command that reads nothing


@dataclass
class _Command:
    """A command, with the commands that called it."""

    outer: _Command | None
    own: Path | None  # the run directory or file it writes; reading from it does not make an input
    files: set[Hashable] = field(default_factory=set)
    written: set[Hashable] = field(default_factory=set)  # by this command; reading them back does not make them inputs


_current: ContextVar[_Command | None] = ContextVar("command", default=None)


@contextmanager
def command(own: Path | None = None) -> Iterator[None]:
    """Protect files recorded as inputs inside this context. `own` is the run directory or file being written."""
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
    """Record files that this command reads. Values that are not paths (arrays, None) are ignored."""
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
    """Record a file that this command has written."""
    here = _current.get()
    if here is not None:
        here.written.add(_names(path)[0])


def is_own(path: Place) -> bool:
    """Whether a path is inside a run directory that this command writes."""
    if not isinstance(path, Path):
        return False
    real = Path(os.path.realpath(path))
    return any(here.own is not None and real.is_relative_to(here.own) for here in _commands())


def is_input(path: Place) -> bool:
    """Whether this command, or one that called it, reads the file."""
    names = _names(path)
    return not is_written(path) and any(name in here.files for here in _commands() for name in names)


def is_written(path: Place) -> bool:
    """Whether this command, or one that called it, has written the file."""
    name = _names(path)[0]
    return any(name in here.written for here in _commands())


def _commands() -> Iterator[_Command]:
    """The running command, and those that called it."""
    here = _current.get()
    while here is not None:
        yield here
        here = here.outer


def _names(path: Place) -> list[Hashable]:
    """Identity of a file: its resolved path and, if it exists, its inode."""
    if not isinstance(path, Path):
        return [path.resolve().uri]
    names: list[Hashable] = [os.path.realpath(path)]
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return names
    return [*names, (stat.st_dev, stat.st_ino)] if stat.st_ino else names

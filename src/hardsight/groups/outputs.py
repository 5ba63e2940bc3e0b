"""Where `audit` and `drift` write: a table, and a second one next to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.kinds import FORMATS, check_table_output
from hardsight.files.places import place, second_table, table_path
from hardsight.files.writing import check_output
from hardsight.table import write_table


def default_output(source: str, name: str, *, whole: bool) -> Path | None:
    """The file of that name in a run, or next to a file; None where samples are left out, or the source is not a local path."""
    path = place(source)
    return table_path(path, name) if whole and isinstance(path, Path) and path.exists() else None


def checked_output(output: str | os.PathLike[str] | None, table: str, second: str, inputs: Iterable[Any]) -> Path | None:
    """The file to write `table` to, refused if it or the `second` next to it would replace one of the inputs."""
    target = None if output is None else place(output)
    if target is None:
        return None
    if not isinstance(target, Path):
        raise InputError(f"{target}: two tables are written next to each other: give a file on this machine.")
    check_table_output(target, table, inputs)
    check_output(second_table(target, second), inputs=inputs)
    return target


def save_second(table: pa.Table, path: str | os.PathLike[str], name: str) -> None:
    """Write the second table next to the first, where that was written as a table on this machine, and not as a page."""
    first = place(path)
    if isinstance(first, Path) and first.suffix.lower() in FORMATS:
        write_table(table, second_table(first, name))

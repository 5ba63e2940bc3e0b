"""Where `audit` and `drift` write: a table, and a second one next to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hardsight.errors import InputError
from hardsight.files.places import place, second_table, table_path
from hardsight.files.table_writing import check_table_output
from hardsight.files.writing import check_output


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

"""Images that could not be read: noted in each part of a run, and listed in its errors.parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hardsight.errors import FileError, RunError
from hardsight.files.checksums import check
from hardsight.files.parquet import open_parquet
from hardsight.files.reading import reading
from hardsight.table import write_table

BROKEN = b"hardsight.errors"  # metadata key for a part's list of broken images
ERRORS = pa.schema([("id", pa.string()), ("reason", pa.string()), ("message", pa.string())])


def read_back(parts: Sequence[Path]) -> tuple[dict[str, int], list[dict[str, str]]]:
    """The rows of each part by name, and the broken images of all: some parts may predate an interrupt."""
    rows, broken = {}, []
    for part in parts:
        try:
            check(part)
            with reading(part), open_parquet(part) as file:
                rows[part.name] = file.metadata.num_rows
                broken += json.loads((file.schema_arrow.metadata or {}).get(BROKEN, b"[]"))
        except FileError as error:
            raise RunError(f"{error} Remove it, and run the same command again.") from error
    return rows, broken


def write_errors(directory: Path, broken: Sequence[dict[str, str]]) -> list[Path]:
    """errors.parquet, if there is anything to tell."""
    if not broken:
        return []
    write_table(pa.Table.from_pylist(list(broken), ERRORS), directory / "errors.parquet")
    return [directory / "errors.parquet"]

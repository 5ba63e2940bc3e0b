"""CSV, .tsv and Parquet files as Arrow tables, or as named columns of any content.

In named columns of a CSV, a column in which every value is a number becomes numeric ("007" stays text).
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from hardsight.errors import FileError, InputError
from hardsight.files.parquet import read_parquet
from hardsight.files.places import PARQUET, Place, utf8_name
from hardsight.files.reading import existing_file, reading

WHOLE_ID = "^(0|-?[1-9][0-9]{0,17})$"


def read_table(path: str | os.PathLike[str], text: Iterable[str | None] = ()) -> pa.Table:
    """The whole table; in a CSV an empty cell is null, ids are as written, and columns named in `text` are text."""
    path = existing_file(path)
    if path.suffix.lower() in PARQUET:
        return read_parquet(path)
    table = read_csv(path, "not a readable CSV file", {name: pa.string() for name in ("id", *text) if name is not None})
    return table if "id" not in table.column_names else with_ids(path, table, table.column("id"))


def with_ids(path: Place, table: pa.Table, ids: Any) -> pa.Table:
    """The table with the ids of a CSV file as written: integers if each is written as one usually is, and without quotes."""
    ids = pc.fill_null(ids, "")
    if len(ids) and not _begins_quoted(path, table) and pc.all(pc.match_substring_regex(ids, WHOLE_ID)).as_py():
        ids = ids.cast(pa.int64())
    return table.set_column(table.column_names.index("id"), "id", ids)


def _begins_quoted(path: Place, table: pa.Table) -> bool:
    """Whether ids are the first column, and in quotes: text that may be all digits."""
    with path.open("rb") as file:
        file.readline()
        return table.column_names[0] == "id" and file.read(1) == b'"'


def read_csv(path: Place, fault: str, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """A CSV or .tsv file; `types` fixes the type of some columns."""
    convert = pacsv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    parse = pacsv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True)
    # Use Arrow's own file: Arrow threads reading a Python file may outlive the interpreter, which then aborts.
    with reading(path, fault), pa.OSFile(os.fsencode(path)) if isinstance(path, Path) else path.open("rb") as file:
        table = pacsv.read_csv(file, parse_options=parse, convert_options=convert)
        names = table.column_names  # raises here if a name is not text
    check_once(path, names)
    for name in names:
        if pa.types.is_binary(table.schema.field(name).type):
            raise FileError(f"{path}: {fault}: the column {name!r} must hold UTF-8 text.")
    return table


Columns = dict[str, list[Any]]


def read_columns(path: Path) -> Columns:
    """The columns of a CSV, .tsv or Parquet file by name."""
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)


def _read_parquet(path: Path) -> Columns:
    table = read_parquet(path)
    check_once(path, table.column_names)
    with reading(path, "cannot be read as columns"):
        return {name: table.column(name).to_pylist() for name in table.column_names}


def _read_csv(path: Path) -> Columns:
    existing_file(path)
    fault = "not a readable CSV file"
    with reading(path, fault), open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True))
    rows = [row for row in rows if row]
    if not rows:
        raise FileError(f"{path}: a CSV must begin with a line of column names, such as `path,label`; this one is empty.")
    header = [utf8_name(name.strip()) for name in rows[0]]
    check_once(path, header)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise FileError(f"{path}, row {number}: expected {len(header)} values, one per column, got {len(row)}.")
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return {name: _typed(name, column) for name, column in zip(header, cells, strict=True)}


def _typed(name: str, column: Sequence[str]) -> list[Any]:
    """Numbers if every cell is one, otherwise text; bytes that are not UTF-8 are escaped, but for paths, which must be found."""
    if name == "path":
        return [cell or None for cell in column]
    if name in ("id", "label", "label_name", "split", "class_name"):  # without the apostrophe of `without_formulas`
        return [utf8_name(re.sub(r"^'(?='*[=+\-@\t\r])", "", cell)) if cell else None for cell in column]
    full = [cell for cell in column if cell]
    if full and all(re.fullmatch("-?(0|[1-9][0-9]{0,17})", cell) for cell in full):
        return [int(cell) if cell else None for cell in column]
    if full and all(re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", cell) for cell in full):
        return [float(cell) if cell else None for cell in column]
    return [utf8_name(cell) if cell else None for cell in column]


def check_once(where: Any, names: Sequence[str]) -> None:
    """Reject a table with two columns of one name."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise InputError(f"{where}: column names must differ, but {', '.join(map(repr, twice))} appears more than once.")

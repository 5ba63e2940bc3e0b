"""CSV, .tsv and Parquet files as Arrow tables, with the type of each column inferred from all its values."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from hardsight.errors import FileError
from hardsight.files.parquet import read_parquet
from hardsight.files.places import Place
from hardsight.files.reading import existing_file, reading


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    """The whole table; in a CSV an empty cell is null, and ids are text unless all are whole numbers."""
    path = existing_file(path)
    return read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else read_csv(path, "not a readable CSV file")


def read_csv(path: Place, fault: str, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """A CSV or .tsv file; `types` fixes the type of some columns."""
    convert = pacsv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    parse = pacsv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True)
    # Use Arrow's own file: Arrow threads reading a Python file may outlive the interpreter, which then aborts.
    with reading(path, fault), pa.OSFile(os.fsencode(path)) if isinstance(path, Path) else path.open("rb") as file:
        table = pacsv.read_csv(file, parse_options=parse, convert_options=convert)
        names = table.column_names  # raises here if a name is not text
    for name in names:
        if table.column_names.count(name) > 1:
            raise FileError(f"{path}: the column {name!r} appears more than once.")
        if pa.types.is_binary(table.schema.field(name).type):
            raise FileError(f"{path}: {fault}: the column {name!r} must hold UTF-8 text.")
    return table

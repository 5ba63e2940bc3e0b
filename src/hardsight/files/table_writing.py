"""Tables written part by part, as Parquet, CSV or JSON, depending on the extension."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hardsight.errors import FileError, InputError
from hardsight.files.kinds import RESERVED, table_kind
from hardsight.files.places import Place, place
from hardsight.files.writing import check_output, replacing

FORMATS = (".parquet", ".csv", ".json")
FORMULA = r"^'*[=+\-@\t\r]"  # a spreadsheet would execute these, but for the apostrophes, which are doubled so that none is lost


def check_format(path: Place) -> str:
    """The extension of a table's file name, one of FORMATS."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: the extension of a table must be one of {', '.join(FORMATS)}.")
    return path.suffix.lower()


def check_table_output(path: Place, table: str, inputs: Iterable[Any] = ()) -> None:
    """Check, before anything slow, that a table of this kind (see `kinds.FIRST_COLUMNS`) may be written here.

    `inputs` are what the command reads, as for `check_output`.
    """
    check_format(path)
    check_output(path, table=table, inputs=inputs)
    reserved = RESERVED.get(path.name, table)
    if reserved != table and any(path.with_name(name).is_file() for name in ("start.json", "run.json")):
        raise FileError(f"{path} is the name for {reserved} in this run, and would hold {table}; use another name.")


class RowsWriter(AbstractContextManager["RowsWriter"]):
    """Write a table part by part. The file appears under its name only when complete."""

    def __init__(self, path: str | os.PathLike[str], schema: pa.Schema) -> None:
        self.path, self.schema = place(path), schema
        self.format = check_format(self.path)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            temporary = stack.enter_context(replacing(self.path, table=table_kind(self.schema.names)))
            if self.format == ".parquet":
                writer = pq.ParquetWriter(temporary, self.schema, compression="zstd", write_page_checksum=True)
                self.parts: Any = stack.enter_context(writer)
            elif self.format == ".csv":
                self.parts = stack.enter_context(pacsv.CSVWriter(str(temporary), self.schema))
            else:
                self.parts = stack.enter_context(temporary.open("w", encoding="utf-8"))
                stack.push(self._end_of_list)
                self.parts.write("[")
                self.rows_before = False
            self.stack = stack.pop_all()  # everything is open: from here on __exit__ closes it
        return self

    def write(self, part: pa.Table) -> None:
        """Append rows."""
        if self.format == ".parquet":
            self.parts.write_table(part)
        elif self.format == ".csv":
            self.parts.write_table(without_formulas(part))
        else:
            for row in finite_or_null(part).to_pylist():
                self.parts.write((",\n" if self.rows_before else "\n") + json.dumps(row, allow_nan=False, ensure_ascii=False))
                self.rows_before = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stack.__exit__(kind, error, trace)

    def _end_of_list(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.parts.write("\n]\n")


def finite_or_null(table: pa.Table) -> pa.Table:
    """NaN and infinities become nulls, because JSON has neither."""
    for index, column in enumerate(table.schema):
        if pa.types.is_floating(column.type):
            values = table.column(index)
            table = table.set_column(index, column, pc.if_else(pc.is_finite(values), values, None))
    return table


def with_formulas(text: Any) -> Any:
    """The inverse of `without_formulas` for a column that was read from a CSV of ours."""
    escaped = pc.fill_null(pc.match_substring_regex(text, r"^'+[=+\-@\t\r]"), False)
    return pc.if_else(escaped, pc.utf8_slice_codeunits(text, 1), text)


def without_formulas(table: pa.Table) -> pa.Table:
    """Prefix text that a spreadsheet would execute as a formula with an apostrophe; numbers are unchanged."""
    for index, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            text = table.column(index)
            risky = pc.fill_null(pc.match_substring_regex(text, FORMULA), False)
            if pc.any(risky).as_py():
                safe = pc.if_else(risky, pc.binary_join_element_wise("'", text, ""), text)
                table = table.set_column(index, column, safe)
    return table

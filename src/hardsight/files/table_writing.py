"""Tables written part by part, as Parquet, CSV or JSON: the name's ending says which."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hardsight.errors import InputError
from hardsight.files.places import Place, place
from hardsight.files.table_kinds import table_kind
from hardsight.files.writing import check_output, replacing

FORMATS = (".parquet", ".csv", ".json")
FORMULA = r"^[=+\-@\t\r]"  # what a spreadsheet would run


def check_format(path: Place) -> str:
    """The ending of a table's file name, one of FORMATS."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a table is written as {', '.join(FORMATS)}: give a name with one of these endings.")
    return path.suffix.lower()


def check_table_output(path: Place, table: str) -> None:
    """A table, one of `table_kinds.FIRST_COLUMNS`, may be written here: before anything slow."""
    check_format(path)
    check_output(path, table=table)


class RowsWriter(AbstractContextManager["RowsWriter"]):
    """Write a table part by part. The file appears under its name only when all is written."""

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
            self.stack = stack.pop_all()  # all of it is open: from here on __exit__ closes it
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
    """NaN and infinities as nulls: JSON has neither."""
    for index, column in enumerate(table.schema):
        if pa.types.is_floating(column.type):
            values = table.column(index)
            table = table.set_column(index, column, pc.if_else(pc.is_finite(values), values, None))
    return table


def without_formulas(table: pa.Table) -> pa.Table:
    """Text that a spreadsheet would take for a formula gets a leading apostrophe; numbers stay as they are."""
    for index, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            text = table.column(index)
            risky = pc.fill_null(pc.match_substring_regex(text, FORMULA), False)
            if pc.any(risky).as_py():
                safe = pc.if_else(risky, pc.binary_join_element_wise("'", text, ""), text)
                table = table.set_column(index, column, safe)
    return table

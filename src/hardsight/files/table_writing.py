"""What holds for every table that is written: its formats, where it may go, and text and numbers that a format cannot hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import FileError, InputError
from hardsight.files.kinds import RESERVED
from hardsight.files.places import Place
from hardsight.files.writing import check_output

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

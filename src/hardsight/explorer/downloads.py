"""The selection or the review as a table, and as a file to download: CSV, Parquet or a list of paths."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hardsight.errors import InputError
from hardsight.explorer.columns import rows_of, words
from hardsight.explorer.display import Display
from hardsight.explorer.review import Review
from hardsight.files.suspects import DUPLICATE_OF
from hardsight.files.table_writing import without_formulas
from hardsight.table import noted_as_hardness, with_mark

FORMATS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "txt": "text/plain; charset=utf-8"}


def selection_table(display: Display, rows: np.ndarray, review: Review) -> pa.Table:
    """The rows with all their columns, and their marks if there are any."""
    indices = pa.array(rows)
    columns: dict[str, Any] = {"id": display.ids.take(indices)}
    if display.paths is not None:
        columns["path"] = display.paths.take(indices)
    for name, column in display.columns.items():
        values = column.values[rows]
        if column.names is None:
            columns[name] = pa.array(values, from_pandas=True)
        elif name in ("label", "predicted", "suggested_label"):
            columns[name] = pa.array(values.astype(np.int64), mask=values >= len(column.names))
            columns[f"{name}_name"] = words(column).take(indices)
        elif column.names == ["false", "true"]:
            columns[name] = pa.array(values == 1, mask=values >= len(column.names))
        else:
            columns[name] = words(column).take(indices)
    if display.suspects is not None:
        columns[DUPLICATE_OF] = display.suspects.duplicate_of.take(indices)
    _, marks = review.current()
    if marks:
        given = [marks.get(id) for id in columns["id"].to_pylist()]
        columns["mark"] = pa.array([None if mark is None else mark.mark for mark in given], pa.string())
        columns["suggestion"] = pa.array([None if mark is None else mark.suggestion for mark in given], pa.int64())
    table = pa.table(columns)
    return noted_as_hardness(table) if display.hardness else table


def review_table(display: Display, review: Review) -> pa.Table:
    """The review with each sample's path."""
    table = review.table()
    if display.paths is not None:
        rows = rows_of(table.column("id"), display.ids)
        table = table.add_column(1, "path", display.paths.take(pa.array(rows, mask=rows < 0)))
    return table


def as_file(table: pa.Table, form: str, roots: list[str]) -> bytes:
    """The bytes of a file: csv, parquet, or txt with one path per line."""
    if form not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {form!r}.")
    stream = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
    elif form == "csv":
        pacsv.write_csv(without_formulas(with_mark(table)), stream)
    else:
        return _list(table, roots)
    return stream.getvalue()


def _list(table: pa.Table, roots: list[str]) -> bytes:
    name = "path" if "path" in table.column_names else "id"
    lines = [str(value) for value in table.column(name).to_pylist() if value is not None]
    if any("\n" in line or "\r" in line for line in lines):
        raise InputError("some paths contain line breaks, which a list of lines cannot hold; export CSV or Parquet.")
    if name == "path" and roots:
        lines = [line if line.startswith("/") else f"{roots[0]}/{line}" for line in lines]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

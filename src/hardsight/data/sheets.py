"""CSV (or .tsv) and Parquet with one row per image: `path`, and if known `label`, `id`, `split` and any further column.

Paths are read from the folder of the file. Labels are class indices or class names. A `class_name` column names the
classes of integer labels; else the folders do, where they agree one to one. Further columns come through as they are; in
a CSV a column whose every value reads as a number becomes numbers ("007" stays text), and an empty cell is null.
"""

from __future__ import annotations

import csv
import importlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardsight.data.dataset import ImageData
from hardsight.data.files import ImageFiles, path_below, printable
from hardsight.data.labels import names_by_label, read_labels
from hardsight.data.layout import read_layout
from hardsight.data.lists import name_from_folders
from hardsight.errors import FileError, InputError

Columns = dict[str, list[Any]]


def read_sheet(path: Path, level: int | None = None, label_column: str | None = None) -> ImageData:
    """The images that a CSV or Parquet file names, in its order."""
    kind = "parquet" if path.suffix.lower() == ".parquet" else "csv"
    columns = read_columns(path)
    _check_names(path, columns, label_column or "label", required=label_column is not None)
    root = os.path.realpath(path.parent)

    def where(row: int) -> str:
        return f"{path}, row {row + 1}"

    paths = [path_below(root, _text(value, "path", where(row)), where(row)) for row, value in enumerate(columns["path"])]
    names = [printable(each) for each in paths]
    ids = names
    if "id" in columns:
        ids = [printable(_text(value, "id", where(row))) for row, value in enumerate(columns["id"])]
    data = ImageData(
        kind=kind,
        ids=ids,
        images=ImageFiles.below(path.parent, paths),
        columns={"path": names, **{k: v for k, v in columns.items() if k not in ("path", "id", "label", label_column)}},
        roots=[Path(root)],
    )
    if level is not None:
        layout = read_layout(paths, level)
        return replace(data, labels=layout.labels, class_names=layout.class_names, notes=layout.notes)
    values = columns.get(label_column or "label")
    if values is None:
        return data
    labels = read_labels(values, where)
    class_names = labels.class_names
    if class_names is None and "class_name" in columns:
        class_names = names_by_label(labels.index, columns["class_name"])
    if class_names is None:
        class_names, _ = name_from_folders(paths, labels.index)
    return replace(data, labels=labels.index, class_names=class_names, notes=labels.notes)


def read_columns(path: Path) -> Columns:
    """The columns of a CSV, .tsv or Parquet file by name."""
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path)


def _read_parquet(path: Path) -> Columns:
    arrow = importlib.import_module("pyarrow")  # untyped, and slow to import: only when asked for
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(path).read()
    except (arrow.ArrowException, OSError) as error:
        raise FileError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]}).") from error
    _check_once(path, table.column_names)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _read_csv(path: Path) -> Columns:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True))
    except (OSError, csv.Error) as error:
        raise FileError(f"{path}: not a readable CSV file ({error}).") from error
    rows = [row for row in rows if row]
    if not rows:
        raise FileError(f"{path}: a CSV must begin with a line of column names, such as `path,label`; this one is empty.")
    header = [name.strip() for name in rows[0]]
    _check_once(path, header)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise FileError(f"{path}, row {number}: expected {len(header)} values, one per column, got {len(row)}.")
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    text = {"path", "id", "label", "split", "class_name"}
    return {name: _empty_is_null(column) if name in text else _typed(column) for name, column in zip(header, cells, strict=True)}


def _empty_is_null(column: Sequence[str]) -> list[Any]:
    return [cell if cell else None for cell in column]


def _typed(column: Sequence[str]) -> list[Any]:
    """Numbers where every cell is written as one, else the text; bytes that are not UTF-8 are spelled out."""
    full = [cell for cell in column if cell]
    if full and all(re.fullmatch("-?(0|[1-9][0-9]{0,17})", cell) for cell in full):
        return [int(cell) if cell else None for cell in column]
    if full and all(re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", cell) for cell in full):
        return [float(cell) if cell else None for cell in column]
    return [printable(cell) if cell else None for cell in column]


def _check_once(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise InputError(f"{path}: column names must differ, but {', '.join(map(repr, twice))} comes more than once.")


def _check_names(path: Path, columns: Columns, label: str, *, required: bool) -> None:
    lowered = {name.lower(): name for name in columns}
    for name in ["path", *([label] if required else [])]:
        if name not in columns:
            near = lowered.get(name.lower())
            hint = f" Rename {near!r} to {name!r}." if near else ""
            raise InputError(f"{path}: a column {name!r} is needed, got {', '.join(map(repr, columns))}.{hint}")
    for name in ("label", "id", "split"):
        if name not in columns and name in lowered:
            raise InputError(
                f"{path}: column {lowered[name]!r} is not {name!r}: rename it to be read as such, or to something else."
            )


def _text(value: Any, column: str, where: str) -> str:
    if value is None or value == "" or isinstance(value, (float, bytes, bool)):
        raise InputError(f"{where}: {column} must be text (or a whole number for an id), got {value!r}.")
    return str(value)

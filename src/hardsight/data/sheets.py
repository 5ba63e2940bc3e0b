"""CSV (or .tsv) and Parquet with one row per image: `path`, and if known `label`, `id`, `split` and any further column.

Paths are read from the folder of the file. Labels are class indices or class names. A `class_name` column names the
classes of integer labels; else the folders do, where they agree one to one. Further columns come through as they are; in
a CSV a column whose every value reads as a number becomes numbers ("007" stays text), and an empty cell is null.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardsight.data.dataset import ImageData
from hardsight.data.files import ImageFiles, path_below
from hardsight.data.labels import Written, named, names_by_label, read_labels
from hardsight.data.layout import read_layout
from hardsight.data.lists import name_from_folders
from hardsight.errors import InputError, did_you_mean, nearest
from hardsight.files.places import utf8_name
from hardsight.files.table_files import Columns, read_columns

PATH_WORDS = ("file", "filename", "file_name", "filepath", "file_path", "image_path", "img_path", "image", "img", "fname")


def read_sheet(path: Path, level: int | None = None, label_column: str | None = None) -> ImageData:
    """The images that a CSV or Parquet file names, in its order."""
    kind = "parquet" if path.suffix.lower() == ".parquet" else "csv"
    columns = read_columns(path)
    _check_names(path, columns, label_column or "label", required=label_column is not None)
    root = os.path.realpath(path.parent)

    def where(row: int) -> str:
        return f"{path}, row {row + 1}"

    paths = [path_below(root, _text(value, "path", where(row)), where(row)) for row, value in enumerate(columns["path"])]
    names = [utf8_name(each) for each in paths]
    ids = names
    if "id" in columns:
        ids = [utf8_name(_text(value, "id", where(row))) for row, value in enumerate(columns["id"])]
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
    labels = read_labels(values if kind == "parquet" else Written(values), where)
    if "class_name" in columns:
        labels = named(labels, names_by_label(labels.numbers, columns["class_name"]))
    labels = named(labels, name_from_folders(paths, labels.numbers)[0])
    return replace(data, labels=labels.numbers, class_names=labels.class_names, notes=labels.notes)


def _path_column(lowered: dict[str, str]) -> str | None:
    """The column that seems to hold the paths, by its name in lower case."""
    return next((lowered[word] for word in PATH_WORDS if word in lowered), None) or nearest("path", lowered.values())


def _check_names(path: Path, columns: Columns, label: str, *, required: bool) -> None:
    lowered = {name.lower(): name for name in columns}
    for name in ["path", *([label] if required else [])]:
        if name not in columns:
            near = lowered.get(name.lower()) or (_path_column(lowered) if name == "path" else None)
            hint = f" Rename {near!r} to {name!r}." if near else did_you_mean(name, columns)
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

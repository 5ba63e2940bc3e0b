"""Files that list images: text, CSV, Parquet. Paths are read from the folder of the file.

text           one `path label` per line, as Office-Home, VisDA (image_list.txt) and others use. The label is the last word,
               so paths may hold spaces: a class index or a class name. A line that ends like an image name has none.
CSV, Parquet   `path`, and if known `label`, `id`, `split` and any further column, which comes through as it is. In a CSV a column
               whose every value reads as a number becomes numbers ("007" stays text), and an empty cell is null.

A `class_name` column names the classes of integer labels; else the folders do, where they agree one to one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data.dataset import ImageData
from hardsight.data.files import ImageFiles, is_image_name, path_below
from hardsight.data.labels import named, names_by_label, read_labels, split_name
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, InputError, did_you_mean, nearest
from hardsight.files.places import utf8_name
from hardsight.files.table_files import Columns, read_columns
from hardsight.labels import Written

LIST_NAME = "image_list.txt"


@dataclass(frozen=True)
class Line:
    """One line of a list: where it stands, the path below the root, the label as written (None: unlabeled)."""

    where: str
    path: str
    label: str | None


def read_list(path: Path, level: int | None = None) -> ImageData:
    """The images that one list file names."""
    return _from_lines(path.parent, read_lines(path), {}, level)


def lists_in(folder: Path) -> list[Path]:
    """The folder's own image_list.txt, or those of the folders just below it."""
    directly = folder / LIST_NAME
    return [directly] if directly.is_file() else sorted(folder.glob(f"*/{LIST_NAME}"))


def read_lists(folder: Path, lists: Sequence[Path]) -> ImageData:
    """Several lists as one: VisDA's train/, validation/ and test/image_list.txt. Their folders become the split or domain."""
    if len(lists) == 1 and lists[0].parent == folder:
        return read_list(lists[0])
    lines: list[Line] = []
    origin: list[str] = []
    parts: list[slice] = []
    for path in lists:
        name = path.parent.name
        below = [Line(line.where, f"{name}/{line.path}", line.label) for line in read_lines(path)]
        parts.append(slice(len(lines), len(lines) + len(below)))
        lines += below
        origin += [name] * len(below)
    splits = [split_name(name) for name in origin]
    columns = {"domain": [utf8_name(name) for name in origin]} if None in splits else {"split": splits}
    return _from_lines(folder, lines, columns, None, parts)


def read_lines(path: Path) -> list[Line]:
    """The lines of a list, each path proven to lie below the list's folder. Empty lines are skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}).") from error
    if "\0" in text:
        raise FileError(f"{path}: a list must be text, one `path label` per line; this file is binary.")
    root = os.path.realpath(path.parent)
    lines = []
    for number, line in enumerate(re.split("\r\n|\n|\r", text), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            name, label = _split_line(line.strip(), where)
            lines.append(Line(where, path_below(root, name, where), label))
    return lines


def _split_line(line: str, where: str) -> tuple[str, str | None]:
    pair = re.fullmatch(r"(.*\S)\s+(\S+)", line, flags=re.DOTALL)
    if pair and (re.fullmatch(r"[+-]?[0-9]+", pair[2]) or (is_image_name(pair[1]) and not is_image_name(line))):
        return pair[1], pair[2]
    if is_image_name(line):
        return line, None
    raise InputError(f"{where}: expected `path label` or the path of an image, got {utf8_name(line)!r}.")


def _from_lines(
    root: Path, lines: list[Line], columns: dict[str, list[Any]], level: int | None, parts: Sequence[slice] = ()
) -> ImageData:
    paths = [line.path for line in lines]
    names = [utf8_name(path) for path in paths]
    data = _files("list", names, os.path.realpath(root), paths, {"path": names, **columns}, level)
    if level is not None:
        return data
    labels = read_labels(Written(line.label for line in lines), lambda row: lines[row].where)
    if labels.class_names is not None:
        return replace(data, labels=labels.numbers, class_names=labels.class_names, notes=labels.notes)
    class_names, folder_columns = name_from_folders(paths, labels.numbers)
    under = named(labels, class_names)
    for part in parts:  # a list whose folders say nothing (test/trunk0/...) does not spoil the names from another
        under = under if under.class_names else named(labels, name_from_folders(paths[part], labels.numbers[part])[0])
    columns = {**folder_columns, **data.columns}
    return replace(data, labels=under.numbers, class_names=under.class_names, columns=columns, notes=under.notes)


def _files(kind: str, ids: list[str], root: str, paths: list[str], columns: dict[str, list[Any]], level: int | None) -> ImageData:
    """Image files by their paths below a root, labeled by the folder of a level if there is one."""
    data = ImageData(kind, ids, ImageFiles(root, paths), columns=columns, roots=[Path(root)])
    if level is None:
        return data
    layout = read_layout(paths, level)
    return replace(data, labels=layout.labels, class_names=layout.class_names, notes=layout.notes)


def name_from_folders(paths: Sequence[str], labels: np.ndarray) -> tuple[list[str] | None, dict[str, list[Any]]]:
    """Class names, and `split` and `domain` columns, from the folders, where they agree with the labels one to one."""
    layout = read_layout(paths)
    if layout.labels is None or layout.class_names is None:
        return None, {}
    words = [layout.class_names[k] if k >= 0 else None for k in layout.labels.tolist()]
    names = names_by_label(labels, words)
    return names, dict(layout.columns) if names is not None else {}


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
    further = {name: column for name, column in columns.items() if name not in ("path", "id", "label", label_column)}
    data = _files(kind, ids, root, paths, {"path": names, **further}, level)
    values = columns.get(label_column or "label")
    if level is not None or values is None:
        return data
    labels = read_labels(values if kind == "parquet" else Written(values), where)
    if "class_name" in columns:
        labels = named(labels, names_by_label(labels.numbers, columns["class_name"]))
    labels = named(labels, name_from_folders(paths, labels.numbers)[0])
    return replace(data, labels=labels.numbers, class_names=labels.class_names, notes=labels.notes)


def _check_names(path: Path, columns: Columns, label: str, *, required: bool) -> None:
    lowered = {name.lower(): name for name in columns}
    for name in ["path", *([label] if required else [])]:
        if name not in columns:
            near = lowered.get(name.lower())
            if near is None and name == "path":
                near = next((lowered[word] for word in PATH_WORDS if word in lowered), None) or nearest("path", lowered.values())
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

"""What a file holds: a snapshot, a scores table or images, for every command that reads; and which of our tables, or which
arrays, by its columns, so that none replaces another kind.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import FileError, InputError
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.parquet import parquet_columns
from hardsight.files.places import PARQUET, SAMPLE_ENDINGS, TEXT_TABLES, Place
from hardsight.files.reading import reading
from hardsight.files.writing import START, check_output
from hardsight.scores import SCORES

Kind = Literal["snapshot", "scores", "images"]


def kind_of(path: Path) -> Kind:
    """The kind of a run directory, a folder or a file. Anything else counts as images, whose reader reports what it needs."""
    if path.is_dir():
        return _kind_of_directory(path)
    ending = path.suffix.lower()
    if not path.is_file() or ending not in (*SAMPLE_ENDINGS, ".json"):
        return "images"
    if ending == ".npz":
        return "snapshot" if set(LIST_COLUMNS) & set(open_npz(path)) else "images"
    if ending == ".npy":
        return "snapshot" if open_npy(path).ndim <= 2 else "images"
    if ending == ".json":
        return "scores"
    with reading(path, f"not a readable {ending} file"):
        return _kind_of_columns(COLUMNS[ending](path)) if ending in COLUMNS else "snapshot"


def _kind_of_directory(path: Path) -> Kind:
    if (path / "samples").is_dir() and (path / "run.json").is_file():
        return "snapshot"
    if (path / "scores.parquet").is_file():
        return "scores"
    # An incomplete run: its reader reports it; or the epochs that a training loop recorded.
    return "snapshot" if (path / "start.json").is_file() or any((path / "dynamics").glob("epoch=*.parquet")) else "images"


def _kind_of_columns(names: Iterable[str]) -> Kind:
    """Paths or encoded images, without features or predictions, mean images; `are_scores` decides of the rest."""
    held = set(names)
    if held & IMAGE_COLUMNS and not held & {"predicted", "status", *LIST_COLUMNS}:
        return "images"
    return "scores" if are_scores(held) else "snapshot"


def are_scores(names: Iterable[str], by: str | None = None) -> bool:
    """Whether columns of these names are a table of scores: the one rule of it; `by` is a column that the caller ranks by."""
    held = set(names)
    if held & set(LIST_COLUMNS):
        return False
    if held <= {"id", "label", "split", "path"}:  # nothing that could be a feature
        return True
    return {"predicted", "status"} <= held or any(name in SCORES for name in held) or (by is not None and by in held)


def holds_scores(path: Place, by: str | None = None) -> bool:
    """Whether a file is a table of scores, by its columns, or a directory has one and nothing to score."""
    if path.is_dir():
        return isinstance(path, Path) and kind_of(path) == "scores"
    read = COLUMNS.get(path.suffix.lower())
    if read is None or not path.is_file():
        return False
    with reading(path):
        return are_scores(read(path), by)


def holds_features(path: Path) -> bool:
    """Whether a run or a file is a snapshot of features rather than images, or a table of which it must be said."""
    if path.suffix.lower() in TEXT_TABLES or kind_of(path) != "snapshot":
        return False
    names = parquet_columns(path) if path.suffix.lower() in PARQUET else LIST_COLUMNS
    return bool(set(LIST_COLUMNS) & set(names)) and not IMAGE_COLUMNS & set(names)


IMAGE_COLUMNS = {"path", "image", "img"}  # of a table of images, whatever else it holds
LIST_COLUMNS = ("features", "logits", "probs", "pred_probs")  # in samples; the last two are synonyms
SAMPLES = "samples with features"
FIRST_COLUMNS = {  # the first columns of each of our tables
    "scores": ("id", "label", "predicted", "status"),
    "suspects": ("id", "given_label", "suggested_label"),
    "labels after a review": ("id", "label", "given_label"),
    "a person's marks": ("id", "mark", "suggestion"),
    "a subset": ("id", "reason"),
    "the cost curve of subsets": ("subset", "budget", "accuracy"),
    "a curriculum": ("id", "position", "first_epoch"),
    "people's predicted answers": ("id", "predicted_frequency", "low"),
    "triplets": ("anchor", "positive", "negative"),
    "pairs": ("first", "second", "same_class"),
    "groups of an audit": ("group", "n", "accuracy"),
    "what drifted": ("id", "harder", "change"),
    "classes that drifted": ("class", "label", "n"),
}
RESERVED = {  # names in a run that later commands read
    "scores.parquet": "scores",
    "suspects.parquet": "suspects",
    "labels.parquet": "labels after a review",
    "subset.parquet": "a subset",
    "audit.parquet": "groups of an audit",
    "audit.samples.parquet": "the groups of each sample",
    "drift.parquet": "what drifted",
    "drift.classes.parquet": "classes that drifted",
}


def table_kind(columns: Iterable[str]) -> str | None:
    """A description of a table with these columns; None without columns.

    Example:
        >>> table_kind(["id", "label", "predicted", "status", "avh"]), table_kind(["photo", "votes"])
        ('scores', "a table that begins with the column 'photo'")
    """
    names = tuple(columns)
    if set(names) & set(LIST_COLUMNS):
        return SAMPLES
    for kind, first in FIRST_COLUMNS.items():
        if names[: len(first)] == first:
            return kind
    return f"a table that begins with the column {names[0]!r}" if names else None


def kind_in_file(path: Place) -> str | None:
    """A description of the table or arrays in a file; None if it is unreadable, so that there is nothing to protect."""
    columns = COLUMNS.get(path.suffix.lower())
    try:
        if path.suffix.lower() == ".npz":
            names = list(open_npz(path))
            return SAMPLES if set(names) & set(LIST_COLUMNS) else f"other arrays ({', '.join(names[:3])})"
        return None if columns is None else table_kind(columns(path))
    except (FileError, ValueError, csv.Error):
        return None


def _start(path: Place) -> str:
    with path.open("rb") as file:
        return file.read(START).decode("utf-8-sig", "replace")


def _csv_columns(path: Place) -> list[str]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    return [name.strip() for name in next(csv.reader(_start(path).splitlines(keepends=True), delimiter=delimiter), [])]


def _json_columns(path: Place) -> list[str]:
    """The keys of the first object in a list; those of a document are not columns, but distinguish it from a table."""
    text = _start(path).lstrip()
    value, _ = json.JSONDecoder().raw_decode(text.removeprefix("[").lstrip())
    return list(value) if isinstance(value, dict) else []


COLUMNS: dict[str, Callable[[Place], Iterable[str]]] = {  # of tables, which may hold samples, scores or images
    ".parquet": parquet_columns,
    ".pq": parquet_columns,
    ".csv": _csv_columns,
    ".tsv": _csv_columns,
    ".json": _json_columns,
}


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

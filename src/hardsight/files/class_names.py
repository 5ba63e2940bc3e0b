"""Class names and labels in files: names one per line or as a JSON list; the label column of Arrow tables and Parquet files."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import UNLABELED, as_array, check_labels, is_text
from hardsight.errors import FileError, InputError
from hardsight.files.parquet import table_notes
from hardsight.files.reading import existing_file, naming, reading
from hardsight.labels import Classes, LabelRule, UnknownName, check_names, is_missing, missing_note, rule_for_names


def read_class_names(path: str | os.PathLike[str], num_classes: int | None = None) -> list[str]:
    """The names in class order, one per class. Blank lines at the end are ignored."""
    path = existing_file(path)
    with reading(path, "class names could not be read"):
        text = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
        names = json.loads(text) if path.suffix.lower() == ".json" else _lines(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(f"{path}: class names must be one per line, or a JSON list of strings.")
    with naming(path):
        return check_class_names(names, num_classes)


def given_class_names(names: Any) -> list[str] | None:
    """The names of a file, or a list of them; None if there are none."""
    if names is None or not isinstance(names, (str, os.PathLike)):
        return None if names is None else check_class_names(names, None)
    return read_class_names(names)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def check_class_names(names: Any, num_classes: int | None) -> list[str]:
    """The names as a list of strings, all different, one per class if the number of classes is known."""
    values = names if isinstance(names, (list, tuple)) else as_array(names, "class names").tolist()
    if not isinstance(values, (list, tuple)):
        raise InputError(f"class names must be a list of strings, got {type(names).__name__}.")
    names = list(values)
    for number, name in enumerate(names):
        if not is_text(name):
            raise InputError(f"class names must be text, but the name of class {number} is {name!r:.80}.")
    if num_classes is not None and len(names) != num_classes:
        raise InputError(f"there must be one class name per class, got {len(names)} for {num_classes} classes.")
    return check_names(str(name) for name in names)


# ---- the label column: class numbers, class names, or numbers with names in the schema ----


def label_numbers(column: Any, rule: LabelRule, first_row: int = 0) -> np.ndarray:
    """(n,) int64 class numbers of a part of a column, -1 for null."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if rule.position is not None and holds_names(column.type):
        words = pa.array(list(rule.position), pa.string())
        numbers = pa.array(list(rule.position.values()), pa.int64())
        found = numbers.take(pc.index_in(as_text(column), value_set=words, skip_nulls=True))
        return np.asarray(pc.fill_null(found, UNLABELED))
    return rule.of_numbers(whole_numbers(column, first_row))


def rule_for_columns(columns: dict[str, Any], classes: Classes) -> LabelRule:
    """One rule for columns of text, made from the distinct names in all of them; the keys name the columns in messages."""
    known = frozenset(classes.names or ())
    words = {word for column in columns.values() for word in column.unique().drop_null().to_pylist()}
    try:
        rule = rule_for_names({word for word in words if not is_missing(word, known)}, classes)
    except UnknownName as error:
        rows = {where: pc.index(column, error.name).as_py() for where, column in columns.items()}
        where = next(where for where, row in rows.items() if row >= 0)
        raise InputError(f"{where}, row {rows[where]}: {error}") from error
    spelled = sorted(word for word in words if is_missing(word, known))
    missing = [pc.is_in(column, value_set=pa.array([None, *spelled], pa.string())) for column in columns.values()]
    note = missing_note(spelled, sum(pc.sum(gaps).as_py() or 0 for gaps in missing), sum(map(len, missing)))
    return replace(rule, notes=rule.notes + note)


def whole_numbers(column: Any, first_row: int = 0) -> np.ndarray:
    """(n,) int64 labels of a part of a column that holds numbers, -1 for null; fractions, dates and the like are refused."""
    if pa.types.is_null(column.type):
        return np.full(len(column), UNLABELED)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_signed_integer(column.type):
        column = pc.fill_null(column, UNLABELED)
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return check_labels(values, None, None, first_row)  # other numbers with nulls are floats with NaN


def holds_names(kind: pa.DataType) -> bool:
    """Whether a column of this type holds class names: text, booleans, or categories of them."""
    if pa.types.is_dictionary(kind):
        return holds_names(kind.value_type)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_boolean)
    return any(is_one(kind) for is_one in text)


def as_text(column: Any) -> Any:
    """A column of names as strings; booleans become True and False."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pc.if_else(column, "True", "False") if pa.types.is_boolean(column.type) else column.cast(pa.string())


def class_label_names(schema: pa.Schema, name: str) -> list[str] | None:
    """Class names from the schema of a file: our own, or the `ClassLabel` of a column of a Hugging Face file."""
    names, metadata = table_notes(schema).get("class_names"), schema.metadata or {}
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        column = json.loads(metadata.get(b"huggingface", b"null"))["info"]["features"][name]
        names = column["names"] if column["_type"] == "ClassLabel" else names
    if not isinstance(names, list) or not names or not all(isinstance(word, str) for word in names):
        return None
    with naming(f"column {name}"):
        return check_names(names)

"""The label column of Parquet files: class numbers, class names, or numbers with names in the schema."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import UNLABELED
from hardsight.errors import InputError
from hardsight.files.parquet import table_notes
from hardsight.named_labels import class_numbers


class LabelColumn:
    """How the values of the column map to class numbers: by their names, or by the order of another list of names."""

    def __init__(self, names: list[str] | None = None, renumbered: np.ndarray | None = None) -> None:
        self.names, self.renumbered = names, renumbered

    @classmethod
    def joined(
        cls, schema: pa.Schema, name: str, values: Iterable[Any], known: tuple[list[str] | None, int | None]
    ) -> tuple[LabelColumn, list[str] | None]:
        """The column of that name matched to the known class names or number of classes, and the resulting class names.

        `values` returns the distinct values, which are read only if they are names.
        """
        class_names, num_classes = known
        if holds_names(schema.field(name).type):
            _, names = class_numbers(list(values), class_names, num_classes)
            return cls(names), names
        own = class_label_names(schema, name)
        if own is None or class_names is None:
            fits = own is not None and num_classes in (None, len(own))
            return cls(), own if class_names is None and fits else class_names
        if set(own) <= set(class_names):  # otherwise the two lists use different words for the same classes
            return cls(renumbered=np.array([*(class_names.index(word) for word in own), UNLABELED])), class_names
        return cls(), class_names

    def numbers(self, column: Any) -> np.ndarray:
        """(n,) numbers, not validated yet; null is -1, or NaN among floats."""
        if pa.types.is_null(column.type):
            return np.full(len(column), UNLABELED)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if holds_names(column.type):
            column = as_text(column)
            if self.names is None:
                column = pc.if_else(pc.equal(column, ""), None, column).cast(pa.int64())
            else:
                column = pc.index_in(column, value_set=pa.array(self.names, pa.string()), skip_nulls=True)
        elif pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_signed_integer(column.type):
            column = pc.fill_null(column, UNLABELED)
        numbers = np.asarray(column.to_numpy(zero_copy_only=False))  # other numbers with nulls become floats with NaN
        if self.renumbered is None or numbers.dtype.kind not in "iu":
            return numbers
        outside = (numbers < UNLABELED) | (numbers >= len(self.renumbered) - 1)
        return np.where(outside, numbers, self.renumbered[np.where(outside, UNLABELED, numbers)])


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
    if isinstance(names, list) and names and all(isinstance(word, str) for word in names):
        if len(set(names)) != len(names):
            raise InputError(f"the class names of {name} must be unique, but {len(names) - len(set(names))} are repeated.")
        return names
    return None

"""Samples in memory, opened: arrays, tensors, frames and Arrow columns, joined by their index or by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np

from hardsight.checks import as_array, as_matrix, check_ids, from_stream, given_probs, is_list_column, is_text, list_matrix
from hardsight.errors import InputError
from hardsight.files.class_names import given_class_names
from hardsight.files.heads import ARRAYS
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.wide_tables import Parts, check_columns, is_table, names_columns, take_apart, warn_of_scales
from hardsight.fitted_estimator import FittedEstimator, fitted_columns
from hardsight.head import Head, as_head, is_estimator
from hardsight.labels import Classes
from hardsight.pandas_index import align, classes_in, in_class_order, index_ids, same_columns
from hardsight.snapshot.sources import ArraySource, Source

EVIDENCE = ("features", "logits", "probs")
OWN_NAMES = (*ARRAYS, "kind", "scale", "labels", "ids", "class_names")  # arrays in an .npz other than features


@dataclass(frozen=True)
class Opened:
    """Rows, and what is known of the model that saw them."""

    source: Source
    head: Head | None = None
    classes: Classes = Classes()
    others: dict[str, Any] = field(default_factory=dict)  # further evidence of the same rows, such as probs next to features


class ArrayOptions(TypedDict, total=False):
    """The keywords of `Snapshot`."""

    bias: Any
    logits: Any
    probs: Any
    pred_probs: Any
    ids: Any
    class_names: Any
    columns: dict[str, Any] | None
    allow_duplicates: bool


@dataclass(frozen=True)
class Arrays:
    """The arguments of `Snapshot`."""

    features: Any = None
    head: Any = None
    labels: Any = None
    bias: Any = None
    logits: Any = None
    probs: Any = None
    pred_probs: Any = None
    ids: Any = None
    class_names: Any = None
    columns: dict[str, Any] | None = None
    allow_duplicates: bool = False

    def evidence(self) -> dict[str, Any]:
        """Features, logits or probs by name; only features may have one of the others next to them."""
        held = {name: getattr(self, name) for name in EVIDENCE if getattr(self, name) is not None}
        if not held or len(held) == 2 and "features" not in held or len(held) > 2:
            raise InputError(f"a snapshot holds features, logits or probs, got {' and '.join(held) or 'none of them'}.")
        return held

    def taken_apart(self, chosen: Any) -> tuple[Arrays, Parts]:
        """The same with the columns of a frame in their places; `chosen` names those of the features."""
        parts = take_apart(self.features, fitted_columns(self.head) if chosen is None else chosen, self.labels, self.ids)
        held = {"features": None, parts.evidence: parts.values, "labels": parts.labels, "ids": parts.ids}
        return replace(self, **held, columns={**parts.columns, **(self.columns or {})}), parts


def open_arrays(given: Arrays, chosen: Any = None) -> Opened:
    """The rows that were given; `chosen` names the columns of a table that are the features."""
    _check_arguments(given, chosen)
    given = replace(given, probs=given_probs(given.probs, given.pred_probs), class_names=given_class_names(given.class_names))
    parts = Parts("features", None)
    if is_table(given.features) and names_columns(given.features, chosen, given.labels, given.ids):
        given, parts = given.taken_apart(chosen)
    arrays = given.evidence()
    evidence, values = next(iter(arrays.items()))
    names = check_columns(values) if evidence == "features" and is_table(values) else parts.names
    values, head = _in_order(evidence, from_stream(values), given)
    source = _rows(evidence, values, replace(given, head=head))
    source.note, source.label_names = parts.note, parts.class_names
    if head is None and names:
        warn_of_scales(source.values, names)
    others = {name: align(arrays[name], name, values, evidence, source.ids) for name in list(arrays)[1:]}
    if is_estimator(head):
        return replace(behind_estimator(source, head, values, given.class_names), others=others)
    classes = classes_in(head, 0, source.labels) if evidence == "features" else classes_in(values, 1, source.labels)
    return Opened(source, None if head is None else as_head(head, given.bias), _named(source, classes, given.class_names), others)


def _check_arguments(given: Arrays, chosen: Any) -> None:
    if is_estimator(given.features):
        raise InputError("the samples come first, and the model after them: score(X, model, y).")
    if given.bias is not None and given.head is None:
        raise InputError("bias goes with a weight, and there is none: give head= as well.")
    if chosen is not None and not is_table(given.features):
        raise InputError(
            f"features names columns of a table, but the samples are {type(given.features).__name__}: use one of them."
        )


def behind_estimator(source: ArraySource, estimator: Any, rows: Any, class_names: Sequence[str] | None) -> Opened:
    """The rows as the linear step of a fitted classifier sees them, with its head and classes."""
    fitted = FittedEstimator(estimator)
    if class_names is not None and not fitted.counted and list(class_names) != fitted.class_names:
        raise InputError(f"a classifier has its own class names: {', '.join(fitted.class_names[:20])}.")
    head = source.behind(fitted, rows)
    source.label_names = None  # labels are as they were passed to fit
    return Opened(source, head, _named(source, fitted.known_classes(), class_names))


def _named(source: ArraySource, classes: Classes, class_names: Sequence[str] | None) -> Classes:
    """The classes under the names that the user gave them; integers that labels mean are looked up under the old names."""
    if class_names is None:
        return classes
    if classes.integers and list(class_names) != list(classes.names or ()):
        source.read_labels(classes)
    return Classes(class_names)


def _in_order(evidence: str, values: Any, given: Arrays) -> tuple[Any, Any]:
    """Values and head with rows and columns in the order of the classes and the features, where frames name them."""
    if evidence == "features":
        return values, in_class_order(same_columns(given.head, values), given.class_names, axis=0)
    return in_class_order(values, given.class_names), given.head


def _rows(evidence: str, values: Any, given: Arrays) -> ArraySource:
    """The values with labels, ids and columns, joined by index."""
    numbers, missing = list_matrix(values, evidence) if is_list_column(values) else (values, None)
    matrix = as_matrix(numbers, evidence)
    if given.labels is None and _looks_like_labels(given.head, len(matrix)):
        raise InputError("the second argument is the head, a model or its weight; labels go by name: score(X, labels=y).")
    ids = index_ids(values) if given.ids is None else align(given.ids, "ids", values, evidence)
    ids = None if ids is None else check_ids(ids, len(matrix))
    labels = align(given.labels, "labels", values, evidence, ids)
    columns = _check_columns(given.columns or {}, len(matrix))
    further = {name: align(column, f"column {name}", values, evidence, ids) for name, column in columns.items()}
    return ArraySource(evidence, matrix, labels, ids, further, missing)


def _looks_like_labels(head: Any, n: int) -> bool:
    """Whether the argument passed as head is actually one label per sample: a list, an array or a pandas column."""
    flat = np.ndim(head) == 1 if isinstance(head, list) else getattr(head, "ndim", None) == 1
    return flat and n > 0 and len(head) == n


def _check_columns(columns: Any, num_samples: int) -> dict[str, Any]:
    """Other columns: names that are not reserved, one value per sample."""
    if not isinstance(columns, dict):
        raise InputError(f"columns must be a dict of names and (n,) arrays, got {type(columns).__name__}.")
    for name, column in columns.items():
        if not is_text(name) or not name or set(name) & set("/\\"):
            raise InputError(f"columns need names of text without slashes, got {name!r}.")
        if name in (*OWN_NAMES, *LIST_COLUMNS):
            raise InputError(f"{name} is a reserved name in a snapshot and cannot be a further column.")
        shape = as_array(column, f"column {name}").shape
        if shape != (num_samples,):
            raise InputError(f"column {name} must have one entry per sample, got shape {shape} for {num_samples} samples.")
    return columns

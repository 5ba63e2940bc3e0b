"""Whatever a snapshot is opened from: arrays and frames, then a run or a file (`open_files`, and `open_table` for wide tables).

A format of files is an ending among `SAMPLE_ENDINGS` (files/places.py), told from images and scores in files/kinds.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.checks import as_array, as_matrix, check_ids, from_stream, given_probs, is_list_column, is_text, list_matrix
from hardsight.errors import FileError, InputError
from hardsight.files.class_names import given_class_names
from hardsight.files.epochs import epoch_means, has_dynamics
from hardsight.files.heads import head_from_arrays, load_head
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.label_files import labels_in
from hardsight.files.npy import RowsOnDisk, open_npy, open_npz
from hardsight.files.places import PARQUET, SAMPLE_ENDINGS, TABLE_ENDINGS, TEXT_TABLES, Place, missing, on_disk, place
from hardsight.files.reading import existing_file, naming, reading
from hardsight.files.run import read_manifest
from hardsight.files.samples import SampleFiles, evidence_among, evidence_of
from hardsight.files.table_files import read_table
from hardsight.files.wide_tables import Parts, check_columns, is_table, names_columns, take_apart, warn_of_scales
from hardsight.fitted_estimator import FittedEstimator, fitted_columns
from hardsight.head import ARRAYS, Head, as_head, is_estimator
from hardsight.labels import Classes, Written, check_agree
from hardsight.pandas_index import align, classes_in, in_class_order, index_ids, same_columns
from hardsight.scores.registry import GivenArrays
from hardsight.screen import print_in_command, warn
from hardsight.snapshot.sources import ArraySource

EVIDENCE = ("features", "logits", "probs")
OWN_NAMES = (*ARRAYS, "kind", "scale", "labels", "ids", "class_names")  # arrays in an .npz other than features


@dataclass(frozen=True)
class Opened:
    """Rows, and what is known of the model that saw them."""

    source: ArraySource | SampleFiles
    head: Head | None = None
    classes: Classes = Classes()
    others: dict[str, Any] = field(default_factory=dict)  # further evidence of the same rows, such as probs next to features


@dataclass(frozen=True)
class Arrays(GivenArrays):
    """The arguments of `Snapshot`: those of a score, and what is known of the samples."""

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
    source = _array_rows(evidence, values, replace(given, head=head))
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


def _array_rows(evidence: str, values: Any, given: Arrays) -> ArraySource:
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
    return ArraySource(evidence, matrix, labels, ids, further).changed(missing=missing)


def _looks_like_labels(head: Any, n: int) -> bool:
    """Whether the argument passed as head is actually one label per sample: a list, an array or a pandas column."""
    flat = np.ndim(head) == 1 if isinstance(head, list) else getattr(head, "ndim", None) == 1
    return flat and n > 0 and len(head) == n


def _check_columns(columns: Any, num_samples: int) -> dict[str, Any]:
    """Other columns: names that are not reserved, one value per sample."""
    if not isinstance(columns, dict):
        raise InputError(f"columns must be a dict of names and (n,) arrays, got {type(columns).__name__}.")
    for name, column in columns.items():
        if not is_text(name) or not name or set(name) & set("/\\") or name in (*OWN_NAMES, *LIST_COLUMNS):
            raise InputError(f"columns need names of text without slashes that are not reserved, got {name!r}.")
        shape = as_array(column, f"column {name}").shape
        if shape != (num_samples,):
            raise InputError(f"column {name} must have one entry per sample, got shape {shape} for {num_samples} samples.")
    return columns


def open_path(path: Place, head: Any = None, labels: Any = None, features: Any = None, class_names: Any = None) -> Opened:
    """A run or file, with what is given in the place of its own; see `Snapshot.load`."""
    opened = _rows(path, features or fitted_columns(head), labels)
    source = opened.source
    if isinstance(source, ArraySource):
        source.name = str(path)
        if source.note is not None:
            print_in_command(source.note)
            if opened.head is None and head is None and source.evidence == "features":
                warn_of_scales(source.values, source.feature_names)
    with naming(path):
        return under_head(opened, head, given_class_names(class_names))


def _rows(path: Place, features: Any, labels: Any) -> Opened:
    """The rows of a run or file; `features` names columns of a wide table, and `labels` a column, a file, or an array."""
    wide = path.suffix.lower() in TEXT_TABLES or features is not None or is_column(path, labels)
    column = labels if wide and isinstance(labels, str) and not place(labels).is_file() else None
    opened = open_table(path, features, column) if wide else open_files(path)
    if labels is not None and column is None:
        if isinstance(labels, str) and not wide and not place(labels).suffix and not place(labels).exists():
            raise InputError(f"{path}: --label names a column, got {labels!r}, but this is no .csv or .parquet table.")
        opened = relabeled(opened, labels)
    return opened


def under_head(opened: Opened, head: Any, class_names: Sequence[str] | None) -> Opened:
    """The same rows with the head that overrides their own (a Head, a weight, a file, a classifier), and other class names."""
    source, names = opened.source, opened.classes.names
    if is_estimator(head):
        if not isinstance(source, ArraySource):
            raise InputError("a scikit-learn classifier goes with arrays and wide tables; this file is read in parts.")
        return behind_estimator(source, head, np.asarray(source.values), class_names)
    of_head = names if opened.head is not None else None
    if isinstance(head, (str, os.PathLike)):
        head, of_head = load_head(head)
    elif head is not None:
        head, of_head = as_head(head), None
    if class_names is not None and of_head is not None:
        check_agree(class_names, of_head, "class_names", "the head")
    known = class_names or of_head or names
    if isinstance(source, ArraySource) and known != names:
        source.label_names = source.label_names or names  # label numbers count the names in their own file
    return Opened(source, opened.head if head is None else head, Classes(known))


def open_files(path: Place) -> Opened:
    """The rows of a run, of shards or of one file, with the head and class names if present."""
    ending = path.suffix.lower()
    if path.is_dir():
        of_command = any((path / name).is_file() for name in ("run.json", "start.json"))
        if not of_command and has_dynamics(path):  # written by `Dynamics` in a training loop
            return _from_epochs(path)
        shards = [] if of_command else [file for file in path.iterdir() if file.suffix.lower() == ".parquet"]
        return Opened(SampleFiles(sorted(shards, key=lambda file: file.name))) if shards else _from_run(path)
    if ending == ".npz":
        return _from_npz(path)
    if ending == ".npy":
        return Opened(ArraySource("features", _matrix_on_disk(open_npy(path))))
    if ending in PARQUET:
        return Opened(SampleFiles([path]))
    if not path.exists():
        raise FileError(missing(path))
    raise FileError(
        f"{path}: a snapshot is a run directory or a {', '.join(SAMPLE_ENDINGS)} file. Pickled files are not loaded; save a "
        "table as .csv, and arrays as .npz: np.savez('snapshot.npz', features=..., weight=..., bias=..., labels=...)"
    )


def _from_epochs(path: Place) -> Opened:
    """What a training recorded of its samples, where there are no features: probabilities, on average over the epochs."""
    assert isinstance(path, Path)
    return Opened(ArraySource("probs", **epoch_means(path)).changed(of_epochs=True))


def relabeled(opened: Opened, labels: Any) -> Opened:
    """The same rows with different labels: an array, or a file, by position or by id."""
    source = opened.source
    if isinstance(labels, (str, os.PathLike)):
        if not place(labels).exists():
            raise InputError(
                f"there is no file {os.fspath(labels)!r}: --labels takes a .csv, .parquet, .npy or text file, and --label names "
                "a column of a .csv or .parquet table."
            )
        ids = [str(id) for id in source.columns(["id"], None).column(0).to_pylist()]
        with on_disk(existing_file(labels)) as file:
            labels, notes = labels_in(file, ids, opened.classes.names)
        for note in notes:
            warn(note)
    labels = align(labels, "labels", source.values, source.evidence, source.ids) if isinstance(source, ArraySource) else labels
    return replace(opened, source=source.changed(labels=labels, labeled=True, label_names=None))


def _matrix_on_disk(rows: RowsOnDisk) -> RowsOnDisk:
    if rows.dtype.kind not in "fiu" or rows.ndim != 2:
        kind = "text" if rows.dtype.kind in "SU" else rows.dtype
        raise FileError(f"{rows.name}: must hold numbers in two dimensions, one row per sample, got {kind} of {rows.shape}.")
    return rows


def _from_npz(path: Place) -> Opened:
    arrays = open_npz(path)
    held_as = evidence_among(path, arrays, " Use these names: np.savez(FILE, features=X, labels=y).")
    small = {name: np.asarray(rows) for name, rows in arrays.items() if name in OWN_NAMES}
    head, names = head_from_arrays(path, small)
    values = _matrix_on_disk(arrays[held_as])
    n = len(values)
    columns = {name: arrays[name] for name in arrays if name not in (*OWN_NAMES, *LIST_COLUMNS) and arrays[name].shape == (n,)}
    with naming(path):
        source = ArraySource(evidence_of(held_as), values, small.get("labels"), small.get("ids"), columns)
    return Opened(source, head, Classes(names))


def is_column(path: Place, labels: Any) -> bool:
    """Whether labels name a column of a Parquet file other than the default one."""
    table = path.suffix.lower() in PARQUET and path.is_file()
    return table and isinstance(labels, str) and labels != "label" and not place(labels).is_file()


def open_table(path: Place, features: Any, column: str | None) -> Opened:
    """A wide table, or one with another label column, read into memory."""
    if path.suffix.lower() not in TABLE_ENDINGS:
        raise InputError(f"{path}: --features names columns (features= in Python), but this is no .csv or .parquet table.")
    untyped = path.suffix.lower() in TEXT_TABLES
    table = read_table(path, text=("label", column))
    if features is None and column is None and not set(LIST_COLUMNS) & set(table.column_names):
        raise InputError(
            f"{path}: which columns are the features? Name them with --features 'f*' (in Python, features='f*', also of "
            f"Snapshot.open), and the labels with --label NAME; it has {', '.join(table.column_names[:20])}."
        )
    with naming(path):
        parts = take_apart(table, features, column)
        values, gaps = list_matrix(parts.values, str(path)) if is_list_column(parts.values) else (parts.values, None)
        labels = Written(parts.labels.to_pylist()) if untyped and parts.labels is not None else parts.labels
        source = ArraySource(parts.evidence, values, labels, parts.ids, parts.columns).changed(missing=gaps)
        source.note, source.feature_names, source.label_names = parts.note, parts.names, parts.class_names
    return Opened(source)


def _from_run(path: Place) -> Opened:
    manifest = path / "run.json"
    with reading(manifest):
        listed = {part["name"]: part.get("rows") for part in read_manifest(path)["parts"]}
        rows = {name: count for name, count in listed.items() if str.startswith(name, "samples/")}
        counted = None if None in rows.values() else sum(rows.values())
        files: list[Place] = [path / name for name in rows]
        own = all(file.resolve().is_relative_to(path.resolve()) for file in files)
    if not files and has_dynamics(path):
        return _from_epochs(path)
    if not files or not own:
        raise FileError(f"{manifest}: lists no samples.")
    head, names = load_head(path / "head.safetensors") if (path / "head.safetensors").is_file() else (None, None)
    samples = SampleFiles(files, of_run=True)
    if counted is not None and counted != len(samples):
        raise FileError(f"{path} was changed: its run.json lists {counted} rows, its samples hold {len(samples)}.")
    return Opened(samples, head, Classes(names))

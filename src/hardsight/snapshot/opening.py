"""Whatever a snapshot is opened from: a run, a file, arrays, a frame, a table of scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.checks import is_list_column, list_matrix
from hardsight.errors import FileError, InputError
from hardsight.files.class_names import given_class_names
from hardsight.files.epochs import epoch_means, has_dynamics
from hardsight.files.heads import head_from_arrays, load_head
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.npy import RowsOnDisk, open_npy, open_npz
from hardsight.files.places import Place, missing, place
from hardsight.files.reading import reading
from hardsight.files.run import read_manifest
from hardsight.files.samples import SampleFiles, evidence_of
from hardsight.files.table_files import read_table
from hardsight.files.wide_tables import take_apart, warn_of_scales
from hardsight.fitted_estimator import fitted_columns
from hardsight.head import as_head, is_estimator
from hardsight.labels import Classes, Written, check_agree
from hardsight.pandas_index import align
from hardsight.screen import print_in_command
from hardsight.snapshot.arrays import OWN_NAMES, Opened, behind_estimator
from hardsight.snapshot.sources import ArraySource, Source


def open_path(path: Place, head: Any, labels: Any, features: Any, class_names: Any) -> Opened:
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


@contextmanager
def naming(path: Place) -> Iterator[None]:
    """An error about what a file holds names the file."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error


def _rows(path: Place, features: Any, labels: Any) -> Opened:
    """The rows of a run or file; `features` names columns of a wide table, and `labels` a column, a .npy file, or an array."""
    wide = path.suffix.lower() in (".csv", ".tsv") or features is not None or is_column(path, labels)
    column = labels if wide and isinstance(labels, str) and not place(labels).is_file() else None
    opened = open_table(path, features, column) if wide else open_files(path)
    if labels is not None and column is None:
        if isinstance(labels, str) and not wide and not place(labels).suffix and not place(labels).exists():
            raise InputError(f"{path}: --label names a column, got {labels!r}, but this is no .csv or .parquet table.")
        opened = replace(opened, source=relabeled(opened.source, labels))
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
        if _is_tracked(path):
            return _from_epochs(path)
        shards = _shards(path)
        return Opened(SampleFiles(shards)) if shards else _from_run(path)
    if ending == ".npz":
        return _from_npz(path)
    if ending == ".npy":
        return Opened(ArraySource("features", _matrix_on_disk(open_npy(path)), None, None, {}))
    if ending in (".parquet", ".pq"):
        return Opened(SampleFiles([path]))
    if not path.exists():
        raise FileError(missing(path))
    raise FileError(
        f"{path}: a snapshot is a run directory, .npz, .npy, .parquet or .csv. {_instead(ending)}: "
        "np.savez('snapshot.npz', features=..., weight=..., bias=..., labels=...)"
    )


def _is_tracked(path: Place) -> bool:
    """Whether a folder was written by `Dynamics` in a training loop: no command's run, but epochs."""
    return not any((path / name).is_file() for name in ("run.json", "start.json")) and has_dynamics(path)


def _from_epochs(path: Place) -> Opened:
    """What a training recorded of its samples, where there are no features: probabilities, on average over the epochs."""
    assert isinstance(path, Path)
    held = epoch_means(path)
    source = ArraySource("probs", held.probs, held.labels, held.ids.to_numpy(zero_copy_only=False), {"split": held.splits})
    source.of_epochs = True
    return Opened(source)


def _instead(ending: str) -> str:
    """What to do with an unsupported file."""
    if ending in (".pt", ".pth", ".bin", ".pkl", ".pickle", ".joblib"):
        return "Pickled files (.pt, .pkl) are not loaded; save arrays instead"
    return "Save a table as .csv or .parquet, and arrays as .npz"


def relabeled(source: Source, labels: Any) -> ArraySource:
    """The same rows with different labels: an array, or a .npy file."""
    if not isinstance(source, ArraySource):
        raise InputError("labels= works with .npz and .npy files only; a Parquet file has its own label column.")
    if isinstance(labels, str) and not place(labels).exists():
        raise InputError(
            f"there is no file {labels!r}: --labels takes a .npy file, and --label names a column of a .csv or .parquet table."
        )
    own = np.asarray(open_npy(labels)) if isinstance(labels, (str, os.PathLike)) else labels
    own = align(own, "labels", source.values, source.evidence, source.ids)
    return ArraySource(source.evidence, source.values, own, source.ids, source.further, source.missing)


def _matrix_on_disk(rows: RowsOnDisk) -> RowsOnDisk:
    if rows.dtype.kind not in "fiu":
        raise FileError(f"{rows.name}: must hold numbers, got {'text' if rows.dtype.kind in 'SU' else rows.dtype}.")
    if rows.ndim != 2:
        raise FileError(f"{rows.name}: must be two-dimensional, one row per sample, got shape {rows.shape}.")
    return rows


def _from_npz(path: Place) -> Opened:
    arrays = open_npz(path)
    present = [name for name in LIST_COLUMNS if name in arrays]
    if present == ["probs", "pred_probs"]:
        raise FileError(f"{path}: probs and pred_probs mean the same: keep only one of them.")
    if len(present) != 1:
        held = ", ".join(sorted(arrays)) or "nothing"
        usual = "" if present else " Use these names: np.savez(FILE, features=X, labels=y)."
        raise FileError(f"{path}: needs one of features, logits or probs among its arrays, found {held}.{usual}")
    small = {name: np.asarray(rows) for name, rows in arrays.items() if name != present[0] and name in OWN_NAMES}
    head, names = head_from_arrays(path, small)
    values = _matrix_on_disk(arrays[present[0]])
    n = len(values)
    columns = {name: arrays[name] for name in arrays if name not in (*OWN_NAMES, *LIST_COLUMNS) and arrays[name].shape == (n,)}
    try:
        source = ArraySource(evidence_of(present[0]), values, small.get("labels"), small.get("ids"), columns)
        return Opened(source, head, Classes(names))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _shards(folder: Place) -> list[Place]:
    """The Parquet files in a folder that is not a run, in order."""
    if (folder / "run.json").is_file() or (folder / "start.json").is_file():
        return []
    return sorted((file for file in folder.iterdir() if file.suffix.lower() == ".parquet"), key=lambda file: file.name)


def is_column(path: Place, labels: Any) -> bool:
    """Whether labels name a column of a Parquet file other than the default one."""
    return isinstance(labels, str) and path.suffix.lower() in (".parquet", ".pq") and path.is_file() and labels != "label"


def open_table(path: Place, features: Any, column: str | None) -> Opened:
    """A wide table, or one with another label column, read into memory."""
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        raise InputError(f"{path}: --features names columns (features= in Python), but this is no .csv or .parquet table.")
    untyped = path.suffix.lower() in (".csv", ".tsv")
    table = read_table(path, text=("label", column))
    if features is None and column is None and not set(LIST_COLUMNS) & set(table.column_names):
        raise InputError(
            f"{path}: which columns are the features? Name them with --features 'f*' (features= in Python), and the labels with "
            f"--label NAME; it has {', '.join(table.column_names[:20])}."
        )
    try:
        parts = take_apart(table, features, column)
        values, gaps = list_matrix(parts.values, str(path)) if is_list_column(parts.values) else (parts.values, None)
        labels = Written(parts.labels.to_pylist()) if untyped and parts.labels is not None else parts.labels
        source = ArraySource(parts.evidence, values, labels, parts.ids, parts.columns, gaps)
        source.note, source.feature_names, source.label_names = parts.note, parts.names, parts.class_names
        return Opened(source)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


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

"""Every file that holds a snapshot, opened: its rows, head and class names. `Source` is the interface of every source of rows;
`ArraySource` holds rows in memory, `SampleFiles` in samples.py reads them from Parquet files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hardsight.checks import as_array, as_matrix, check_ids, check_labels, is_list_column, list_matrix
from hardsight.errors import FileError, InputError, first_line
from hardsight.files.epochs import epoch_means, has_dynamics
from hardsight.files.heads import ARRAYS, head_from_arrays, load_head
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.npy import RowsOnDisk, open_npy, open_npz
from hardsight.files.places import Place, missing
from hardsight.files.reading import reading
from hardsight.files.run import read_manifest
from hardsight.files.samples import Batch, SampleFiles, evidence_of
from hardsight.files.table_files import read_table
from hardsight.files.wide_tables import take_apart
from hardsight.fitted_estimator import FittedEstimator
from hardsight.head import Head
from hardsight.named_labels import class_numbers
from hardsight.pandas_index import align
from hardsight.threads import blocks


class Source(Protocol):
    """A source of a snapshot's rows."""

    evidence: str  # which of EVIDENCE the values are
    num_samples: int
    width: int  # number of columns of the values
    itemsize: int
    labeled: bool
    named: bool  # whether the labels were given as names
    note: str | None  # which columns of a table the values are
    of_epochs: bool  # whether the values are means over the epochs of a training, and nothing else is known
    id_type: pa.DataType

    def pieces(self, rows: int) -> list[range]:
        """Ranges of about `rows` rows that are read together."""
        ...

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`."""
        ...

    @property
    def column_names(self) -> list[str]:
        """Names of all columns except the values: id and label first."""
        ...

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """The named columns of all rows."""
        ...

    def name_classes(self, class_names: list[str] | None, num_classes: int | None) -> list[str] | None:
        """Map named labels to the class names, and return those; without class names, return the names of the labels."""
        ...


class ArraySource:
    """Rows in memory, or in arrays on disk that can be sliced; `name` is the file, for messages."""

    name: str | None = None
    named = False  # whether the labels were given as names
    of_epochs = False
    note: str | None = None
    feature_names: Sequence[str] = ()

    def __init__(
        self, evidence: str, values: Any, labels: Any, ids: Any, columns: dict[str, Any], missing: np.ndarray | None = None
    ) -> None:
        self.evidence, self.values, self.further, self.missing = evidence, values, columns, missing
        self.num_samples, self.width = (int(extent) for extent in values.shape)
        self.itemsize = values.dtype.itemsize
        self.labeled = labels is not None
        self.labels = np.full(self.num_samples, -1) if labels is None else labels
        self.checked: tuple[int | None, np.ndarray] | None = None
        self.ids = None if ids is None else check_ids(ids, self.num_samples)
        self.id_type = pa.string() if self.ids is not None and self.ids.dtype == object else pa.int64()

    def pieces(self, rows: int) -> list[range]:
        """Ranges of `rows` rows each; the last may be shorter."""
        return [range(part.start, part.stop) for part in blocks(self.num_samples, rows)]

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`."""
        labels = self._checked_labels(num_classes)
        for part in blocks(stop - start, rows):
            cut = slice(start + part.start, start + part.stop)
            ids = np.arange(cut.start, cut.stop) if self.ids is None else self.ids[cut]
            missing = None if self.missing is None else self.missing[cut]
            yield Batch(cut.start, self.values[cut], missing, labels[cut], ids)

    @property
    def column_names(self) -> list[str]:
        """id and label, then the further columns."""
        return ["id", "label", *self.further]

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """The named columns of all rows."""
        return pa.table({name: self._column(name, num_classes) for name in names})

    def name_classes(self, class_names: list[str] | None, num_classes: int | None) -> list[str] | None:
        """Turn named labels into class numbers; return the class names, if there are any."""
        numbers, names = class_numbers(self.labels, class_names, num_classes)
        self.named, self.labels = self.named or numbers is not self.labels, numbers
        return names

    def behind(self, estimator: FittedEstimator, rows: Any, class_names: list[str] | None) -> tuple[Head, list[str] | None]:
        """Transform rows and labels as a pipeline would before its classifier; return the head and class names."""
        if self.evidence != "features":
            raise InputError(f"a classifier needs features; {self.evidence} are already its output.")
        counted = estimator.classes.dtype.kind in "iuf"
        if class_names is not None and not counted and list(class_names) != estimator.class_names:
            raise InputError(f"a classifier has its own class names: {', '.join(estimator.class_names[:20])}.")
        self.values = as_matrix(estimator.features(rows), "features")
        self.width, self.itemsize = int(self.values.shape[1]), self.values.dtype.itemsize
        head = estimator.head(self.values)
        if self.labeled:
            self.labels = estimator.class_numbers(self.labels)
        return head, class_names or estimator.class_names

    def _column(self, name: str, num_classes: int | None) -> Any:
        if name == "id":
            return pa.array(np.arange(self.num_samples) if self.ids is None else self.ids, self.id_type)
        if name == "label":
            labels = self._checked_labels(num_classes)
            return pa.array(labels, mask=labels < 0)
        column = self.further[name]
        try:
            return column if isinstance(column, (pa.Array, pa.ChunkedArray)) else _arrow_column(name, column)
        except (pa.ArrowException, InputError, ValueError, TypeError) as error:  # for example, text that is not valid UTF-8
            where = f"{self.name}: " if self.name else ""
            raise InputError(f"{where}the column {name} cannot be shown in a table: {first_line(error)}") from error

    def _checked_labels(self, num_classes: int | None) -> np.ndarray:
        if self.checked is None or self.checked[0] != num_classes:  # validate once, not for every piece
            try:
                self.checked = num_classes, check_labels(self.labels, self.num_samples, num_classes)
            except InputError as error:
                raise InputError(f"{self.name}: {error}" if self.name else str(error)) from error
        return self.checked[1]


def _arrow_column(name: str, column: Any) -> pa.Array:
    plain = as_array(column, f"column {name}")
    return pa.array(plain, from_pandas=plain.dtype == object)  # NaN among text is pandas' null


OWN_NAMES = (*ARRAYS, "kind", "scale", "labels", "ids", "class_names")  # arrays in an .npz other than features

Opened = tuple[Source, Head | None, list[str] | None]  # rows, head, class names


def open_files(path: Place) -> Opened:
    """The rows of a run, of shards or of one file, with the head and class names if present."""
    ending = path.suffix.lower()
    if path.is_dir():
        if _is_tracked(path):
            return _from_epochs(path)
        shards = _shards(path)
        return (SampleFiles(shards), None, None) if shards else _from_run(path)
    if ending == ".npz":
        return _from_npz(path)
    if ending == ".npy":
        return ArraySource("features", _matrix_on_disk(open_npy(path)), None, None, {}), None, None
    if ending in (".parquet", ".pq"):
        return SampleFiles([path]), None, None
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
    return source, None, None


def _instead(ending: str) -> str:
    """What to do with an unsupported file."""
    if ending in (".pt", ".pth", ".bin", ".pkl", ".pickle", ".joblib"):
        return "Pickled files (.pt, .pkl) are not loaded; save arrays instead"
    return "Save a table as .csv or .parquet, and arrays as .npz"


def relabeled(source: Source, labels: Any) -> ArraySource:
    """The same rows with different labels: an array, or a .npy file."""
    if not isinstance(source, ArraySource):
        raise InputError("labels= works with .npz and .npy files only; a Parquet file has its own label column.")
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
        return ArraySource(evidence_of(present[0]), values, small.get("labels"), small.get("ids"), columns), head, names
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
        raise InputError(f"{path}: features names columns of a .csv or .parquet table, but this is not one.")
    table = read_table(path)
    if features is None and column is None and not set(LIST_COLUMNS) & set(table.column_names):
        raise InputError(
            f"{path}: which columns are the features? Name them with --features 'f*' (features= in Python), and the labels with "
            f"--label NAME; it has {', '.join(table.column_names[:20])}."
        )
    try:
        parts = take_apart(table, features, column)
        values, gaps = list_matrix(parts.values, str(path)) if is_list_column(parts.values) else (parts.values, None)
        source = ArraySource(parts.evidence, values, parts.labels, parts.ids, parts.columns, gaps)
        source.note, source.feature_names = parts.note, parts.names
        return source, None, parts.class_names
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
    samples = SampleFiles(files)
    if counted is not None and counted != len(samples):
        raise FileError(f"{path} was changed: its run.json lists {counted} rows, its samples hold {len(samples)}.")
    return samples, head, names

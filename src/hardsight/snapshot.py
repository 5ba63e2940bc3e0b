"""A `Snapshot` is what one model saw of one dataset at one moment.

It holds features (or only logits or probabilities), the head, labels and ids; in memory, or in files that are read
a batch at a time. Extraction and training produce snapshots; scoring reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hardsight.checks import (
    as_array,
    as_matrix,
    check_ids,
    check_labels,
    check_same_space,
    check_some_columns,
    from_stream,
    given_probs,
    is_list_column,
    is_text,
    list_matrix,
    to_numpy,
)
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.class_names import check_class_names
from hardsight.files.heads import ARRAYS, head_from_arrays, load_head
from hardsight.files.inputs import command, note_input
from hardsight.files.npy import RowsOnDisk, open_npy, open_npz
from hardsight.files.places import Place, missing, place
from hardsight.files.reading import reading
from hardsight.files.run import read_manifest
from hardsight.files.samples import LIST_COLUMNS, Batch, SampleFiles, evidence_of
from hardsight.files.table_files import read_table
from hardsight.files.wide_tables import is_table, names_columns, take_apart
from hardsight.files.writing import check_output, replacing
from hardsight.fitted_estimator import FittedEstimator, fitted_columns
from hardsight.head import Head, as_head, is_estimator
from hardsight.named_labels import class_numbers
from hardsight.pandas_index import align, index_ids
from hardsight.screen import printable, wrapped
from hardsight.threads import blocks

BATCH_BYTES = 32 * 2**20  # of features at a time, when they come from files
EVIDENCE = ("features", "logits", "probs")
SNAPSHOTS = (".npz", ".npy", ".parquet", ".pq")  # endings of files that hold one


class Source(Protocol):
    """Where a snapshot's rows are."""

    evidence: str  # which of EVIDENCE the values are
    num_samples: int
    width: int  # columns of the values
    itemsize: int
    labeled: bool
    named: bool  # whether the labels came as names
    id_type: pa.DataType

    def pieces(self, rows: int) -> list[range]:
        """Ranges of rows that are read together, of about `rows` each."""
        ...

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`."""
        ...

    @property
    def column_names(self) -> list[str]:
        """Names of all columns but the values: id and label first."""
        ...

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """The named columns of all rows."""
        ...

    def name_classes(self, class_names: list[str] | None, num_classes: int | None) -> list[str] | None:
        """Join labels that are names to the class names, and return these; the names of the labels where there are none."""
        ...


class ArraySource:
    """Rows in memory, or in arrays on disk that know how to be sliced; `name` is the file, for messages."""

    name: str | None = None
    named = False  # whether the labels came as names

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
        """Labels that are names become class numbers; returns the names of the classes, if there are any."""
        numbers, names = class_numbers(self.labels, class_names, num_classes)
        self.named, self.labels = self.named or numbers is not self.labels, numbers
        return names

    def behind(self, estimator: FittedEstimator, rows: Any, class_names: list[str] | None) -> tuple[Head, list[str] | None]:
        """Rows as the last step of a classifier gets them, labels as it counts them; returns its head and class names."""
        if self.evidence != "features":
            raise InputError(f"a classifier goes with features; {self.evidence} are already its output.")
        counted = estimator.classes.dtype.kind in "iuf"
        if class_names is not None and not counted and list(class_names) != estimator.class_names:
            raise InputError(f"class names go with the classifier, which has its own: {', '.join(estimator.class_names[:20])}.")
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
        except (pa.ArrowException, InputError, ValueError, TypeError) as error:  # text that UTF-8 cannot hold, and the like
            where = f"{self.name}: " if self.name else ""
            raise InputError(f"{where}the column {name} cannot be shown in a table: {first_line(error)}") from error

    def _checked_labels(self, num_classes: int | None) -> np.ndarray:
        if self.checked is None or self.checked[0] != num_classes:  # once, not for every piece
            try:
                self.checked = num_classes, check_labels(self.labels, self.num_samples, num_classes)
            except InputError as error:
                raise InputError(f"{self.name}: {error}" if self.name else str(error)) from error
        return self.checked[1]


class Snapshot:
    """Features, a head, labels and ids: one model's view of one dataset.

    Args:
        features: (n, d) inputs of the last linear layer.
        head: a `Head`, the (c, d) weight of a linear one (with `bias` beside it), or a fitted linear classifier of
            scikit-learn: the earlier steps of a pipeline are applied to the features, and its classes name the labels.
        labels: (n,) given class, by its number or its name; -1 or null for unlabeled. Names are joined to the class names
            that are known; where none are, classes are counted in sorted order of their names.
        ids: (n,) unique strings or integers; when not given, the index of a pandas frame, or row numbers.
        logits, probs: (n, c), when there are no features; `pred_probs` is another name of `probs`.
        class_names: (c,) names for people.
        columns: further (n,) columns by name, such as split or path.

    Rows of pandas objects are joined by their index, everything else by position.

    Example:
        >>> snapshot = Snapshot(np.eye(3), np.eye(3), labels=[0, 1, 2])
        >>> len(snapshot), snapshot.num_classes
        (3, 3)
    """

    loaded_from: dict[str, Any] | None = None  # what `load` was given, so that others can load the same
    whole: bool = True  # whether its rows follow each other as they do where it was loaded from
    read_from: tuple[Any, ...] = ()  # files that the rows come from, also where only some were taken: `save` replaces none

    def __init__(
        self,
        features: Any = None,
        head: Any = None,
        labels: Any = None,
        *,
        bias: Any = None,
        logits: Any = None,
        probs: Any = None,
        pred_probs: Any = None,
        ids: Any = None,
        class_names: list[str] | None = None,
        columns: dict[str, Any] | None = None,
    ) -> None:
        probs = given_probs(probs, pred_probs)
        if is_table(features) and names_columns(features, None, labels, ids):
            parts = take_apart(features, fitted_columns(head), labels, ids)
            class_names, columns = class_names or parts.class_names, {**parts.columns, **(columns or {})}
            features, labels, ids = None, parts.labels, parts.ids
            features, logits, probs = (parts.values if parts.evidence == name else None for name in EVIDENCE)
        arrays = {name: x for name, x in zip(EVIDENCE, (features, logits, probs), strict=True) if x is not None}
        if len(arrays) != 1:
            raise InputError(f"a snapshot holds one of features, logits or probs, got {' and '.join(arrays) or 'none'}.")
        ((evidence, values),) = arrays.items()
        if bias is not None and head is None:
            raise InputError("bias goes with a weight, and there is none: give head= as well.")
        missing, values = None, from_stream(values)
        if is_list_column(values):
            values, missing = list_matrix(values, evidence)
        matrix = as_matrix(values, evidence)
        ids = index_ids(values) if ids is None else align(ids, "ids", values, evidence)
        ids = None if ids is None else check_ids(ids, len(matrix))
        labels = align(labels, "labels", values, evidence, ids)
        further = {
            name: align(column, f"column {name}", values, evidence, ids)
            for name, column in _check_columns(columns or {}, len(matrix)).items()
        }
        source = ArraySource(evidence, matrix, labels, ids, further, missing)
        if is_estimator(head):
            head, class_names = source.behind(FittedEstimator(head), values, class_names)
        self._set(source, None if head is None else as_head(head, bias), class_names, name=None)

    def _set(self, source: Source, head: Head | None, class_names: list[str] | None, name: str | None) -> None:
        self.source, self.head, self.name = source, head, name
        if isinstance(source, SampleFiles) and len(source) == 0 and source.width == 0 and head is not None:
            source.width = head.num_features  # there is no row to read it from
        check_some_columns(_Shape((source.num_samples, source.width)), source.evidence)
        if head is not None:
            if source.evidence != "features":
                raise InputError(f"a head goes with features; {source.evidence} are already its output.")
            check_same_space(_Shape((source.num_samples, source.width)), head.weight)
        given = None if class_names is None else check_class_names(class_names, self.num_classes)
        self.class_names = source.name_classes(given, self.num_classes)

    @property
    def num_classes(self) -> int | None:
        """Number of classes, if a head, logits or probabilities define it."""
        if self.head is not None:
            return self.head.num_classes
        return None if self.source.evidence == "features" else self.source.width

    def __len__(self) -> int:
        return self.source.num_samples

    def __repr__(self) -> str:
        source, names = self.source, self.column_names
        facts = [
            f"Snapshot: {len(self):,} sample{'s' * (len(self) != 1)}, {source.width} {source.evidence} each",
            "labeled" if source.labeled else "no labels",
            *([] if self.num_classes is None else [f"{self.num_classes} classes"]),
            *([] if self.head is None else [f"{self.head.kind} head"]),
        ]
        where = [] if self.name is None else [f"from {printable(self.name)}"]
        classes = [] if self.class_names is None else wrapped("classes: ", self.class_names, most=2)
        return "\n".join([", ".join(facts), *where, *wrapped("columns: ", names, most=2), *classes])

    def batches(self, start: int = 0, stop: int | None = None, rows: int | None = None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of about 32 MB or of the given number of rows."""
        rows = rows or self._batch_rows
        return self.source.read(start, len(self) if stop is None else min(stop, len(self)), rows, self.num_classes)

    def pieces(self) -> list[range]:
        """Rows that are scored and written together: row groups of a Parquet file, about 32 MB of anything else."""
        return self.source.pieces(self._batch_rows)

    @property
    def _batch_rows(self) -> int:
        return max(1, BATCH_BYTES // max(1, self.source.width * self.source.itemsize))

    def in_memory(self, start: int = 0, stop: int | None = None) -> Batch:
        """All the rows as one batch."""
        parts = list(self.batches(start, stop))
        if not parts:
            return Batch(start, np.zeros((0, self.source.width), np.float32), None, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Batch.joined(parts)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns beside the features: id, label, then any further column."""
        return self.source.column_names

    def columns(self, names: Sequence[str] | None = None) -> pa.Table:
        """The columns of `column_names` as an Arrow table, or those of `names` in that order.

        Features are not read. Unlabeled samples have a null label.

        Example:
            >>> snapshot = Snapshot(np.eye(3), labels=[0, 1, -1], columns={"split": ["train", "train", "test"]})
            >>> snapshot.columns(["label", "split"]).to_pydict()
            {'label': [0, 1, None], 'split': ['train', 'train', 'test']}
        """
        known = self.column_names
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise InputError(
                f"{self.name or 'the snapshot'} has no column {unknown[0]!r}; it has {', '.join(known)}."
                + did_you_mean(unknown[0], known)
            )
        return self.source.columns(list(dict.fromkeys(known if names is None else names)), self.num_classes)

    def take(self, rows: Any) -> Snapshot:
        """A snapshot in memory of the given rows, in the given order, with their labels, ids and further columns.

        Example:
            >>> snapshot = Snapshot(np.eye(3), labels=[0, 1, 2])
            >>> snapshot.take([2, 0]).columns().to_pydict()
            {'id': [2, 0], 'label': [2, 0]}
        """
        rows = _check_rows(rows, len(self))
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        values: np.ndarray | None = None
        missing = np.zeros(len(rows), dtype=bool)
        first, last = (int(ascending[0]), int(ascending[-1]) + 1) if len(rows) else (0, 0)
        for batch in self.batches(first, last):  # only what is taken stays in memory
            here = slice(*np.searchsorted(ascending, (batch.start, batch.start + len(batch))))
            picked, target = ascending[here] - batch.start, order[here]
            held = to_numpy(batch.values)
            if values is None:
                values = np.empty((len(rows), held.shape[1]), held.dtype)
            values[target] = held[picked]
            if batch.missing is not None:
                missing[target] = batch.missing[picked]
        if values is None:
            values = np.zeros((0, self.source.width), np.float32)
        columns = self.columns().take(rows)
        labels = columns.column("label") if self.source.labeled else None
        further = {name: columns.column(name) for name in columns.column_names[2:]}
        ids = columns.column("id").to_numpy() if len(rows) else None
        source = ArraySource(self.source.evidence, values, labels, ids, further, missing if missing.any() else None)
        taken = Snapshot.__new__(Snapshot)
        taken._set(source, self.head, self.class_names, self.name)
        taken.read_from = self.read_from
        return taken

    def of_rows(self, rows: Any) -> Snapshot:
        """`take` of rising rows, for the same purposes: it knows the run that it comes from. Itself, if these are all."""
        if len(rows) == len(self):
            return self
        taken = self.take(rows)
        taken.loaded_from, taken.whole = self.loaded_from, False
        return taken

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as `.npz` with the vocabulary's names as keys."""
        if place(path).suffix.lower() != ".npz":
            raise InputError(f"{path}: a snapshot is saved as .npz; give a name with that ending.")
        with command():
            note_input(*self.read_from)
            check_output(place(path))
        everything = self.in_memory()
        arrays: dict[str, Any] = {self.source.evidence: to_numpy(everything.values), "labels": everything.labels}
        arrays["ids"] = np.asarray(everything.ids) if everything.ids.dtype.kind == "i" else np.asarray(everything.ids, dtype=str)
        if self.head is not None:
            arrays["kind"] = np.array(self.head.kind)
            held = {name: getattr(self.head, name) for name in (*ARRAYS, "scale")}
            arrays |= {name: to_numpy(array) for name, array in held.items() if array is not None}
        if self.class_names is not None:
            arrays["class_names"] = np.array(self.class_names, dtype=str)
        if isinstance(self.source, ArraySource):
            arrays |= {name: _plain_column(name, column) for name, column in self.source.further.items() if not _all_null(column)}
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        head: Any = None,
        labels: Any = None,
        features: str | Sequence[str] | None = None,
        class_names: list[str] | None = None,
    ) -> Snapshot:
        """Open a snapshot without reading its rows yet; only wide tables are read whole.

        Args:
            path: a run directory, a `.npz` with the vocabulary's names, a Parquet file (or a folder of shards) with `features`
                (or `logits` or `probs`), `label` and `id` columns, a `.npy` with features alone, or a wide `.csv`, `.tsv` or
                Parquet table.
            head: a Head, a weight array or a file, where there is none or another is meant.
            labels: an array or a `.npy` file, where there are none or others are meant; of a table, the name of a column.
            features: columns of a wide table, as names or patterns: "f*", or "width,height".
            class_names: (c,) names of the classes, where there are none or others are meant.
        """
        path = place(path)
        note_input(path, head, labels)
        from_table = path.suffix.lower() in (".csv", ".tsv") or features is not None or _is_column(path, labels)
        column = labels if from_table and isinstance(labels, str) and not place(labels).is_file() else None
        if from_table:
            source, own_head, names = _from_table(path, features or fitted_columns(head), column)
        else:
            source, own_head, names = _from_files(path)
        if isinstance(head, (str, os.PathLike)):
            own_head, head_names = load_head(head)
            names = names or head_names
        elif head is not None and not is_estimator(head):
            own_head = as_head(head)
        if labels is not None and column is None:
            source = _relabeled(source, labels)
        if isinstance(source, ArraySource):
            source.name = str(path)
        snapshot = cls.__new__(cls)
        try:
            if is_estimator(head):
                if not isinstance(source, ArraySource):
                    raise InputError("a scikit-learn classifier goes with arrays and wide tables; this file is read in parts.")
                own_head, names = source.behind(FittedEstimator(head), np.asarray(source.values), class_names)
            snapshot._set(source, own_head, class_names or names, str(path))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if not from_table and not (source.named and class_names is not None):
            snapshot.loaded_from = {"path": path, "head": head, "labels": labels}
        snapshot.read_from = (path, head, labels)
        return snapshot


def _from_files(path: Place) -> tuple[Source, Head | None, list[str] | None]:
    """The rows of a run, of shards or of one file, with the head and the class names that are there."""
    ending = path.suffix.lower()
    if path.is_dir():
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
        f"{path}: a snapshot is a run directory, .npz, .npy, .parquet or .csv. Pickled files (.pt, .pkl) are not loaded; "
        "save arrays instead: np.savez('snapshot.npz', features=..., weight=..., bias=..., labels=...)"
    )


def _relabeled(source: Source, labels: Any) -> ArraySource:
    """The same rows with other labels: an array, or a .npy file."""
    if not isinstance(source, ArraySource):
        raise InputError("labels= goes with .npz and .npy files; a Parquet file has its own label column.")
    own = np.asarray(open_npy(labels)) if isinstance(labels, (str, os.PathLike)) else labels
    own = align(own, "labels", source.values, source.evidence, source.ids)
    return ArraySource(source.evidence, source.values, own, source.ids, source.further, source.missing)


@dataclass(frozen=True)
class _Shape:
    shape: tuple[int, int]


def _check_columns(columns: Any, num_samples: int) -> dict[str, Any]:
    """Further columns: names that are not ours, one value per sample."""
    if not isinstance(columns, dict):
        raise InputError(f"columns must be a dict of names and (n,) arrays, got {type(columns).__name__}.")
    for name, column in columns.items():
        if not is_text(name) or not name or set(name) & set("/\\"):
            raise InputError(f"columns need names of text without slashes, got {name!r}.")
        if name in (*_SMALL, *LIST_COLUMNS):
            raise InputError(f"{name} is a reserved name in a snapshot and cannot be a further column.")
        shape = as_array(column, f"column {name}").shape
        if shape != (num_samples,):
            raise InputError(f"column {name} must have one entry per sample, got shape {shape} for {num_samples} samples.")
    return columns


def _check_rows(rows: Any, num_samples: int) -> np.ndarray:
    """(k,) row numbers, each of them a row that is there."""
    column = as_array(rows, "rows")
    if column.ndim != 1 or (column.dtype.kind not in "iu" and len(column)):
        raise InputError(f"rows must be a list of row numbers, got {column.dtype} of shape {column.shape}.")
    outside = np.flatnonzero((column < 0) | (column >= num_samples))
    if len(outside):
        raise InputError(f"rows must be 0 to {num_samples - 1}, got {column[outside[0]]}.")
    return column.astype(np.int64)


def _arrow_column(name: str, column: Any) -> pa.Array:
    plain = as_array(column, f"column {name}")
    return pa.array(plain, from_pandas=plain.dtype == object)  # NaN among text is pandas' null


def _all_null(column: Any) -> bool:
    return isinstance(column, (pa.Array, pa.ChunkedArray)) and column.null_count == len(column)


def _plain_column(name: str, column: Any) -> np.ndarray:
    """A column as an array that needs no pickle."""
    plain = as_array(column, f"column {name}")
    if plain.dtype != object:
        return plain
    if not all(is_text(value) for value in plain):
        raise InputError(
            f"column {name} must hold numbers or text to be saved as .npz, which holds no other objects and no nulls."
        )
    return plain.astype(str)


def _matrix_on_disk(rows: RowsOnDisk) -> RowsOnDisk:
    if rows.dtype.kind not in "fiu":
        raise FileError(f"{rows.name}: must hold numbers, got {rows.dtype}.")
    if rows.ndim != 2:
        raise FileError(f"{rows.name}: must be two-dimensional, one row per sample, got shape {rows.shape}.")
    return rows


def _from_npz(path: Place) -> tuple[ArraySource, Head | None, list[str] | None]:
    arrays = open_npz(path)
    present = [name for name in LIST_COLUMNS if name in arrays]
    if present == ["probs", "pred_probs"]:
        raise FileError(f"{path}: probs and pred_probs are two names of the same: keep one of them.")
    if len(present) != 1:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise FileError(f"{path}: needs one of features, logits or probs among its arrays, found {held}.")
    small = {name: np.asarray(rows) for name, rows in arrays.items() if name != present[0] and name in _SMALL}
    head, names = head_from_arrays(path, small)
    values = _matrix_on_disk(arrays[present[0]])
    n = len(values)
    columns = {name: arrays[name] for name in arrays if name not in (*_SMALL, *LIST_COLUMNS) and arrays[name].shape == (n,)}
    try:
        return ArraySource(evidence_of(present[0]), values, small.get("labels"), small.get("ids"), columns), head, names
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _shards(folder: Place) -> list[Place]:
    """The Parquet files in a folder that is no run, in order."""
    if (folder / "run.json").is_file() or (folder / "start.json").is_file():
        return []
    return sorted((file for file in folder.iterdir() if file.suffix.lower() == ".parquet"), key=lambda file: file.name)


def _is_column(path: Place, labels: Any) -> bool:
    """Whether labels name a column of a Parquet file other than the usual one."""
    return isinstance(labels, str) and path.suffix.lower() in (".parquet", ".pq") and path.is_file() and labels != "label"


def _from_table(path: Place, features: Any, column: str | None) -> tuple[Source, Head | None, list[str] | None]:
    """A wide table, or one with another label column: read whole."""
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".pq"):
        raise InputError(f"{path}: features names columns of a .csv or .parquet table, and this is none.")
    table = read_table(path)
    if features is None and column is None and not set(LIST_COLUMNS) & set(table.column_names):
        raise InputError(
            f"{path}: which columns are the features? Give them with --features 'f*' (features= in Python), and the labels with "
            f"--label NAME; it has {', '.join(table.column_names[:20])}."
        )
    try:
        parts = take_apart(table, features, column)
        values, missing = list_matrix(parts.values, str(path)) if is_list_column(parts.values) else (parts.values, None)
        return ArraySource(parts.evidence, values, parts.labels, parts.ids, parts.columns, missing), None, parts.class_names
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


_SMALL = (*ARRAYS, "kind", "scale", "labels", "ids", "class_names")


def _from_run(path: Place) -> tuple[SampleFiles, Head | None, list[str] | None]:
    manifest = path / "run.json"
    with reading(manifest):
        listed = {part["name"]: part.get("rows") for part in read_manifest(path)["parts"]}
        rows = {name: count for name, count in listed.items() if str.startswith(name, "samples/")}
        counted = None if None in rows.values() else sum(rows.values())
        files: list[Place] = [path / name for name in rows]
        own = all(file.resolve().is_relative_to(path.resolve()) for file in files)
    if not files or not own:
        raise FileError(f"{manifest}: lists no samples of its own.")
    note_input(manifest, *files)
    head, names = load_head(path / "head.safetensors") if (path / "head.safetensors").is_file() else (None, None)
    samples = SampleFiles(files)
    if counted is not None and counted != len(samples):
        raise FileError(f"{path} was changed: its run.json lists {counted} rows, its samples hold {len(samples)}.")
    return samples, head, names

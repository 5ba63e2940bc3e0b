"""A `Snapshot` is what one model saw of one dataset at one moment.

It holds features (or only logits or probabilities), the head, labels and ids; in memory, or in files that are read
batch by batch. Extraction and training produce snapshots; scoring reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import (
    as_array,
    as_matrix,
    check_ids,
    check_same_space,
    check_some_columns,
    from_stream,
    given_probs,
    is_list_column,
    is_text,
    list_matrix,
    to_numpy,
)
from hardsight.errors import InputError, did_you_mean
from hardsight.files.class_names import check_class_names
from hardsight.files.heads import ARRAYS, load_head
from hardsight.files.kinds import LIST_COLUMNS, SAMPLES
from hardsight.files.places import place
from hardsight.files.samples import Batch, SampleFiles
from hardsight.files.snapshot_files import OWN_NAMES, ArraySource, Source, is_column, open_files, open_table, relabeled
from hardsight.files.wide_tables import check_columns, is_table, names_columns, take_apart, warn_of_scales
from hardsight.files.writing import check_output, replacing
from hardsight.fitted_estimator import FittedEstimator, fitted_columns
from hardsight.head import Head, as_head, is_estimator
from hardsight.named_labels import names_that_hold
from hardsight.pandas_index import align, class_names_in, in_class_order, index_ids, same_columns
from hardsight.screen import print_in_command, printable, wrapped

BATCH_BYTES = 32 * 2**20  # features per batch when reading from files
EVIDENCE = ("features", "logits", "probs")
SNAPSHOTS = (".npz", ".npy", ".parquet", ".pq")  # extensions of snapshot files


class Snapshot:
    """Features, a head, labels and ids: one model's view of one dataset.

    Args:
        features: (n, d) inputs of the last linear layer.
        head: a `Head`, the (c, d) weight of a linear head (with a separate `bias`), or a fitted scikit-learn linear
            classifier: the earlier steps of a pipeline are applied to the features, and its classes name the labels.
        labels: (n,) class numbers or names; -1 or null for unlabeled. Names are matched to the known class names; if there
            are none, classes are numbered in sorted order of their names.
        ids: (n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.
        logits, probs: (n, c), instead of features; `pred_probs` is an alias of `probs`.
        class_names: (c,) class names.
        columns: other (n,) columns by name, such as split or path.

    pandas objects are joined by index, everything else by position. Columns of frames are joined by name: those of a weight
    to those of the features, those of logits and probabilities to named labels.

    Example:
        >>> snapshot = Snapshot(np.eye(3), np.eye(3), labels=[0, 1, 2])
        >>> len(snapshot), snapshot.num_classes
        (3, 3)
    """

    loaded_from: dict[str, Any] | None = None  # arguments of `load`, so that other processes can load the same
    whole: bool = True  # whether its rows are in the order of its source, without gaps
    read_from: tuple[Any, ...] = ()  # source files of the rows, also after `take`: `save` replaces none of them

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
        if is_estimator(features):
            raise InputError("the samples come first, and the model after them: score(X, model, y).")
        note: str | None = None
        names: Sequence[str] = ()
        if is_table(features) and names_columns(features, None, labels, ids):
            parts = take_apart(features, fitted_columns(head), labels, ids)
            class_names, columns = class_names or parts.class_names, {**parts.columns, **(columns or {})}
            features, labels, ids, note, names = None, parts.labels, parts.ids, parts.note, parts.names
            features, logits, probs = (parts.values if parts.evidence == name else None for name in EVIDENCE)
        arrays = {name: x for name, x in zip(EVIDENCE, (features, logits, probs), strict=True) if x is not None}
        if len(arrays) != 1:
            raise InputError(f"a snapshot holds one of features, logits or probs, got {' and '.join(arrays) or 'none'}.")
        ((evidence, values),) = arrays.items()
        if evidence == "features" and is_table(values):
            names = check_columns(values)
        if bias is not None and head is None:
            raise InputError("bias goes with a weight, and there is none: give head= as well.")
        missing, values = None, from_stream(values)
        head, values = (same_columns(head, values), values) if evidence == "features" else (head, in_class_order(values))
        if is_list_column(values):
            values, missing = list_matrix(values, evidence)
        matrix = as_matrix(values, evidence)
        if labels is None and _looks_like_labels(head, len(matrix)):
            raise InputError("the second argument is the head, a model or its weight; labels go by name: score(X, labels=y).")
        ids = index_ids(values) if ids is None else align(ids, "ids", values, evidence)
        ids = None if ids is None else check_ids(ids, len(matrix))
        labels = align(labels, "labels", values, evidence, ids)
        further = {
            name: align(column, f"column {name}", values, evidence, ids)
            for name, column in _check_columns(columns or {}, len(matrix)).items()
        }
        if class_names is None:
            named = class_names_in(head, 0) if evidence == "features" else class_names_in(values, 1)
            class_names = names_that_hold(labels, named)
        source = ArraySource(evidence, matrix, labels, ids, further, missing)
        source.note = note
        if head is None and names:
            warn_of_scales(matrix, names)
        if is_estimator(head):
            head, class_names = source.behind(FittedEstimator(head), values, class_names)
        self._set(source, None if head is None else as_head(head, bias), class_names, name=None)

    def _set(self, source: Source, head: Head | None, class_names: list[str] | None, name: str | None) -> None:
        self.source, self.head, self.name = source, head, name
        if isinstance(source, SampleFiles) and len(source) == 0 and source.width == 0 and head is not None:
            source.width = head.num_features  # there is no row to infer it from
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
        """Rows start..stop in order, in batches of about 32 MB or of a given number of rows."""
        rows = rows or self.batch_rows
        return self.source.read(start, len(self) if stop is None else min(stop, len(self)), rows, self.num_classes)

    def pieces(self) -> list[range]:
        """Rows that are scored and written together: row groups of a Parquet file, about 32 MB of anything else."""
        return self.source.pieces(self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """Rows in a batch of about 32 MB."""
        return max(1, BATCH_BYTES // max(1, self.source.width * self.source.itemsize))

    def in_memory(self, start: int = 0, stop: int | None = None) -> Batch:
        """All the rows as one batch."""
        parts = list(self.batches(start, stop))
        if not parts:
            return Batch(start, np.zeros((0, self.source.width), np.float32), None, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Batch.joined(parts)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns other than features: id, label, then any others."""
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
        """A snapshot in memory of the given rows, in the given order, with their labels, ids and other columns.

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
        for batch in self.batches(first, last):  # only the selected rows stay in memory
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
        source.of_epochs, source.note = self.source.of_epochs, self.source.note
        taken = Snapshot.__new__(Snapshot)
        taken._set(source, self.head, self.class_names, self.name)
        taken.read_from = self.read_from
        return taken

    def of_rows(self, rows: Any) -> Snapshot:
        """`take` for increasing rows that keeps track of the source run; the snapshot itself if these are all rows."""
        if len(rows) == len(self):
            return self
        taken = self.take(rows)
        taken.loaded_from, taken.whole = self.loaded_from, False
        return taken

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as `.npz`, with the standard names as keys."""
        if place(path).suffix.lower() != ".npz":
            raise InputError(f"{path}: a snapshot is saved as .npz; give a name with that ending.")
        check_output(place(path), table=SAMPLES, inputs=self.read_from)
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
        with replacing(path, table=SAMPLES) as temporary, temporary.open("wb") as file:
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
        """Open a snapshot without reading its rows yet; only wide tables are read into memory.

        Args:
            path: a run directory, a folder that `Dynamics` wrote, a `.npz` with the standard names, a Parquet file (or a folder
                of shards) with `features` (or `logits` or `probs`), `label` and `id` columns, a `.npy` with features alone, or
                a wide `.csv`, `.tsv` or Parquet table.
            head: a Head, a weight array or a file, to add or override the head.
            labels: an array or a `.npy` file, to add or override labels; for a table, the name of a column.
            features: columns of a wide table, as names or patterns: "f*", or "width,height".
            class_names: (c,) class names, to add or override them.
        """
        path = place(path)
        from_table = path.suffix.lower() in (".csv", ".tsv") or features is not None or is_column(path, labels)
        column = labels if from_table and isinstance(labels, str) and not place(labels).is_file() else None
        if from_table:
            source, own_head, names = open_table(path, features or fitted_columns(head), column)
        else:
            source, own_head, names = open_files(path)
        if isinstance(head, (str, os.PathLike)):
            own_head, head_names = load_head(head)
            names = names or head_names
        elif head is not None and not is_estimator(head):
            own_head = as_head(head)
        if labels is not None and column is None:
            source = relabeled(source, labels)
        if isinstance(source, ArraySource):
            source.name = str(path)
            if source.note is not None:
                print_in_command(source.note)
                if own_head is None and head is None and source.evidence == "features":
                    warn_of_scales(source.values, source.feature_names)
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


@dataclass(frozen=True)
class _Shape:
    shape: tuple[int, int]


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


def _check_rows(rows: Any, num_samples: int) -> np.ndarray:
    """(k,) valid row numbers."""
    column = as_array(rows, "rows")
    if column.ndim != 1 or (column.dtype.kind not in "iu" and len(column)):
        raise InputError(f"rows must be a list of row numbers, got {column.dtype} of shape {column.shape}.")
    outside = np.flatnonzero((column < 0) | (column >= num_samples))
    if len(outside):
        raise InputError(f"rows must be 0 to {num_samples - 1}, got {column[outside[0]]}.")
    return column.astype(np.int64)


def _all_null(column: Any) -> bool:
    return isinstance(column, (pa.Array, pa.ChunkedArray)) and column.null_count == len(column)


def _plain_column(name: str, column: Any) -> np.ndarray:
    """A column as an array that can be saved without pickle."""
    plain = as_array(column, f"column {name}")
    if plain.dtype != object:
        return plain
    if not all(is_text(value) for value in plain):
        raise InputError(
            f"column {name} must hold numbers or text to be saved as .npz, which holds no other objects and no nulls."
        )
    return plain.astype(str)

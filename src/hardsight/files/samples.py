"""Samples in Parquet: the schema and the writer of `samples/`, and the reader for it and for users' own files.

    id, label, split, path, base_id, degradation, level, any further column, features (fixed-size lists of float32)

A user's file needs only a list column of features (or logits or probs, also named pred_probs); `label`, `id` and the other
columns are optional.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hardsight.checks import check_ids, check_labels, list_matrix, to_numpy
from hardsight.errors import FileError, InputError
from hardsight.files.checksums import check
from hardsight.files.class_names import as_text, class_label_names, holds_names, label_numbers, rule_for_columns, whole_numbers
from hardsight.files.kinds import LIST_COLUMNS, SAMPLES
from hardsight.files.parquet import open_parquet, read_parquet
from hardsight.files.places import Place
from hardsight.files.reading import check_unchanged, existing_file, file_state, naming, reading
from hardsight.files.table_files import check_once
from hardsight.files.writing import replacing
from hardsight.labels import Classes, LabelRule, read_labels, rule_for_numbers

OWN_COLUMNS = {  # in every part that we write, after id and label
    "split": pa.string(),
    "path": pa.string(),
    "base_id": pa.string(),
    "degradation": pa.string(),
    "level": pa.float64(),
}
PART_NUMBERS, PART_ROWS = 2**22, 2**16  # limits of one part: numbers (16 MB of features) and rows


@dataclass(frozen=True)
class Batch:
    """Some rows of a snapshot, starting at row `start`. `missing` marks empty rows."""

    start: int
    values: Any  # (b, d) features or (b, c) logits or probs
    missing: np.ndarray | None  # (b,) bool
    labels: np.ndarray  # (b,) int64, -1 unlabeled
    ids: Any  # (b,) strings or integers

    def __len__(self) -> int:
        return len(self.labels)

    def since(self, row: int) -> Batch:
        """Its rows from row number `row` on."""
        missing = None if self.missing is None else self.missing[row:]
        return Batch(self.start + row, self.values[row:], missing, self.labels[row:], self.ids[row:])

    @staticmethod
    def joined(batches: list[Batch]) -> Batch:
        """Consecutive batches joined into one."""
        if len(batches) == 1:
            return batches[0]
        gaps = [np.zeros(len(batch), bool) if batch.missing is None else batch.missing for batch in batches]
        return Batch(
            batches[0].start,
            np.concatenate([to_numpy(batch.values) for batch in batches]),
            np.concatenate(gaps),
            np.concatenate([batch.labels for batch in batches]),
            np.concatenate([np.asarray(batch.ids) for batch in batches]),
        )


def evidence_of(name: str) -> str:
    """What the values of a list column, or of an array with that name, are.

    Example:
        >>> evidence_of("pred_probs"), evidence_of("logits")
        ('probs', 'logits')
    """
    return "probs" if name == "pred_probs" else name


def evidence_among(where: Place, names: Iterable[str], hint: str = "") -> str:
    """Which of these columns or arrays holds the values: exactly one must."""
    names = list(names)
    present = [name for name in LIST_COLUMNS if name in names]
    if len(present) == 1:
        return present[0]
    close = [name for name in names if name.lower() in LIST_COLUMNS and name not in LIST_COLUMNS]
    hint = f" Rename {close[0]!r} to {close[0].lower()!r}." if close else "" if present else hint
    there = ", ".join(names[:20]) or "none"
    raise FileError(f"{where}: needs one of features, logits and probs (also called pred_probs), found {there}.{hint}")


def is_free(name: str) -> bool:
    """Whether a user's column can keep its name next to those of the schema; split and path are shared.

    Example:
        >>> is_free("camera"), is_free("split"), is_free("Label"), is_free("logits")
        (True, True, False, False)
    """
    return name in ("split", "path") or (name not in (*OWN_COLUMNS, *LIST_COLUMNS) and name.lower() not in ("id", "label"))


def rows_per_part(num_features: int) -> int:
    """Maximum number of samples in one part of a run."""
    return max(1, min(PART_ROWS, PART_NUMBERS // num_features))


def write_samples(
    path: str | os.PathLike[str], features: Any, columns: Mapping[str, Any], metadata: dict[bytes, bytes] | None = None
) -> int:
    """Write one `samples/part-*.parquet` in the schema above, and return its rows.

    `columns` must hold id (strings or integers). A label of -1 or null means unlabeled; schema columns that are not given are
    null; other columns follow in their order.
    """
    matrix = np.ascontiguousarray(to_numpy(features), dtype=np.float32)  # (n, d)
    label = _as_arrow(columns.get("label", pa.nulls(len(matrix))), pa.int64())
    held: dict[str, Any] = {
        "id": _as_arrow(columns["id"]),
        "label": pc.if_else(pc.less(label, 0), pa.scalar(None, pa.int64()), label),
        **{name: _as_arrow(columns.get(name, pa.nulls(len(matrix))), kind) for name, kind in OWN_COLUMNS.items()},
    }
    held |= {name: _as_arrow(column) for name, column in columns.items() if name not in held}
    lists = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
    table = pa.table({**held, "features": lists}).replace_schema_metadata(metadata)
    with replacing(path, table=SAMPLES) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True, compression="zstd", use_dictionary=list(held))
    return len(matrix)


def _as_arrow(values: Any, kind: pa.DataType | None = None) -> Any:
    column = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return column if kind is None else column.cast(kind)


class SampleFiles:
    """One or more Parquet files with the same columns, read as one sequence of rows."""

    itemsize = 8
    named = False  # whether class numbers depend on the names of the classes, set by `read_labels`
    of_epochs = False
    note: str | None = None
    labels: Any = None  # (n,) labels from outside, in the place of those in the files

    def __init__(self, files: list[Place], *, of_run: bool = False) -> None:
        self.files, self.of_run = files, of_run  # of a run of ours, whose labels are counted from 0
        self.states = {str(file): file_state(existing_file(file)) for file in files}
        self.groups: list[tuple[Place, int, range]] = []  # file, row group, rows
        row = 0
        for file in files:
            metadata = self._open(file).metadata
            for group in range(metadata.num_row_groups):
                count = metadata.row_group(group).num_rows
                self.groups.append((file, group, range(row, row + count)))
                row += count
        self.num_samples = row
        schema = self._open(files[0]).schema_arrow
        self.schema_names = schema.names
        check_once(files[0], schema.names)
        self.held_as = evidence_among(
            files[0], schema.names, " Of a wide table, name the features with --features 'f*'."
        )  # the column of the values
        for name in schema.names:
            if name != name.lower() in ("label", "id"):
                raise FileError(f"{files[0]}: the column {name!r} must be named {name.lower()!r}.")
        self.evidence = evidence_of(self.held_as)
        self.rules: dict[str, LabelRule] = {}  # what the labels of each file mean, set by `read_labels`
        self.labeled, self.has_ids = "label" in schema.names, "id" in schema.names
        kind = schema.field("id").type if self.has_ids else pa.int64()
        integer = pa.types.is_integer(kind.value_type if pa.types.is_dictionary(kind) else kind)
        self.id_type = pa.int64() if integer else pa.string()
        kind = schema.field(self.held_as).type
        self.width = self._width(files[0], getattr(kind, "storage_type", kind))  # a fixed_shape_tensor is stored as lists

    def __len__(self) -> int:
        return self.num_samples

    def pieces(self, rows: int) -> list[range]:
        """Ranges of rows that are read together: a row group of a file with several, or files with up to `rows` rows in total."""
        groups = Counter(str(file) for file, _, _ in self.groups)
        pieces: list[range] = []
        open_ended = False  # whether another file may join the last piece
        for file, _, piece in self.groups:
            whole_file = groups[str(file)] == 1
            if open_ended and whole_file and len(pieces[-1]) + len(piece) <= min(rows, PART_ROWS):
                pieces[-1] = range(pieces[-1].start, piece.stop)
            elif len(piece):
                pieces.append(piece)
            open_ended = whole_file and bool(pieces)
        return pieces

    @property
    def column_names(self) -> list[str]:
        """All columns except the features: id and label first, whether or not the files have them."""
        return ["id", "label", *(name for name in self.schema_names if name not in ("id", "label", *LIST_COLUMNS))]

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """Columns of all rows. Without ids, row numbers are used; a column missing from a part is null there."""
        parts, row = [], 0
        for file in self.files:
            with self._open(file) as opened:
                held_names, count = opened.schema_arrow.names, opened.metadata.num_rows
            table = read_parquet(file, [name for name in names if name in held_names])
            check_unchanged(file, self.states[str(file)])
            columns: dict[str, Any] = {name: table.column(name) for name in names if name in table.column_names}
            if "id" in names:
                held = columns.get("id")
                columns["id"] = pa.array(range(row, row + count)) if held is None else self._cast_ids(held, file)
            if "label" in names and self.labels is not None:
                columns["label"] = pa.nulls(count)
            if "label" in columns:
                columns["label"] = pa.array(labels := self._labels(columns["label"], num_classes, row, file), mask=labels < 0)
            elif "label" in names:
                columns["label"] = pa.nulls(count, pa.int64())
            parts.append(pa.table(columns))
            row += count
        with reading(self.files[0]):
            return pa.concat_tables(parts, promote_options="permissive").select(names)

    def read_labels(self, classes: Classes) -> tuple[list[str] | None, tuple[str, ...]]:
        """Decide what the labels mean, given what is known of the classes; return the class names, and notes."""
        if not self.labeled:
            return None if classes.names is None else list(classes.names), ()
        if self.labels is not None:
            read = read_labels(self.labels, classes)
            self.labels = check_labels(read.numbers, self.num_samples, None)
            self.named = read.changed
            return read.class_names, read.notes
        schemas = [(file, self._open(file).schema_arrow) for file in self.files]
        schemas = [(file, schema) for file, schema in schemas if "label" in schema.names]
        counted = [(file, class_label_names(schema, "label")) for file, schema in schemas]
        kinds = [(file, schema.field("label").type) for file, schema in schemas]
        named = [file for file, kind in kinds if holds_names(kind)]
        numbered = [file for file, kind in kinds if not holds_names(kind) and not pa.types.is_null(kind)]
        if named and numbered:
            raise InputError(
                f"{named[0]} has names in the column label, {numbered[0]} has numbers: use one of them in all files."
            )
        self.rules = self._rules_of_names(classes, named, counted[0][1]) if named else self._rules_of_numbers(classes, counted)
        self.named = any(rule.changes for rule in self.rules.values())
        found = next(iter(self.rules.values()))
        return found.class_names, found.notes

    def renumbered(self, numbers: np.ndarray, order: np.ndarray, names: list[str]) -> SampleFiles:
        """The same rows with label k as `numbers[k]`; of features, whose columns are no classes."""
        rules = {file: rule.then(numbers, names) for file, rule in self.rules.items()}
        return self.changed(rules=rules, named=True, labels=None if self.labels is None else numbers[self.labels])

    def changed(self, **values: Any) -> SampleFiles:
        """The same rows with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(values)
        return other

    def _rules_of_names(self, classes: Classes, files: list[Place], counted: list[str] | None) -> dict[str, LabelRule]:
        """One rule for all files, made from the distinct names in them."""
        columns = {f"{file}, column label": as_text(self._label_column(file)) for file in files}
        return dict.fromkeys(map(str, files), rule_for_columns(columns, classes.under(counted)))

    def _rules_of_numbers(self, classes: Classes, counted: list[tuple[Place, list[str] | None]]) -> dict[str, LabelRule]:
        """A rule for each file: numbers count the names in its own schema, which are joined to those of the first file."""
        file_of, first = next(((file, names) for file, names in counted if names is not None), (None, None))
        if any(names not in (None, first) for _, names in counted):
            classes = classes.under(first)
        may_count_from_one = first is None and classes.number is not None and not self.of_run
        numbers = [np.unique(whole_numbers(self._label_column(file))) for file, _ in counted] if may_count_from_one else []
        rules = {}
        for file, names in counted:
            try:
                rules[str(file)] = rule_for_numbers(np.concatenate([np.empty(0, np.int64), *numbers]), classes, names)
            except InputError as error:
                raise InputError(
                    f"{file}: {error}" + (f" {file_of} names the classes first." if file_of != file else "")
                ) from error
        return rules

    def _label_column(self, file: Place) -> Any:
        return read_parquet(file, ["label"]).column("label").combine_chunks()

    def _cast_ids(self, column: Any, file: Place) -> Any:
        with reading(file, "the column id must hold strings or 64-bit integers"):
            return _id_column(column, file).cast(self.id_type)

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`; small files are joined."""
        waiting: list[Batch] = []
        for batch in self._read_groups(start, stop, rows, num_classes):
            if waiting and sum(map(len, waiting)) + len(batch) > rows:
                yield Batch.joined(waiting)
                waiting = []
            waiting.append(batch)
        if waiting:
            yield Batch.joined(waiting)

    def _read_groups(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """The same, each batch from one row group."""
        stored = self.labeled and self.labels is None
        columns = [self.held_as, *(["label"] if stored else []), *(["id"] if self.has_ids else [])]
        for file, group, piece in self.groups:
            if piece.stop <= start or piece.start >= stop:
                continue
            row = piece.start
            check(file)
            with reading(file), self._open(file) as opened:
                for part in opened.iter_batches(rows, row_groups=[group], columns=columns):
                    first, row = row, row + len(part)
                    part = part.slice(max(0, start - first), max(0, min(stop, row) - max(start, first)))
                    if len(part):
                        yield self._batch(part, max(first, start), num_classes, file)
            check_unchanged(file, self.states[str(file)])
            if row != piece.stop:
                raise FileError(f"{file}: damaged: row group {group} claims {len(piece)} rows but holds {row - piece.start}.")

    def _batch(self, part: pa.RecordBatch, first: int, num_classes: int | None, file: Place) -> Batch:
        values, missing = list_matrix(part.column(self.held_as), str(file), self.width, first)
        column = part.column("label") if "label" in part.schema.names else pa.nulls(len(part), pa.int64())
        labels = self._labels(column, num_classes, first, file)
        ids = _ids(part.column("id"), file) if self.has_ids else np.arange(first, first + len(part))
        return Batch(first, values, missing, labels, ids)

    def _labels(self, column: Any, num_classes: int | None, first_row: int, file: Place) -> np.ndarray:
        """(n,) int64 labels of a column, -1 for null; those from outside, if there are any."""
        if self.labels is not None:
            return np.asarray(self.labels[first_row : first_row + len(column)])
        rule = self.rules.get(str(file), LabelRule())
        c = len(rule.class_names) if num_classes is None and rule.class_names is not None else num_classes
        with naming(f"{file}, column label"), reading(file, "the column label must hold class numbers or names"):
            return check_labels(label_numbers(column, rule, first_row), len(column), c, first_row)

    def _open(self, file: Place) -> pq.ParquetFile:
        check_unchanged(file, self.states[str(file)])
        return open_parquet(file)

    def _width(self, file: Place, kind: pa.DataType) -> int:
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise FileError(f"{file}: the column {self.held_as} must hold lists of numbers, got {kind}.")
        with reading(file), self._open(file) as opened:
            for part in opened.iter_batches(64, columns=[self.held_as]):
                lengths = pc.list_value_length(part.column(0)).drop_null()
                if len(lengths):
                    return int(lengths[0].as_py())
        return 0


def _ids(column: pa.Array, file: Place) -> np.ndarray:
    column = _id_column(column, file)
    with naming(file), reading(file, "the column id must hold UTF-8 text"):
        return check_ids(column.to_numpy(zero_copy_only=False), len(column))


def _id_column(column: Any, file: Place) -> Any:
    """Ids as an Arrow column of strings or integers, without nulls."""
    if column.null_count:
        raise InputError(f"{file}: the column id must not hold nulls, found {column.null_count}.")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{file}: the column id must hold strings or integers, got {kind}.")
    return column

"""Where the rows of a snapshot are: in memory (`ArraySource`), in a table of scores (`TableSource`), or in Parquet files, which
`hardsight.files.samples.SampleFiles` reads.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import arrow_numbers, as_array, as_matrix, check_ids, check_labels, id_array
from hardsight.errors import InputError, first_line
from hardsight.files.reading import naming
from hardsight.files.samples import Batch, SampleFiles
from hardsight.fitted_estimator import FittedEstimator
from hardsight.head import Head
from hardsight.labels import Classes, read_labels
from hardsight.table import renumbered
from hardsight.threads import blocks

SCORES_ALONE = "scores"  # in the place of features, logits or probs where there is nothing but a table of scores


class ArraySource:
    """Rows in memory, or in arrays on disk that can be sliced; `name` is the file, for messages."""

    name: str | None = None
    named = False  # whether class numbers depend on the names of the classes
    of_epochs = False  # whether the values are means over the epochs of a training, and nothing else is known
    missing: np.ndarray | None = None  # (n,) bool: rows without values
    label_names: Sequence[str] | None = None  # names that the label numbers count, where the labels come with some
    note: str | None = None  # which columns of a table the values are
    feature_names: Sequence[str] = ()

    def __init__(
        self, evidence: str, values: Any, labels: Any = None, ids: Any = None, columns: dict[str, Any] | None = None
    ) -> None:
        self.evidence, self.values, self.further = evidence, values, columns or {}
        self.num_samples, self.width = (int(extent) for extent in values.shape)
        self.itemsize = values.dtype.itemsize
        self.labeled = labels is not None
        self.labels = np.full(self.num_samples, -1) if labels is None else labels
        self.ids = None if ids is None else check_ids(ids, self.num_samples)
        self.id_type = pa.string() if self.ids is not None and self.ids.dtype == object else pa.int64()

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`."""
        for part in blocks(stop - start, rows):
            cut = slice(start + part.start, start + part.stop)
            ids = np.arange(cut.start, cut.stop) if self.ids is None else self.ids[cut]
            missing = None if self.missing is None else self.missing[cut]
            yield Batch(cut.start, self.values[cut], missing, self.labels[cut], ids)

    @property
    def column_names(self) -> list[str]:
        """id and label, then the further columns."""
        return ["id", "label", *self.further]

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """The named columns of all rows."""
        return pa.table({name: self._column(name) for name in names})

    def read_labels(self, classes: Classes) -> tuple[list[str] | None, tuple[str, ...]]:
        """Turn labels into class numbers; return the class names, if there are any, and notes."""
        if not self.labeled:
            names = self.label_names if classes.names is None and classes.count is None else classes.names
            return None if names is None else list(names), ()
        with naming(self.name):
            read = read_labels(self.labels, classes, self.label_names)
            self.labels = check_labels(read.numbers, self.num_samples, None)
        self.named, self.label_names = self.named or read.changed, None
        return read.class_names, read.notes

    def renumbered(self, numbers: np.ndarray, order: np.ndarray, names: list[str]) -> ArraySource:
        """The same rows with label k as `numbers[k]`, and with the columns of logits or probabilities in another `order`."""
        values = self.values if self.evidence == "features" else np.asarray(self.values)[:, order]
        return self.changed(values=values, labels=numbers[self.labels], named=True)

    def changed(self, **values: Any) -> ArraySource:
        """The same rows with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(values)
        return other

    def behind(self, estimator: FittedEstimator, rows: Any) -> Head:
        """Transform the rows as a pipeline would before its classifier; return its head."""
        if self.evidence != "features":
            raise InputError(f"a classifier needs features; {self.evidence} are already its output.")
        self.values = as_matrix(estimator.features(rows), "features")
        self.width, self.itemsize = int(self.values.shape[1]), self.values.dtype.itemsize
        return estimator.head(self.values)

    def _column(self, name: str) -> Any:
        if name == "id":
            return pa.array(np.arange(self.num_samples) if self.ids is None else self.ids, self.id_type)
        if name == "label":
            return pa.array(self.labels, mask=self.labels < 0)
        column = self.further[name]
        try:
            return column if isinstance(column, (pa.Array, pa.ChunkedArray)) else _arrow_column(name, column)
        except (pa.ArrowException, InputError, ValueError, TypeError) as error:  # for example, text that is not valid UTF-8
            where = f"{self.name}: " if self.name else ""
            raise InputError(f"{where}the column {name} cannot be shown in a table: {first_line(error)}") from error


def _arrow_column(name: str, column: Any) -> pa.Array:
    plain = as_array(column, f"column {name}")
    return pa.array(plain, from_pandas=plain.dtype == object)  # NaN among text is pandas' null


class SelectedRows:
    """Some rows of another source, in its order: they are picked from each batch as it is read."""

    def __init__(self, source: ArraySource | SampleFiles, rows: np.ndarray) -> None:
        self.source, self.rows = source, rows
        self.num_samples = len(rows)
        self.evidence, self.width, self.itemsize, self.id_type = source.evidence, source.width, source.itemsize, source.id_type
        self.labeled, self.named, self.note, self.of_epochs = source.labeled, source.named, source.note, source.of_epochs

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Rows start..stop in order, in batches of at most `rows`."""
        wanted = self.rows[start:stop]
        for batch in self.source.read(int(wanted[0]), int(wanted[-1]) + 1, rows, num_classes) if len(wanted) else ():
            first, last = np.searchsorted(wanted, (batch.start, batch.start + len(batch)))
            here = wanted[first:last] - batch.start
            missing = None if batch.missing is None else batch.missing[here]
            if len(here):
                yield Batch(start + int(first), batch.values[here], missing, batch.labels[here], batch.ids[here])

    @property
    def column_names(self) -> list[str]:
        """Those of the other source."""
        return self.source.column_names

    def columns(self, names: list[str], num_classes: int | None) -> pa.Table:
        """The named columns of these rows."""
        return self.source.columns(names, num_classes).take(self.rows)

    def renumbered(self, numbers: np.ndarray, order: np.ndarray, names: list[str]) -> SelectedRows:
        """The same rows with other class numbers."""
        return SelectedRows(self.source.renumbered(numbers, order, names), self.rows)


class TableSource(ArraySource):
    """A table of scores: no features, logits or probabilities, but columns; `label` and `id` among them where it has them."""

    def __init__(self, table: pa.Table) -> None:
        ids = _table_ids(table)
        labels = _table_labels(table) if "label" in table.column_names else None
        further = {name: table.column(name) for name in table.column_names if name not in ("id", "label")}
        super().__init__(SCORES_ALONE, np.empty((len(table), 0)), labels, ids, further)
        self.table = table

    def renumbered(self, numbers: np.ndarray, order: np.ndarray, names: list[str]) -> TableSource:
        """The same table with other class numbers."""
        return TableSource(renumbered(self.table, numbers, names))

    def _column(self, name: str) -> Any:
        return self.table.column("id") if name == "id" and "id" in self.table.column_names else super()._column(name)

    def read(self, start: int, stop: int, rows: int, num_classes: int | None) -> Iterator[Batch]:
        """Refused: there is nothing but scores."""
        raise InputError(f"{self.name or 'the table'} holds scores alone: give the features, logits or probs that they are of.")


def _table_ids(table: pa.Table) -> np.ndarray | None:
    if "id" not in table.column_names:
        return None
    column = table.column("id")
    if column.null_count:
        raise InputError(f"ids must be unique and not null, but {column.null_count} of {len(table)} are null.")
    return id_array(column)


def _table_labels(table: pa.Table) -> Any:
    """The column label; whole numbers as an array, -1 for null (without pandas, which Arrow would load to make it)."""
    column = table.column("label")
    if not pa.types.is_signed_integer(column.type):
        return column
    values, valid = arrow_numbers(column)
    return np.where(valid, values, -1)


Source = ArraySource | SelectedRows | SampleFiles


def selected(source: Source, rows: np.ndarray) -> SelectedRows:
    """Some rows of a source, also of one that holds some rows itself; rows do not decrease."""
    if isinstance(source, SelectedRows):
        return SelectedRows(source.source, source.rows[rows])
    return SelectedRows(source, rows)

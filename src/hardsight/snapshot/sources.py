"""Where the rows of a snapshot are: in memory (`ArraySource`), in a table of scores (`TableSource`), or in Parquet files, which
`hardsight.files.samples.SampleFiles` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hardsight.checks import arrow_numbers, as_array, as_matrix, check_ids, check_labels
from hardsight.errors import InputError, first_line
from hardsight.files.samples import Batch
from hardsight.fitted_estimator import FittedEstimator
from hardsight.head import Head
from hardsight.named_labels import class_numbers
from hardsight.threads import blocks
from hardsight.unique_ids import id_array

SCORES_ALONE = "scores"  # in the place of features, logits or probs where there is nothing but a table of scores


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
        labels = self.class_numbers(num_classes)
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
            labels = self.class_numbers(num_classes)
            return pa.array(labels, mask=labels < 0)
        column = self.further[name]
        try:
            return column if isinstance(column, (pa.Array, pa.ChunkedArray)) else _arrow_column(name, column)
        except (pa.ArrowException, InputError, ValueError, TypeError) as error:  # for example, text that is not valid UTF-8
            where = f"{self.name}: " if self.name else ""
            raise InputError(f"{where}the column {name} cannot be shown in a table: {first_line(error)}") from error

    def class_numbers(self, num_classes: int | None) -> np.ndarray:
        """(n,) labels, checked: class numbers, -1 for unlabeled."""
        if self.checked is None or self.checked[0] != num_classes:  # validate once, not for every piece
            try:
                self.checked = num_classes, check_labels(self.labels, self.num_samples, num_classes)
            except InputError as error:
                raise InputError(f"{self.name}: {error}" if self.name else str(error)) from error
        return self.checked[1]


def _arrow_column(name: str, column: Any) -> pa.Array:
    plain = as_array(column, f"column {name}")
    return pa.array(plain, from_pandas=plain.dtype == object)  # NaN among text is pandas' null


class TableSource(ArraySource):
    """A table of scores: no features, logits or probabilities, but columns; `label` and `id` among them where it has them."""

    def __init__(self, table: pa.Table) -> None:
        ids = _table_ids(table)
        labels = _table_labels(table) if "label" in table.column_names else None
        further = {name: table.column(name) for name in table.column_names if name not in ("id", "label")}
        super().__init__(SCORES_ALONE, np.empty((len(table), 0)), labels, ids, further)
        self.table = table

    def _column(self, name: str, num_classes: int | None) -> Any:
        if name == "id" and "id" in self.table.column_names:
            return self.table.column("id")
        return super()._column(name, num_classes)

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

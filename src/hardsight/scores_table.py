"""`ScoresTable`: an Arrow table of scores with a readable display: a summary, the hardest samples, their images.

`Result` is the same for other results, such as suspects or groups. Everything else is delegated to the `pyarrow.Table` in
`.arrow`, and tables returned by its methods are wrapped in the same way.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError, MissingExtra, why_missing
from hardsight.files.parquet import table_notes
from hardsight.files.suspects import count_in_words, noted_warnings
from hardsight.render.table_views import TableView, as_html, as_text
from hardsight.scores import SCORES
from hardsight.table import UNLABELED, Summary, hardest, noted_class_names, plain, with_class_names, write_table

RANKED_BY = ("avh", "loss", "confidence", *UNLABELED)  # the first that has values ranks the samples
FIXED = ["id", "label", "predicted", "status"]
FEW = 12  # maximum number of distinct words to count in a column


class PictureSource(Protocol):
    """A source of images by sample id."""

    def image(self, id: Any) -> Any:
        """The image of a sample as a PIL image, or None."""


class InOrder:
    """Images in the row order of a table: arrays (h, w) or (h, w, 3), or PIL images."""

    def __init__(self, ids: pa.ChunkedArray, images: Sequence[Any] | np.ndarray) -> None:
        self.ids, self.images = ids, images

    def image(self, id: Any) -> Any:
        """The image of a sample as a PIL image, or None."""
        from PIL import Image

        row = pc.index(self.ids, pa.scalar(id, self.ids.type)).as_py()
        image = None if row < 0 else self.images[row]
        return image if image is None or isinstance(image, Image.Image) else Image.fromarray(_bytes_of(image))


def _bytes_of(image: Any) -> np.ndarray:
    pixels = np.asarray(image)
    if pixels.dtype == np.uint8:
        return pixels
    low, high = float(pixels.min()), float(pixels.max())
    return np.round(255 * (pixels - low) / ((high - low) or 1.0)).astype(np.uint8)  # from black to white


class Result:
    """A `pyarrow.Table` with a one-screen display in a terminal or a notebook.

    It works like a `pyarrow.Table` (`len`, `t["id"]`, `select`, `filter`, `slice`, `sort_by`, `to_pandas`, ...); `.arrow` is that
    table, for functions that require one. pandas, polars and DuckDB read it through the Arrow protocol.

    Args:
        arrow: the table.
        by: numeric column to rank by for display, highest first (a score by its hard end).
        counted: column of words to count in the first line.
        shown: columns to show. Default: the first eight.

    Example:
        >>> table = Result(pa.table({"id": ["a", "b"], "verdict": ["ok", "mislabeled"], "error_score": [0.1, 0.9]}))
        >>> table.filter(pc.field("error_score") > 0.5)["id"].to_pylist()
        ['b']
    """

    class_names: list[str] | None = None
    features: str | None = None  # which columns of a table they were, in words
    pictures: PictureSource | None = None

    def __init__(self, arrow: pa.Table, by: str | None = None, counted: str | None = None, shown: Sequence[str] = ()) -> None:
        self.arrow: pa.Table = arrow
        self.by, self.counted, self.shown = by, counted, tuple(shown)

    def of(self, snapshot: Any, pictures: PictureSource | None) -> Self:
        """The same table, with what is known of its samples: class names, feature columns, images."""
        self.class_names, self.features, self.pictures = snapshot.class_names, snapshot.source.note, pictures
        return self

    def __repr__(self) -> str:
        return as_text(self._view())

    def _repr_html_(self) -> str:
        return as_html(self._view(), None if self.pictures is None else self.pictures.image)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as .parquet, .csv or .json, depending on the extension.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Result(pa.table({"id": ["a"], "n": [3]})).save(f"{folder}/table.csv")
            ...     Path(folder, "table.csv").read_text()
            '"id","n"\\n"a",3\\n'
        """
        write_table(self._named(), path)

    def to_pandas(self, **options: Any) -> Any:
        """The table as a pandas DataFrame, with class names where they are known."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MissingExtra(why_missing("to_pandas()", "pandas", error, "pandas")) from error
        return with_class_names(self._named()).to_pandas(**options)

    def _named(self) -> pa.Table:
        """The Arrow table with the class names in its metadata."""
        notes = table_notes(self.arrow.schema)
        if self.class_names is None or "class_names" in notes:
            return self.arrow
        held = {
            **(self.arrow.schema.metadata or {}),
            b"hardsight": json.dumps({**notes, "class_names": self.class_names}).encode(),
        }
        return self.arrow.replace_schema_metadata(held)

    def _notes(self) -> list[str]:
        """What holds for all rows and must be read with them: warnings first, then the expected errors."""
        notes = table_notes(self.arrow.schema)
        said = (count_in_words(notes), self.features)
        return [f"warning: {text}" for text in noted_warnings(notes)] + [text for text in said if text]

    def _view(self) -> TableView:
        columns, counts = self.arrow.column_names, {}
        by = self.by if self.by is not None and columns.count(self.by) == 1 else None
        if self.counted is not None and columns.count(self.counted) == 1:
            entries = pc.value_counts(self.arrow.column(self.counted)).to_pylist()
            held = {str(entry["values"]): entry["counts"] for entry in entries if entry["values"] is not None}
            counts = held if len(entries) <= FEW and (len(self) == 1 or len(held) < len(self)) else {}
        rows = self.arrow.slice(0, 10) if by is None else hardest(self.arrow, by)
        return TableView(
            type(self).__name__, rows, len(self), columns, self.class_names, by, counts=counts, chosen=self.shown,
            notes=self._notes(),
        )  # fmt: skip

    def _again(self, arrow: pa.Table) -> Any:
        again = type(self).__new__(type(self))
        again.__dict__.update(self.__dict__ | {"arrow": arrow})
        return again

    def _repeated(self, value: Any) -> Any:
        return self._again(value) if isinstance(value, pa.Table) else value

    def __getattr__(self, name: str) -> Any:
        if name == "arrow" or (name.startswith("_") and name != "__dataframe__"):
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")
        if not hasattr(self.arrow, name):
            there = "it has those of a pyarrow.Table; to_pandas() makes a DataFrame, save('table.csv') a file"
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}: {there}")
        value = getattr(self.arrow, name)
        return self._method(value) if callable(value) else value

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of the Arrow table that accepts and returns tables of this class."""

        @functools.wraps(method)
        def of_arrow(*values: Any, **options: Any) -> Any:
            arrow = {name: plain(value) for name, value in options.items()}
            return self._repeated(method(*map(plain, values), **arrow))

        return of_arrow

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pictures": None}  # images are not pickled

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name for name in dir(self.arrow) if not name.startswith("_"))})

    def __len__(self) -> int:
        return len(self.arrow)

    def __getitem__(self, key: Any) -> Any:
        return self._repeated(self.arrow[key])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrow.columns)

    def __eq__(self, other: object) -> bool:
        return bool(self.arrow == plain(other))

    __hash__ = None  # type: ignore[assignment]  # as a pyarrow.Table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.arrow.__array__(dtype, copy=copy)


class ScoresTable(Result):
    """One row per sample: id, label, predicted, status, then one column per score.

    It shows a summary and the hardest samples, with thumbnails if there are images, and works like a `pyarrow.Table` (`len`,
    `t["avh"]`, `select`, `filter`, `slice`, `sort_by`, `to_pandas`, ...); `.arrow` is that table, for functions that require one.

    Args:
        arrow: the table.
        class_names: (c,) names to show instead of class indices.
        pictures: source of images by sample id.
        by: score to rank by for display. Default: `avh`, if present.
        num_classes: c, if known.

    Example:
        >>> table = ScoresTable(pa.table({"id": ["a", "b"], "label": [0, 1], "avh": [0.1, 0.3]}))
        >>> table["avh"].to_pylist(), table.filter(pc.field("avh") > 0.2).num_rows
        ([0.1, 0.3], 1)
    """

    def __init__(
        self,
        arrow: pa.Table,
        class_names: Sequence[str] | None = None,
        pictures: PictureSource | None = None,
        by: str | None = None,
        num_classes: int | None = None,
    ) -> None:
        super().__init__(arrow, by)
        self.class_names = list(class_names) if class_names is not None else noted_class_names(arrow.schema)
        self.pictures = pictures
        self.num_classes = num_classes if self.class_names is None else len(self.class_names)

    def with_images(self, images: Sequence[Any] | np.ndarray) -> ScoresTable:
        """The same table with images: one per row, as arrays (h, w) or (h, w, 3), or PIL images.

        Example:
            >>> table = ScoresTable(pa.table({"id": [0, 1], "avh": [0.1, 0.3]}))
            >>> "<img" in table.with_images(np.zeros((2, 8, 8), np.uint8))._repr_html_()
            True
        """
        if len(images) != len(self):
            raise InputError(f"images must have one entry per row, got {len(images)} for {len(self)} rows.")
        if "id" not in self.arrow.column_names:
            raise InputError("images are found by id, and this table has no column id.")
        shown: ScoresTable = self._again(self.arrow)
        shown.pictures = InOrder(self.arrow.column("id"), images)
        return shown

    def hardest(self, by: str | None = None, top: int | None = 10) -> ScoresTable:
        """The hardest rows first, by a score's hard end: `hardsight.table.hardest` of this table."""
        by = by or self.ranked_by or "avh"
        ranked: ScoresTable = self._again(hardest(self.arrow, by, top))
        ranked.by = by
        return ranked

    @property
    def ranked_by(self) -> str | None:
        """The score that ranks the samples for display."""
        names, columns = [self.by, *RANKED_BY, *SCORES], self.arrow.column_names
        there = [name for name in names if name is not None and columns.count(name) == 1]
        valued = (name for name in there if self.arrow.column(name).null_count < len(self))  # no label, no AVH
        return next(valued, next(iter(there), None))

    def _view(self) -> TableView:
        """The hardest rows and a summary, or the first rows of a table with other columns."""
        name, by, columns = type(self).__name__, self.ranked_by, self.arrow.column_names
        if by is None or "id" not in columns:
            return TableView(name, self.arrow.slice(0, 10), len(self), columns, self.class_names)
        summary = None
        if columns[:4] == FIXED and len(set(columns)) == len(columns) and _all_numbers(self.arrow):
            summary = Summary(by=by, num_classes=self.num_classes or 0)  # 0: unknown, and not counted
            summary.add(self.arrow)
        rows = summary.hardest if summary is not None else hardest(self.arrow, by)
        return TableView(name, rows, len(self), columns, self.class_names, by, summary, notes=self._notes())


def _all_numbers(arrow: pa.Table) -> bool:
    kinds = [field.type for field in arrow.schema][4:]
    return all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in kinds)

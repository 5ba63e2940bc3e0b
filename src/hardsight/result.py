"""`Result`: what a verb found. A main table, the numbers of its headline, notes, named tables and figures.

A verb's result is a small class of its own: it says what its lines and figures are, and everything else is rendered from these:
terminal text, a page and LaTeX in `hardsight.render`, the document of `--json` in `screen.py`.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError, MissingExtra, why_missing
from hardsight.files.kinds import FORMATS, check_table_output
from hardsight.files.parquet import read_parquet, table_notes
from hardsight.files.places import Place, place
from hardsight.files.suspects import count_in_words, noted_warnings
from hardsight.render.table_views import TableView, as_html, as_text
from hardsight.scores import SCORES
from hardsight.screen import LONGEST_NAME, Sentence, ShownTable, line, number, percent, printable
from hardsight.table import (
    LABEL_FREE,
    Summary,
    as_hardness,
    hard_end,
    hardest,
    noted_class_names,
    plain,
    read_scores,
    with_class_names,
    with_mark,
    write_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKED_BY = ("avh", "loss", "confidence", *LABEL_FREE)  # the first that has values ranks the samples
FIXED = ["id", "label", "predicted", "status"]
FEW, MOST_COUNTS = 12, 6  # distinct words of a column that is counted, and of these in the headline


class PictureSource(Protocol):
    """A source of images by sample id."""

    def image(self, id: Any) -> Any:
        """The image of a sample as a PIL image, or None."""


class InOrder:
    """Images in the row order of a table: arrays (h, w) or (h, w, 3), or PIL images."""

    def __init__(self, ids: pa.Array | pa.ChunkedArray, images: Any) -> None:
        self.ids, self.images = ids, images

    def image(self, id: Any, needed: Any = None) -> Any:
        """The image of a sample as a PIL image of its own, or None; `needed` is for those that are decoded from files."""
        from PIL import Image

        row = pc.index(self.ids, pa.scalar(id, self.ids.type)).as_py()
        image = None if row < 0 else self.images[row]
        if image is None or isinstance(image, Image.Image):
            return image and image.copy()  # who asks may reduce it
        return Image.fromarray(_bytes_of(image))


def _bytes_of(image: Any) -> np.ndarray:
    pixels = np.asarray(image)
    if pixels.dtype == np.uint8:
        return pixels
    low, high = float(pixels.min()), float(pixels.max())
    return np.round(255 * (pixels - low) / ((high - low) or 1.0)).astype(np.uint8)  # from black to white


class Result:
    """What a verb found.

    `table` is the main table, a `pyarrow.Table`; `len(result)`, `result["id"]`, `result.to_pandas()` and the methods of a
    `pyarrow.Table` (`select`, `filter`, `sort_by`, ...) work on it, and pandas, polars and DuckDB read it through the Arrow
    protocol. `summary` has the numbers of the headline, `notes` warnings and advice, one sentence each; `tables()` the tables
    that are printed, `figures()` matplotlib figures, made on demand; `run` is the run directory, if there is one.

    Args:
        table: the main table, or the file that it was written to, which is read when it is needed.
        notes: warnings and advice, one sentence each.
        run: the run directory.

    Example:
        >>> result = Result(pa.table({"id": ["a", "b"], "error_score": [0.1, 0.9]}))
        >>> len(result), result.filter(pc.field("error_score") > 0.5)["id"].to_pylist()
        (2, ['b'])
    """

    by: str | None = None  # column of numbers that ranks the rows for display, highest first (a score by its hard end)
    counted: str | None = None  # column of words that the first line counts
    shown: Sequence[str] = ()  # columns to show; the first eight where none are named
    class_names: list[str] | None = None
    features: str | None = None  # which columns of a table they were, in words
    title: str | None = None  # of its page; the name of the class where there is none
    folded: bool = False  # whether its page shows the details on a click
    pictures: PictureSource | None = None

    def __init__(
        self, table: pa.Table | str | os.PathLike[str], notes: Iterable[str] = (), run: str | os.PathLike[str] | None = None
    ) -> None:
        self._table = table
        self.notes = list(notes)
        self.run = None if run is None else Path(run)

    @property
    def table(self) -> pa.Table:
        """The main table, read from its file where it was written to one."""
        if not isinstance(self._table, pa.Table):
            self._table = read_scores(self._table, self.class_names)
        return self._table

    def set_samples(self, snapshot: Any, pictures: PictureSource | None = None) -> Self:
        """Keep what is known of its samples: class names, feature columns, images."""
        self.class_names, self.features, self.pictures = snapshot.class_names, snapshot.source.note, pictures
        self.notes = list(dict.fromkeys([*snapshot.notes, *self.notes]))
        return self

    def with_images(self, images: Sequence[Any] | np.ndarray) -> Self:
        """The same result with images: one per row, as arrays (h, w) or (h, w, 3), or PIL images.

        Example:
            >>> table = ScoresTable(pa.table({"id": [0, 1], "avh": [0.1, 0.3]}))
            >>> "<img" in table.with_images(np.zeros((2, 8, 8), np.uint8))._repr_html_()
            True
        """
        if len(images) != len(self):
            raise InputError(f"images must have one entry per row, got {len(images)} for {len(self)} rows.")
        if "id" not in self.table.column_names:
            raise InputError("images are found by id, and this table has no column id.")
        shown = copy.copy(self)
        shown.pictures = InOrder(self.table.column("id"), images)
        return shown

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """What is said of it: sentences with their numbers, and tables. A verb's result overrides this."""
        yield from ()

    def details(self) -> Iterator[Sentence | ShownTable]:
        """What only a page has room for, below the figures."""
        yield from ()

    def figures(self) -> dict[str, Figure]:
        """Figures by name, made on demand."""
        return {}

    @property
    def summary(self) -> dict[str, Any]:
        """The numbers of the headline, by name."""
        return {name: fact for line in self.lines() if isinstance(line, Sentence) for name, fact in line.facts.items()}

    def tables(self) -> dict[str, pa.Table]:
        """The printed tables by name, with full numbers."""
        from hardsight.render.showing import arrow_tables

        return arrow_tables([table for table in self.lines() if isinstance(table, ShownTable)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the main table as .parquet, .csv or .json, the printed tables as .tex or .md, or a page as .html.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Result(pa.table({"id": ["a"], "n": [3]})).save(f"{folder}/table.csv")
            ...     Path(folder, "table.csv").read_text()
            '"id","n"\\n"a",3\\n'
        """
        if place(path).suffix.lower() in FORMATS:
            write_table(self._named(), path)
        else:
            from hardsight.render.showing import write_document

            write_document(self, path)

    def to_pandas(self, **options: Any) -> Any:
        """The table as a pandas DataFrame, with class names where they are known, and a column `hard_end` of a hardness table."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MissingExtra(why_missing("to_pandas()", "pandas", error, "pandas")) from error
        return with_mark(with_class_names(self._named())).to_pandas(**options)

    def __repr__(self) -> str:
        return as_text(self._view())

    def _repr_html_(self) -> str:
        return as_html(self._view(), None if self.pictures is None else self.pictures.image)

    def _named(self) -> pa.Table:
        """The table with the class names in its metadata."""
        notes = table_notes(self.table.schema)
        if self.class_names is None or notes.get("class_names"):
            return self.table
        named = json.dumps({**notes, "class_names": self.class_names}).encode()
        return self.table.replace_schema_metadata({**(self.table.schema.metadata or {}), b"hardsight": named})

    def _sentences(self) -> list[str]:
        """What holds for all rows and must be read with them: warnings first, then the expected errors."""
        notes = table_notes(self.table.schema)
        said = (count_in_words(notes), self.features)
        warnings = dict.fromkeys([*self.notes, *noted_warnings(notes)])
        return [f"warning: {text}" for text in warnings] + [text for text in said if text]

    def _view(self) -> TableView:
        title, rows = self._first_rows()
        named = with_class_names(rows, self.class_names)
        empty = {name for name, column in zip(named.column_names, named.columns, strict=True) if column.null_count == len(named)}
        shown = [name for name in self._columns_shown() if name in named.column_names and (name not in empty or not len(named))]
        return TableView(f"{type(self).__name__}: {self._headline()}", self._sentences(), title, named, shown)

    def _headline(self) -> str:
        """How many rows, and of which words of the column `counted`, if they are few."""
        columns, counts = self.table.column_names, ""
        if self.counted is not None and columns.count(self.counted) == 1:
            entries = pc.value_counts(self.table.column(self.counted)).to_pylist()
            words = [(entry["counts"], str(entry["values"])) for entry in entries if entry["values"] is not None]
            if len(entries) <= FEW and (len(self) == 1 or len(words) < len(self)):
                words.sort(key=lambda entry: -entry[0])
                counts = ", ".join(f"{count:,} {printable(name, LONGEST_NAME)}" for count, name in words[:MOST_COUNTS])
                counts = f": {counts}{', ...' * (len(words) > MOST_COUNTS)}"
        return f"{len(self):,} rows, {len(columns)} columns{counts}"

    @property
    def ranked_by(self) -> str | None:
        """The column that ranks the rows for display."""
        return self.by if self.by is not None and self.table.column_names.count(self.by) == 1 else None

    def _first_rows(self) -> tuple[str, pa.Table]:
        """What is shown of the table, in words, and these rows."""
        by = self.ranked_by
        rows = self.table.slice(0, 10) if by is None else hardest(self.table, by)
        if by is None or by not in SCORES:
            return f"first {len(rows)} {'rows' if by is None else f'by {by}'}" if len(rows) else "no rows", rows
        ranked = f"hardest {len(rows)} by {by} ({hard_end(rows.schema, by)} is hard)"
        return ranked if len(rows) else f"no sample has a value of {by} to rank by", rows

    def _columns_shown(self) -> Sequence[str]:
        return self.shown or list(dict.fromkeys(self.table.column_names))[:8]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__dataframe__":
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")
        if not hasattr(pa.Table, name):
            there = "it has those of a pyarrow.Table; to_pandas() makes a DataFrame, save('table.csv') a file"
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}: {there}")
        return getattr(self.table, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name for name in dir(pa.Table) if not name.startswith("_"))})

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pictures": None}  # images are not pickled

    def equals(self, other: Any, **options: Any) -> bool:
        """Whether another result, or a table, holds the same."""
        return bool(self.table.equals(plain(other), **options))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, key: Any) -> Any:
        return self.table.select(key) if isinstance(key, list) else self.table[key]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def table_target(output: str | os.PathLike[str] | None, table: str, inputs: Iterable[Any]) -> Place | None:
    """The file to write a table to, refused before anything slow if it cannot be, or replaces an input; None for none."""
    target = None if output is None else place(output)
    if target is not None:
        check_table_output(target, table, inputs)
    return target


class RunResult(Result):
    """A result in a run directory: its tables are the files NAME.parquet there, and attributes of the same names.

    Args:
        run: the run directory.
        tables: the tables by name. Default: read from the run.
        notes: warnings and advice, one sentence each.
    """

    run: Path
    files: Sequence[str] = ()  # names of the tables, that of the main one first

    def __init__(
        self, run: str | os.PathLike[str], tables: Mapping[str, pa.Table] | None = None, notes: Iterable[str] = ()
    ) -> None:
        self._tables = tables or {name: read_parquet(Path(run) / f"{name}.parquet") for name in self.files}
        super().__init__(self._tables[self.files[0]], notes, run)
        self.__dict__.update(self._tables)

    def tables(self) -> dict[str, pa.Table]:
        """All tables, by name."""
        return dict(self._tables)


class ScoresTable(Result):
    """One row per sample: id, label, predicted, status, then one column per score.

    It shows a summary and the hardest samples, with thumbnails if there are images.

    Args:
        table: the table, or the file that it was written to.
        class_names: (c,) names to show instead of class indices.
        pictures: source of images by sample id.
        by: score to rank by for display. Default: `avh`, if present.
        num_classes: c, if known.

    Example:
        >>> table = ScoresTable(pa.table({"id": ["a", "b"], "label": [0, 1], "avh": [0.1, 0.3]}))
        >>> table["avh"].to_pylist(), table.filter(pc.field("avh") > 0.2).num_rows
        ([0.1, 0.3], 1)
    """

    fitted_head: str | None = None  # in words, where there was no head
    all_means: bool = False  # whether the printed tables have the mean of every score

    def __init__(
        self,
        table: pa.Table | str | os.PathLike[str],
        class_names: Sequence[str] | None = None,
        pictures: PictureSource | None = None,
        by: str | None = None,
        num_classes: int | None = None,
    ) -> None:
        super().__init__(table)
        names = noted_class_names(table.schema) if class_names is None and isinstance(table, pa.Table) else class_names
        self.by, self.pictures = by, pictures
        self.class_names = None if names is None else list(names)
        self.num_classes = num_classes if names is None else len(names)
        self._gathered: Summary | None = None

    def keep_summary(self, summary: Summary) -> None:
        """Take what was gathered while the table was computed, or an empty summary that says what to rank by."""
        self._gathered = summary

    @property
    def table(self) -> pa.Table:
        """The table, read from its file where it was written to one; a hardness table stays one."""
        in_file = not isinstance(self._table, pa.Table)
        if in_file and self._gathered is not None and self._gathered.hardness:
            self._table = as_hardness(super().table)
        return super().table

    @property
    def gathered(self) -> Summary:
        """Counts, accuracy, means and the hardest samples: gathered while the table was written, or from the table."""
        if self._gathered is None:
            self._gathered = Summary(by=self.ranked_by or "avh", num_classes=self.num_classes)
        if self._gathered.num_samples == 0 and len(self):
            self._gathered.add(self.table)
        return self._gathered

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """The hardest samples, counts and accuracy; with `all_means`, the mean of every score."""
        summary = self.gathered
        if summary.top:
            yield self._hardest_shown(summary)
        accuracy, mean = summary.accuracy, summary.means.get(summary.ranked_by)
        words = [f"n = {summary.num_samples}", f"c = {number(summary.num_classes)}"]
        words += ["accuracy = –" if accuracy is None else f"accuracy = {percent(accuracy)} %"]
        words += [f"mean {summary.ranked_by} = {number(mean)}"] if mean is not None else []
        yield line("   ".join(words), **summary.as_dict())
        yield from map(line, self._odd())
        if summary.hardness:
            yield line("as hardness: high is hard in every score", hardness=True)
        if self.all_means:
            ends = {name: "high" if summary.hardness else SCORES[name].hard for name in summary.means}
            means = [(name, number(mean), ends[name]) for name, mean in summary.means.items()]
            yield ShownTable("means", ("score", "mean", "hard end"), means)
        if self.fitted_head is not None:
            yield line(f"no head given. head: {self.fitted_head}")

    def _hardest_shown(self, summary: Summary) -> Sentence | ShownTable:
        table, by = summary.hardest, summary.ranked_by
        if table is None or len(table) == 0:
            return line(f"no sample has a value of {summary.by} to rank by")
        scores = list(dict.fromkeys([by, *(name for name in beside(by) if name in table.column_names)]))
        rows = [
            (number(row["id"]), *map(self._name_of, (row["label"], row["predicted"])), *(number(row[name]) for name in scores))
            for row in table.to_pylist()
        ]
        header = ("id", "label", "predicted", *scores)
        return ShownTable("hardest", header, rows, title=f"hardest {len(rows)} by {by}", words=3)

    def _name_of(self, label: int | None) -> str:
        return number(label) if self.class_names is None or label is None else self.class_names[label]

    def hardest(self, by: str | None = None, top: int | None = 10) -> ScoresTable:
        """The hardest rows first, by a score's hard end: `hardsight.table.hardest` of this table."""
        by = by or self.ranked_by or "avh"
        ranked = ScoresTable(hardest(self.table, by, top), self.class_names, self.pictures, by, self.num_classes)
        ranked.features, ranked.notes = self.features, self.notes
        return ranked

    @property
    def ranked_by(self) -> str | None:
        """The score that ranks the samples for display."""
        names, columns = [self.by, *RANKED_BY, *SCORES], self.table.column_names
        there = [name for name in names if name is not None and columns.count(name) == 1]
        valued = (name for name in there if self.table.column(name).null_count < len(self))  # no label, no AVH
        return next(valued, next(iter(there), None))

    @property
    def _is_scores(self) -> bool:
        """Whether its columns are those of a table of scores, each once: a table of others is shown as any result."""
        columns, kinds = self.table.column_names, self.table.schema.types[4:]
        numbers = all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in kinds)
        return columns[:4] == FIXED and len(set(columns)) == len(columns) and numbers

    def _headline(self) -> str:
        if not self._is_scores:
            return super()._headline()
        summary, n = self.gathered, len(self)
        parts = [f"{n:,} sample{'s' * (n != 1)}"]
        if self.num_classes:
            parts.append(f"{self.num_classes} class{'es' * (self.num_classes != 1)}")
        return ", ".join(parts + ([] if summary.accuracy is None else [f"accuracy {100 * summary.accuracy:.2f} %"]))

    def _sentences(self) -> list[str]:
        return [*super()._sentences(), *(self._odd() if self._is_scores else [])]

    def _odd(self) -> list[str]:
        """How many rows are not fully scored, and why."""
        counts = [f"{count:,} {name}" for name, count in sorted(self.gathered.statuses.items()) if name != "ok"]
        return ["not fully scored: " + ", ".join(counts)] if counts else []

    def _columns_shown(self) -> Sequence[str]:
        by = self.ranked_by
        return super()._columns_shown() if by is None else list(dict.fromkeys(("id", "label", "predicted", by, *beside(by))))


def beside(by: str) -> tuple[str, ...]:
    """The scores that are shown next to the one that ranks."""
    return LABEL_FREE if by in LABEL_FREE else ("avh", "confidence", "angular_gap")

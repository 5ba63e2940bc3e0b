"""`Display`: what the page shows of samples, on top of their `Snapshot`: columns, and all that a run knows about its samples.

Its fields are filled by opening.py, in this order:

    _shown                     samples, name, path, start, class_names, columns of the scores, epochs
    _of_samples                snapshot, snapshot_rows, and further columns with paths and base_ids
    _of_path                   adapted, of a run of hardsight adapt; _of_memory: images, clean_table
    open_display               what people said
    open_with_other_results    suspects or the second run (two_runs.py), then quick_filters (other_results.py)

Whoever fills something adds to the notes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError, first_line
from hardsight.explorer.adapt_rounds import ABOUT, Rounds
from hardsight.explorer.columns import Column, codes, from_arrow, integers, numbers, rows_of
from hardsight.explorer.epochs import Epochs
from hardsight.files.run import read_start
from hardsight.files.suspects import FAR
from hardsight.result import RANKED_BY
from hardsight.scores import SCORES
from hardsight.snapshot import Snapshot

if TYPE_CHECKING:
    from hardsight.data.run_images import RunImages
    from hardsight.explorer.other_results import SuspectsSummary

NOT_FURTHER = ("id", "label", "predicted", "status", "path", "base_id")  # columns that are shown in their own way
BY_PEOPLE = "How often people chose the given class."


@dataclass(frozen=True)
class QuickFilter:
    """A column whose values the page lists; a click on a value shows only its samples."""

    column: str
    about: str
    notes: dict[str, str]  # value -> a note about it


@dataclass
class Display:
    """What the page shows of n samples."""

    samples: Snapshot  # the rows of the page, as a table of scores
    name: str
    path: Path | None = None  # a run directory, or a file; None for a table in memory
    class_names: list[str] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)
    paths: Any = None  # (n,) paths of image files, posix, below a root
    base_ids: Any = None  # (n,) the undegraded sample
    snapshot: Snapshot | None = None  # the features, if there are any
    snapshot_rows: np.ndarray | None = None  # (n,) row of each sample in the snapshot, -1 for none; None: the same rows
    start: dict[str, Any] = field(default_factory=dict)  # start.json or run.json
    images: RunImages | None = None  # where a table in memory has its images
    epochs: Epochs | None = None
    adapted: bool = False  # whether the samples are the target of a run of hardsight adapt
    clean_table: pa.Table | None = None  # what hardsight clean found, if that is the table in memory
    suspects: SuspectsSummary | None = None  # what hardsight clean found; add_suspects reads it
    quick_filters: list[QuickFilter] = field(default_factory=list)  # a subset, groups, a drift; add_quick_filters reads them
    notes: list[str] = field(default_factory=list)  # for the user, one sentence each
    found: list[str] = field(default_factory=list)  # what hardsight check said

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def ids(self) -> pa.Array:
        """(n,) ids as text, by which the browser asks."""
        return _text(self.samples.columns(["id"]).column(0))

    @property
    def own_ids(self) -> pa.Array:
        """(n,) ids as they were given: integers or text."""
        column = self.samples.columns(["id"]).column(0)
        return column.combine_chunks() if pa.types.is_integer(column.type) else self.ids

    @property
    def labels(self) -> np.ndarray:
        """(n,) given class, -1 for unlabeled."""
        return self.samples.labels

    @cached_property
    def predicted(self) -> np.ndarray:
        """(n,) predicted class, -1 for none."""
        if "predicted" not in self.samples.column_names:
            return np.full(len(self), -1)
        try:
            return np.maximum(integers(self.samples.columns(["predicted"]).column(0)), -1)
        except pa.ArrowException as error:
            raise InputError(f"{self.where}: predicted must hold class numbers 0..c-1: {first_line(error)}") from error

    @property
    def where(self) -> str:
        """What to call it in a message."""
        return self.name if self.path is None else str(self.path)

    @property
    def directory(self) -> Path | None:
        """The run directory, if it is one."""
        return self.path if self.path is not None and self.path.is_dir() else None

    @property
    def by(self) -> str | None:
        """The score that the page first sorts by."""
        first = () if self.suspects is None else ("error_score",)
        valued = [name for name, column in self.columns.items() if column.ends[0] is not None]
        return next((name for name in (*first, *RANKED_BY, *SCORES, FAR, *valued) if name in valued), None)

    def hardest(self, by: str | None = None) -> np.ndarray:
        """Rows with a value of the score, hardest first; all rows as they are where there is no score."""
        by = by or self.by
        if by is None:
            return np.arange(len(self))
        column = self.columns[by]
        key = -column.values if column.hard == "high" else column.values
        return np.argsort(key, kind="stable")[: int(np.isfinite(column.values).sum())]

    def first_axes(self) -> tuple[str, str, str | None]:
        """The first x, y and color: angle to the given class, norm, and whether the prediction is right, or the verdict."""
        names = [name for name, column in self.columns.items() if column.names is None]
        if not names:
            raise InputError(f"{self.where}: there is no column of numbers to draw; open the samples, such as their run.")
        x = next((name for name in ("own_angle", "confidence", "loss") if name in names), names[0])
        further = [name for name in ("norm", "entropy", "max_logit") if name in names and name != x]
        y = further[0] if further else names[min(1, len(names) - 1)]
        first = () if self.suspects is None else ("verdict",)
        color = next((name for name in (*first, "correct", "label") if name in self.columns), None)
        return x, y, color

    def image_path(self, row: int) -> str | None:
        """The path of a sample's image file, if it has one."""
        return None if self.paths is None else self.paths[row].as_py()

    def aligned(self, table: pa.Table) -> pa.Table:
        """The rows of another table, by id, in the order of the samples; null where it does not have a sample."""
        return table.take(pc.index_in(self.ids, value_set=_text(table.column("id")))).combine_chunks()

    def add(self, column: Column | None) -> None:
        """Add a column, or replace the one with its name; None, a column that the page cannot show, is left out."""
        if column is not None:
            self.columns[column.name] = column

    def describe(self, name: str, about: str, hard: str | None = None) -> None:
        """Say what a column is and which end is hard, if there is such a column."""
        column = self.columns.get(name)
        if column is not None:
            self.add(dataclasses.replace(column, about=about, hard=hard or column.hard))

    def add_filter(self, column: Column, notes: dict[str, str] | None = None) -> None:
        """Add a column whose values the page lists, with a note on some of them."""
        self.add(column)
        self.quick_filters.append(QuickFilter(column.name, column.about, notes or {}))

    def add_further(self, table: pa.Table) -> None:
        """Add the columns of a table that are new and that the page can show, and where its images are."""
        for name in table.column_names:
            if name not in NOT_FURTHER and name not in self.columns:
                self.add(from_arrow(name, table.column(name)))
        self.paths = text_column(table, "path") if self.paths is None else self.paths
        self.base_ids = text_column(table, "base_id") if self.base_ids is None else self.base_ids

    def add_scores(self, table: pa.Table) -> None:
        """Add the columns of a table of scores; the status where one is not ok."""
        self.add_further(table)
        if "status" in table.column_names and pc.unique(table.column("status")).to_pylist() != ["ok"]:
            self.add(from_arrow("status", table.column("status")))

    def add_classes(self, class_names: list[str] | None) -> None:
        """Add the given and the predicted class, by name where there are enough names, and whether they are the same."""
        count = 1 + max(int(self.labels.max(initial=-1)), int(self.predicted.max(initial=-1)))
        if class_names is not None and len(class_names) < count:
            self.notes.append(f"There are {count} classes and {len(class_names)} class names, so classes are shown by number.")
            class_names = None
        self.class_names = [str(index) for index in range(count)] if class_names is None else class_names
        if (self.labels >= 0).any():
            self.add(codes("label", self.labels, self.class_names, "The given class."))
        if (self.predicted >= 0).any():
            self.add(codes("predicted", self.predicted, self.class_names, "The class with the highest logit."))
        wrong = self._wrong()
        if wrong is not None:
            self.add(codes("correct", wrong, ["right", "wrong"], "Whether the prediction is the given class."))

    def _wrong(self) -> np.ndarray | None:
        """(n,) 1 for a wrong prediction, -1 for unknown: compared, or as a training recorded it (1, 0, or -1 for unknown)."""
        if {"label", "predicted"} <= self.columns.keys():
            return np.where((self.labels < 0) | (self.predicted < 0), -1, self.labels != self.predicted)
        if "correct" in self.samples.column_names:
            return np.array([1, 0, -1])[integers(self.samples.columns(["correct"]).column(0))]
        return None

    def add_features(self, snapshot: Snapshot) -> None:
        """Add the features, and the columns stored with them: split, path, degradation, and those of the user."""
        self.snapshot = snapshot
        table = snapshot.columns([name for name in snapshot.column_names if name != "label"]).combine_chunks()
        ids = _text(table.column("id"))
        if not ids.equals(self.ids):
            self.snapshot_rows = rows_of(self.ids, ids)
            if (self.snapshot_rows < 0).all():
                raise InputError(f"{self.where}: no id of scores.parquet is among its samples; score the run again.")
            table = self.aligned(table)
        self.add_further(table)

    def add_rounds(self, rounds: Rounds) -> None:
        """Add what each method of self-training kept, and what the columns of a round mean."""
        self.adapted, self.start = True, self.start or read_start(rounds.root)
        for name, about in ABOUT.items():
            self.describe(name, about, "low" if name == "avc" else None)
        for column in rounds.columns():
            (self.add if column.names is None else self.add_filter)(column)
        if len(rounds.seeds) > 1:
            others = ", ".join(map(str, rounds.seeds[1:]))
            self.notes.append(f"These are the rounds of seed {rounds.seed}; open PAIR/seed=N for those of {others}.")

    def add_human(self, human: Path, allow_missing: bool) -> None:
        """Add how often people chose the given class, read and matched as by `hardsight correlate --human`."""
        from hardsight.files.human import match_bases, read_people  # imports SciPy, which few pages need

        people = read_people(human, self.class_names)
        people.check_classes(len(self.class_names))
        bases = (self.ids if self.base_ids is None else pc.coalesce(self.base_ids, self.ids)).to_pylist()
        rows, of_people = match_bases(people, bases, allow_missing)
        values = np.full(len(self), np.nan)
        values[rows] = people.take(of_people).selection_frequency(self.labels[rows])
        self.add(numbers("human", values, BY_PEOPLE, "low"))
        if len(rows) < len(self):
            self.notes.append(f"{len(self) - len(rows)} of {len(self)} samples have no human data.")


def _text(column: pa.ChunkedArray) -> pa.Array:
    return column.cast(pa.string()).combine_chunks()


def text_column(table: pa.Table, name: str) -> Any:
    """A column of strings as one array, or None."""
    if name not in table.column_names or table.column(name).null_count == len(table):
        return None
    return _text(table.column(name))

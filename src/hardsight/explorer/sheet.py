"""A run, a scores table or a snapshot as one `Sheet` of columns, one row per sample.

A run directory has scores, columns of its samples, a head and dynamics; a run of `hardsight adapt` has target samples and
what was kept of them. What has no scores yet is scored first.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hardsight.errors import FileError, HardsightError, InputError, first_line
from hardsight.explorer.adapt_rounds import ABOUT, Rounds
from hardsight.explorer.columns import Column, codes, from_arrow, integers, numbers, replaced, rows_of, signed, turned, words
from hardsight.explorer.epochs import Epochs
from hardsight.files.class_names import read_class_names
from hardsight.files.heads import load_head
from hardsight.files.kinds import kind_in_file, kind_of
from hardsight.files.parquet import table_notes
from hardsight.files.places import missing
from hardsight.files.reading import reading
from hardsight.files.run import images_hint, read_start
from hardsight.files.suspects import clean_class_names, clean_columns, suspects_file
from hardsight.scores import SCORES
from hardsight.scoring.run_images import RunPictures
from hardsight.scoring.score import score
from hardsight.screen import Progress
from hardsight.snapshot import SNAPSHOTS, Snapshot
from hardsight.table import TABLES, noted_class_names, read_scores, scores_given, write_table

if TYPE_CHECKING:
    from hardsight.explorer.quick_filters import QuickFilter
    from hardsight.explorer.suspects import SuspectsSummary

OWN = ("id", "label", "predicted", "status", "path", "base_id")  # not among the further columns
RANKED_BY = ("avh", "loss", "confidence", "entropy", "avc_predicted")  # samples are sorted by the first of these that has values


@dataclass
class Sheet:
    """n samples with everything that the page knows about them."""

    samples: Snapshot  # the rows of the page, as a table of scores
    name: str
    path: Path  # a run directory, or a file
    class_names: list[str]
    columns: dict[str, Column] = field(default_factory=dict)
    paths: Any = None  # (n,) paths of image files, posix, below a root
    base_ids: Any = None  # (n,) the undegraded sample
    snapshot: Snapshot | None = None  # the features, if there are any
    snapshot_rows: np.ndarray | None = None  # (n,) row of each sample in the snapshot, -1 for none; None: the same rows
    start: dict[str, Any] = field(default_factory=dict)  # start.json or run.json
    epochs: Epochs | None = None
    rounds: Rounds | None = None  # of self-training
    suspects: SuspectsSummary | None = None  # what hardsight clean found; add_suspects reads it
    quick_filters: list[QuickFilter] = field(default_factory=list)  # a subset, groups, a drift; add_quick_filters reads them
    notes: list[str] = field(default_factory=list)  # for the user, one sentence each
    hardness: bool = False  # whether high is hard in every score

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def ids(self) -> pa.Array:
        """(n,) ids as text, by which the browser asks."""
        return self.samples.columns(["id"]).column(0).cast(pa.string()).combine_chunks()

    @property
    def directory(self) -> Path | None:
        """The run directory, if it is one."""
        return self.path if self.path.is_dir() else None

    @property
    def by(self) -> str | None:
        """The score that the page first sorts by."""
        if self.suspects is not None:
            return "error_score"
        valued = [name for name, column in self.columns.items() if column.low is not None]
        return next((name for name in (*RANKED_BY, *SCORES, *valued) if name in valued), None)

    def labels(self) -> np.ndarray:
        """(n,) given class, -1 for unlabeled."""
        return self._classes("label")

    def predicted(self) -> np.ndarray:
        """(n,) predicted class, -1 for none."""
        return self._classes("predicted")

    def _classes(self, name: str) -> np.ndarray:
        return signed(self.columns[name]) if name in self.columns else np.full(len(self), -1)

    def aligned(self, table: pa.Table) -> pa.Table:
        """The rows of another table, by id, in the order of the sheet; null where it does not have a sample."""
        return table.take(pc.index_in(self.ids, value_set=table.column("id").cast(pa.string()).combine_chunks())).combine_chunks()

    def add(self, column: Column) -> None:
        """Add a column, or replace the one with its name."""
        self.columns[column.name] = column

    def add_further(self, table: pa.Table) -> None:
        """Add the columns of a table that are new and that the page can show."""
        for name in table.column_names:
            if name not in OWN and name not in self.columns:
                column = from_arrow(name, table.column(name))
                if column is not None:
                    self.add(column)


def open_sheet(
    path: str | Path,
    *,
    class_names: Path | None = None,
    human: Any = None,
    split: str | None = None,
    keep: bool = True,
    progress: Progress | None = None,
) -> Sheet:
    """A run directory, a scores table (.parquet, .csv, .json) or a snapshot (.npz, .npy, .parquet) as a sheet.

    `split` selects the samples of one split, such as a watched test set, as of the last epoch of a run with dynamics. `keep`
    saves scores that had to be computed in the run, if it is writable, for the next time.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"give a run directory, a file, or the table that score or clean gives, got {type(path).__name__}.")
    if "://" in str(path):
        raise InputError(f"{path}: the explorer needs files on this machine: copy the run here first.")
    where = Path(path)
    if not where.exists():
        raise FileError(missing(where))
    epochs = Epochs.of(where)
    snapshot = _snapshot(where) if split is None else None
    has_samples = split is not None or snapshot is not None or epochs is not None or (where / "scores.parquet").is_file()
    rounds = None if has_samples else Rounds.of(where)
    if split is None:
        table = _table(where, snapshot, epochs, rounds, keep, progress)
    elif epochs is not None:
        table = epochs.last(split)
    else:
        raise InputError(f"{where}: --split needs a run with dynamics, and there are none here.")
    names = _class_names(where, snapshot, rounds, class_names) or noted_class_names(table.schema)
    with reading(where, "not a readable scores table"):
        sheet = _sheet(where, table, names)
    sheet.snapshot, sheet.epochs = snapshot, epochs
    if rounds is not None:
        _add_rounds(sheet, rounds)
    if snapshot is not None:
        _add_samples(sheet, snapshot)
    if human is not None:
        _add_human(sheet, human)
    elif "human" in sheet.columns:
        sheet.add(replaced(sheet.columns["human"], hard="low", about="How often people chose the given class."))
    if epochs is not None:
        column = sheet.columns.get("split")
        epochs.match(sheet.ids, None if column is None else words(column))
    return sheet


def as_path(run: Any, images: str | None) -> tuple[Any, str | None]:
    """The path of a table in memory, which is written to a temporary file, and where its images are; a path stays as it is."""
    table = scores_given(run)
    if not isinstance(table, pa.Table) or "id" not in table.column_names:
        return run, images
    names, pictures = getattr(run, "class_names", None), getattr(run, "pictures", None)
    _TABLES.append(TemporaryDirectory(prefix="hardsight-"))
    path = Path(_TABLES[-1].name) / "table.parquet"
    notes = {**table_notes(table.schema), **({} if names is None else {"class_names": names})}
    table = table.replace_schema_metadata({"hardsight": json.dumps(notes)})
    if "given_label" in table.column_names:
        pq.write_table(table, suspects_file(path))
        names_of = {"id": "id", "given_label": "label", "predicted_label": "predicted"}
        metadata = table.schema.metadata
        table = table.select(list(names_of)).rename_columns(list(names_of.values())).replace_schema_metadata(metadata)
    if isinstance(pictures, RunPictures):
        with contextlib.suppress(HardsightError):  # moved or damaged: a page without images
            table = _located(table, pictures.columns)
            images = images or next(iter([*pictures.source.roots, *pictures.source.specs]), None)
    pq.write_table(table, path)
    return path, images


_TABLES: list[TemporaryDirectory[str]] = []  # until the process ends


def _located(table: pa.Table, columns: pa.Table) -> pa.Table:
    """The table with the columns that locate its images, by id."""
    rows = pc.index_in(table.column("id"), value_set=columns.column("id").combine_chunks())
    for name in columns.column_names:
        if name not in table.column_names:
            table = table.append_column(name, columns.column(name).take(rows))
    return table


def turn_scores(sheet: Sheet) -> None:
    """Make high the hard end of every score and of its curves over the epochs; files stay as measured."""
    other_sign = [name for name, column in sheet.columns.items() if turned(column) is not column]
    for name in other_sign:
        sheet.add(turned(sheet.columns[name]))
    if sheet.epochs is not None:
        sheet.epochs.hardness = True
    sheet.hardness = True
    signs = f" {', '.join(other_sign)}: shown with the other sign." if other_sign else ""
    sheet.notes.append(f"As hardness: high is hard in every score.{signs}")


def _snapshot(where: Path) -> Snapshot | None:
    """The features, if there are any."""
    if where.is_dir():
        return Snapshot.load(where) if (where / "samples").is_dir() and (where / "run.json").is_file() else None
    columns = clean_columns(where)
    if columns is not None and kind_in_file(where) != "scores":  # a wide table, read with the columns that hardsight clean used
        return Snapshot.load(where, **columns)
    if where.suffix.lower() in TABLES and kind_of(where) != "snapshot":
        return None
    return Snapshot.load(where) if where.suffix.lower() in SNAPSHOTS else None


def _table(
    where: Path,
    snapshot: Snapshot | None,
    epochs: Epochs | None,
    rounds: Rounds | None,
    keep: bool,
    progress: Progress | None,
) -> pa.Table:
    """The scores: read, computed, or those of the last epoch."""
    if where.is_dir() and (where / "scores.parquet").is_file():
        return read_scores(where)
    if snapshot is not None:
        table = score(snapshot, progress=progress).table
        if keep and where.is_dir() and os.access(where, os.W_OK):
            write_table(table, where / "scores.parquet")
        return table
    if epochs is not None:
        return epochs.last()
    if rounds is not None:
        return rounds.table()
    if where.is_dir():
        raise FileError(
            f"{where}: nothing to show: it has no scores.parquet, no complete samples, no dynamics and no rounds."
            f"{images_hint(where)}"
        )
    if where.suffix.lower() in TABLES:
        return read_scores(where)
    raise FileError(
        f"{where}: give a run directory, a scores table (.parquet, .csv, .json) or a snapshot (.npz, .npy, .parquet)."
    )


def _class_names(where: Path, snapshot: Snapshot | None, rounds: Rounds | None, file: Path | None) -> list[str] | None:
    if file is not None:
        return read_class_names(file)
    if snapshot is not None and snapshot.class_names is not None:
        return snapshot.class_names
    if where.is_dir() and (where / "head.safetensors").is_file():
        return load_head(where / "head.safetensors")[1]
    return clean_class_names(where) if rounds is None else rounds.class_names()


def _add_rounds(sheet: Sheet, rounds: Rounds) -> None:
    """Add what each method kept, and what the columns of a round mean."""
    sheet.rounds = rounds
    sheet.start = sheet.start or read_start(rounds.root)
    for name, about in ABOUT.items():
        if name in sheet.columns:
            column = sheet.columns[name]
            sheet.add(replaced(column, hard="low" if name == "avc" else column.hard, about=about))
    for column in rounds.columns():
        sheet.add(column)
    if len(rounds.seeds) > 1:
        others = ", ".join(map(str, rounds.seeds[1:]))
        sheet.notes.append(f"These are the rounds of seed {rounds.seed}; open PAIR/seed=N for those of {others}.")


def _sheet(where: Path, table: pa.Table, names: list[str] | None) -> Sheet:
    """The columns of a table of scores, as the page shows them."""
    if len(table) == 0:
        raise InputError(f"{where}: there are no samples in it.")
    samples = Snapshot.of_scores(table.combine_chunks(), name=str(where))
    classes = {name: _classes(samples, name) for name in ("label", "predicted") if name in table.column_names}
    count = max((int(values.max(initial=-1)) + 1 for values in classes.values()), default=0)
    shown = [str(index) for index in range(count)] if names is None or len(names) < count else names
    sheet = Sheet(samples, where.resolve().name, where, shown, start=read_start(where))
    if names is not None and len(names) < count:
        sheet.notes.append(f"There are {count} classes and {len(names)} class names, so classes are shown by number.")
    about = {"label": "The given class.", "predicted": "The class with the highest logit."}
    for name, values in classes.items():
        if (values >= 0).any():
            sheet.add(codes(name, values, sheet.class_names, about[name]))
    _add_correct(sheet, table, classes)
    sheet.add_further(table)
    if "status" in table.column_names and pc.unique(table.column("status")).to_pylist() != ["ok"]:
        status = from_arrow("status", table.column("status"))
        if status is not None:
            sheet.add(status)
    sheet.paths, sheet.base_ids = (text_column(table, name) for name in ("path", "base_id"))
    return sheet


def _add_correct(sheet: Sheet, table: pa.Table, classes: dict[str, np.ndarray]) -> None:
    """Whether each prediction is right: compared, or as a training recorded it (1, 0, or -1 for unknown)."""
    if {"label", "predicted"} <= sheet.columns.keys():
        label, predicted = classes["label"], classes["predicted"]
        right = np.where((label < 0) | (predicted < 0), -1, label != predicted)
    elif "correct" in table.column_names:
        right = np.array([1, 0, -1])[integers(table.column("correct"))]
    else:
        return
    sheet.add(codes("correct", right, ["right", "wrong"], "Whether the prediction is the given class."))


def _classes(samples: Snapshot, name: str) -> np.ndarray:
    """(n,) class numbers, -1 for none."""
    if name == "label":
        return samples.labels
    try:
        return np.maximum(integers(samples.columns([name]).column(0)), -1)
    except pa.ArrowException as error:
        raise InputError(f"{samples.where}: {name} must hold class numbers 0..c-1: {first_line(error)}") from error


def text_column(table: pa.Table, name: str) -> Any:
    """A column of strings as one array, or None."""
    if name not in table.column_names or table.column(name).null_count == len(table):
        return None
    return table.column(name).cast(pa.string()).combine_chunks()


def _add_samples(sheet: Sheet, snapshot: Snapshot) -> None:
    """Add the columns that were stored with the features: split, path, degradation, and those of the user."""
    table = snapshot.columns([name for name in snapshot.column_names if name != "label"]).combine_chunks()
    ids = table.column("id").cast(pa.string()).combine_chunks()
    if not ids.equals(sheet.ids):
        sheet.snapshot_rows = rows_of(sheet.ids, ids)
        if (sheet.snapshot_rows < 0).all():
            raise InputError(f"{sheet.path}: no id of scores.parquet is among its samples; score the run again.")
        table = sheet.aligned(table)
    sheet.add_further(table)
    sheet.paths = sheet.paths if sheet.paths is not None else text_column(table, "path")
    sheet.base_ids = sheet.base_ids if sheet.base_ids is not None else text_column(table, "base_id")


def _add_human(sheet: Sheet, human: Any) -> None:
    """Add how often people chose the given class, read and matched as by `hardsight correlate --human`."""
    from hardsight.files.human import Answers, match_bases, read_people

    given = Answers.of(human)
    people = read_people(given.source, sheet.class_names)
    people.check_classes(len(sheet.class_names))
    bases = (sheet.ids if sheet.base_ids is None else pc.coalesce(sheet.base_ids, sheet.ids)).to_pylist()
    rows, of_people = match_bases(people, bases, given.allow_missing)
    values = np.full(len(sheet), np.nan)
    values[rows] = people.take(of_people).selection_frequency(sheet.labels()[rows])
    about = "How often people chose the given class."
    sheet.add(replaced(numbers("human", values), hard="low", about=about))
    if len(rows) < len(sheet):
        sheet.notes.append(f"{len(sheet) - len(rows)} of {len(sheet)} samples have no human data.")


def can_be_applied(sheet: Sheet, split: str | None = None) -> bool:
    """Whether `hardsight clean --apply` can turn marks on these samples into labels: it reads snapshots and scores tables."""
    readable = sheet.snapshot is not None or (sheet.path.is_file() and kind_in_file(sheet.path) == "scores")
    return split is None and "label" in sheet.columns and readable


def default_axes(sheet: Sheet) -> tuple[str, str, str | None]:
    """The first x, y and color: the angle to the given class, the norm, and whether the prediction is right, or the verdict."""
    names = [name for name, column in sheet.columns.items() if column.names is None]
    if not names:
        raise HardsightError(f"{sheet.path}: there is no column of numbers to draw.")
    x = next((name for name in ("own_angle", "confidence", "loss") if name in names), names[0])
    y = next((name for name in ("norm", "entropy", "max_logit") if name in names and name != x), names[min(1, len(names) - 1)])
    first = () if sheet.suspects is None else ("verdict",)
    color = next((name for name in (*first, "correct", "label") if name in sheet.columns), None)
    return x, y, color

"""Opening what a user names, as a `Display`: a run, a scores table, a snapshot, or a table in memory.

A run directory has scores, features with their columns, and dynamics; a run of `hardsight adapt` has target samples and what was
kept of them. What has no scores yet is scored first.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.data.run_images import RunPictures
from hardsight.errors import FileError, HardsightError, InputError
from hardsight.explorer.adapt_rounds import Rounds
from hardsight.explorer.columns import from_arrow, words
from hardsight.explorer.display import BY_PEOPLE, Display
from hardsight.explorer.epochs import Epochs
from hardsight.explorer.quick_filters import add_quick_filters
from hardsight.explorer.settings import ReportSettings
from hardsight.explorer.suspects import add_suspects
from hardsight.explorer.two_runs import ScoreChanges, compare
from hardsight.files.class_names import read_class_names
from hardsight.files.heads import load_head
from hardsight.files.kinds import kind_in_file, kind_of
from hardsight.files.places import missing
from hardsight.files.reading import reading
from hardsight.files.run import images_hint, read_start
from hardsight.files.suspects import checked_suspects, clean_class_names, clean_columns
from hardsight.scoring.score import score
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import TABLES, noted_class_names, read_scores, scores_given, write_table

ARRAYS = (".npz", ".npy")
OF_SUSPECTS = {"id": "id", "given_label": "label", "predicted_label": "predicted"}  # column of suspects -> of scores


def open_page(
    x: Any, settings: ReportSettings, second: Any = None, *, keep: bool = True, progress: Progress | None = None
) -> tuple[Display, ScoreChanges | None]:
    """All that a page or a report shows: with suspects and quick filters, or compared with a second run."""
    display, comparison = open_display(x, settings, keep=keep, progress=progress), None
    if second is None:
        add_suspects(display, settings.split)
    else:
        comparison = compare(display, open_display(second, replace(settings, human=None), keep=keep, progress=progress))
    add_quick_filters(display, settings)
    return display, comparison


def open_display(
    x: Any, settings: ReportSettings | None = None, *, keep: bool = True, progress: Progress | None = None, **options: Any
) -> Display:
    """A run directory, a scores table (.parquet, .csv, .json), a snapshot (.npz, .npy, .parquet) or a table in memory.

    The options are those of the settings. `split` selects the samples of one split, such as a watched test set, as of the last
    epoch of a run with dynamics. `keep` saves scores that had to be computed in the run, if it is writable, for the next time.
    """
    settings = settings or ReportSettings.given(None, options)
    names = None if settings.class_names is None else read_class_names(settings.class_names)
    if not isinstance(x, (str, os.PathLike)):
        display = _of_memory(x, names)
    elif settings.split is None:
        display = _of_parts(_parts(_existing(x)), names, keep, progress)
    else:
        display = _of_split(_existing(x), settings.split, names)
    if settings.human is None:
        display.describe("human", BY_PEOPLE, "low")
    else:
        display.add_human(settings.human, settings.allow_missing)
    if display.epochs is not None:
        column = display.columns.get("split")
        display.epochs.match(display.ids, None if column is None else words(column))
    if settings.hardness:
        display.turn_scores()
    return display


def _existing(path: str | os.PathLike[str]) -> Path:
    if "://" in str(path):
        raise InputError(f"{path}: the explorer needs files on this machine: copy the run here first.")
    if not Path(path).exists():
        raise FileError(missing(Path(path)))
    return Path(path)


# What is at a path


@dataclass(frozen=True)
class RunParts:
    """What a run directory or a file holds of the things that can be shown."""

    path: Path
    snapshot: Snapshot | None  # the features, logits or probabilities
    epochs: Epochs | None
    rounds: Rounds | None  # of self-training, where there is nothing else

    @property
    def scores_file(self) -> Path | None:
        """The scores, if they are in a file."""
        if self.path.is_file():
            is_table = self.snapshot is None and self.path.suffix.lower() in TABLES
            return self.path if is_table else None
        file = self.path / "scores.parquet"
        return file if file.is_file() else None

    def scores(self, keep: bool, progress: Progress | None) -> pa.Table:
        """The scores: read, computed, or those of the last epoch."""
        if self.scores_file is not None:
            return read_scores(self.scores_file)
        if self.snapshot is not None:
            table = score(self.snapshot, progress=progress).table
            if keep and self.path.is_dir() and os.access(self.path, os.W_OK):
                write_table(table, self.path / "scores.parquet")
            return table
        if self.epochs is not None:
            return self.epochs.last()
        if self.rounds is not None:
            return self.rounds.table()
        if self.path.is_dir():
            lacking = "it has no scores.parquet, no complete samples, no dynamics and no rounds."
            raise FileError(f"{self.path}: nothing to show: {lacking}{images_hint(self.path)}")
        kinds = "a scores table (.parquet, .csv, .json) or a snapshot (.npz, .npy, .parquet)"
        raise FileError(f"{self.path}: give a run directory, {kinds}.")

    def class_names(self) -> list[str] | None:
        """The names that are stored with the features, with the head, or by hardsight clean or adapt."""
        if self.snapshot is not None and self.snapshot.class_names is not None:
            return self.snapshot.class_names
        return self.rounds.class_names() if self.rounds is not None else _noted_names(self.path)


def _parts(path: Path) -> RunParts:
    snapshot, epochs = _snapshot(path), Epochs.of(path)
    others = snapshot is not None or epochs is not None or (path / "scores.parquet").is_file()
    return RunParts(path, snapshot, epochs, None if others else Rounds.of(path))


def _snapshot(path: Path) -> Snapshot | None:
    """The features, if there are any."""
    if path.is_dir():
        return Snapshot.load(path) if (path / "samples").is_dir() and (path / "run.json").is_file() else None
    columns = clean_columns(path)
    if columns is not None and kind_in_file(path) != "scores":  # a wide table, read with the columns that hardsight clean used
        return Snapshot.load(path, **columns)
    return Snapshot.load(path) if path.suffix.lower() in ARRAYS or kind_of(path) == "snapshot" else None


def _noted_names(path: Path) -> list[str] | None:
    head = path / "head.safetensors"
    return load_head(head)[1] if head.is_file() else clean_class_names(path)


def _of_parts(parts: RunParts, names: list[str] | None, keep: bool, progress: Progress | None) -> Display:
    display = _of_scores(parts.path, parts.scores(keep, progress), names or parts.class_names())
    display.epochs = parts.epochs
    if parts.rounds is not None:
        display.start = display.start or read_start(parts.rounds.root)
        display.add_rounds(parts.rounds)
    if parts.snapshot is not None:
        display.add_features(parts.snapshot)
    return display


def _of_split(path: Path, split: str, names: list[str] | None) -> Display:
    epochs = Epochs.of(path)
    if epochs is None:
        raise InputError(f"{path}: --split needs a run with dynamics, and there are none here.")
    display = _of_scores(path, epochs.last(split), names or _noted_names(path))
    display.epochs = epochs
    return display


def _of_scores(path: Path, table: pa.Table, names: list[str] | None) -> Display:
    with reading(path, "not a readable scores table"):
        display = Display(_samples(table, str(path)), path.resolve().name, path, start=read_start(path))
        display.add_classes(names or noted_class_names(table.schema))
        _add_columns(display, table)
    return display


def _samples(table: pa.Table, where: str) -> Snapshot:
    if len(table) == 0:
        raise InputError(f"{where}: there are no samples in it.")
    return Snapshot.of_scores(table.combine_chunks(), name=where)


def _add_columns(display: Display, table: pa.Table) -> None:
    """The columns of a table of scores; the status where one is not ok."""
    display.add_further(table)
    if "status" in table.column_names and pc.unique(table.column("status")).to_pylist() != ["ok"]:
        display.add(from_arrow("status", table.column("status")))


# A table in memory


def _of_memory(x: Any, names: list[str] | None) -> Display:
    """A table of scores, or what hardsight clean found, with the images that it can show."""
    table = scores_given(x)
    if not isinstance(table, pa.Table) or "id" not in table.column_names:
        raise InputError(f"give a run directory, a file, or the table that score or clean gives, got {type(x).__name__}.")
    found, names = None, names or getattr(x, "class_names", None) or noted_class_names(table.schema)
    if "given_label" in table.column_names:
        found = checked_suspects(table, "the table")
        table = table.select(list(OF_SUSPECTS)).rename_columns(list(OF_SUSPECTS.values()))
    display = Display(_samples(table, "the table"), "table", clean_table=found)
    display.add_classes(names)
    _add_columns(display, table)
    pictures = getattr(x, "pictures", None)
    if isinstance(pictures, RunPictures):
        with contextlib.suppress(HardsightError):  # moved or damaged: a page without images
            display.images = pictures.source
            display.add_further(display.aligned(pictures.columns))
    return display

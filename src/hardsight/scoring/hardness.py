"""One score of every sample, oriented so that high is hard, from a run, a snapshot or a scores table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_ids, check_labels
from hardsight.errors import InputError, did_you_mean
from hardsight.files.kinds import kind_of
from hardsight.files.places import missing, place
from hardsight.files.wide_tables import snapshot_hint
from hardsight.scores import SCORES
from hardsight.scoring.samples import path_of
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot
from hardsight.table import read_scores, scores_given


@dataclass(frozen=True)
class Hardness:
    """One score of n samples."""

    ids: np.ndarray  # (n,) strings or integers
    labels: np.ndarray  # (n,) int64, -1 unlabeled
    values: np.ndarray  # (n,) the raw score, NaN if there is none
    score: str

    @property
    def harder(self) -> np.ndarray:
        """(n,) the score oriented so that high is hard; for columns that are not our scores, high already means hard."""
        return -self.values if self.score in SCORES and SCORES[self.score].hard == "low" else self.values


def hardness_of(source: Any, name: str) -> Hardness:
    """One score of every sample.

    Args:
        source: the path of a run, a snapshot or a scores table; a `Snapshot`; or a table in memory with a column id.
        name: a score, which is computed if there are features; or a column of the table.
    """
    if isinstance(source, (str, os.PathLike)):
        path = place(source)
        if isinstance(path, Path) and not path.exists():
            raise InputError(missing(path))
        if isinstance(path, Path) and kind_of(path) == "scores":
            return of_table(read_scores(path), name, str(path))
        source = Snapshot.load(path)
    if not isinstance(source, Snapshot):
        return of_table(given_table(source), name, "the table")
    run = path_of(source)
    if name not in SCORES and run is not None and (run / "scores.parquet").is_file():
        measured = of_table(read_scores(run), name, str(run / "scores.parquet"))
        return _in_order_of(source, measured)
    return of_table(score(source, scores=[name]), name, source.name or "the snapshot")


def given_table(source: Any) -> pa.Table:
    """A scores table in memory, of any supported type."""
    table = scores_given(source)
    if not isinstance(table, pa.Table):
        expected = "pass a run, a file, a Snapshot or a table of scores"
        raise InputError(f"{expected}, got {type(source).__name__}.{snapshot_hint(source)}")
    return table


def _in_order_of(snapshot: Snapshot, measured: Hardness) -> Hardness:
    """A column of the run's scores in sample order, NaN if missing."""
    columns = snapshot.columns(["id", "label"])
    ids, labels = columns.column("id").to_numpy(), columns.column("label").fill_null(-1).to_numpy()
    of = dict(zip(map(str, measured.ids.tolist()), measured.values.tolist(), strict=True))
    values = np.array([of.get(str(id), np.nan) for id in ids.tolist()], np.float64)
    return Hardness(ids, np.asarray(labels, np.int64), values, measured.score)


def ids_and_labels(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """(n,) ids and (n,) labels of a scores table, -1 if missing."""
    n = len(table)
    ids = check_ids(table.column("id").to_numpy(), n)
    return ids, np.full(n, -1) if "label" not in table.column_names else check_labels(_plain(table.column("label")), n, None)


def check_columns(table: pa.Table, names: tuple[str, ...], where: str) -> None:
    """Require exactly one column of each name."""
    for column in names:
        if table.column_names.count(column) != 1:
            there = "no column" if column not in table.column_names else "more than one column"
            near = did_you_mean(column, table.column_names) if there == "no column" else ""
            raise InputError(f"{where} has {there} {column!r}; it has {', '.join(table.column_names)}.{near}")


def of_table(table: pa.Table, name: str, where: str) -> Hardness:
    """A column of a scores table; `where` names the table in messages."""
    check_columns(table, ("id", name), where)
    kind = table.schema.field(name).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(f"{where}: samples must be ranked by a numeric column, but {name} holds {kind}.")
    ids, labels = ids_and_labels(table)
    values = np.asarray(table.column(name).cast(pa.float64()).to_numpy(), np.float64)
    return Hardness(ids, labels, np.where(np.isfinite(values), values, np.nan), name)


def _plain(labels: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(labels.fill_null(-1).to_numpy() if pa.types.is_integer(labels.type) else labels.to_numpy())


def run_and_score(text: str) -> tuple[str, str]:
    """Split RUN:SCORE; a score may carry a number, as in run:avh_nearest:10.

    Example:
        >>> run_and_score("runs/teacher:avh"), run_and_score("run:avh_nearest:10")
        (('runs/teacher', 'avh'), ('run', 'avh_nearest:10'))
    """
    parts = text.split(":")
    for words in (2, 1):  # the longer name first
        name = ":".join(parts[-words:])
        if len(parts) > words and (words == 1 or name in SCORES):
            run = ":".join(parts[:-words])
            if run and name:
                return run, name
    raise InputError(f"a curriculum is written RUN:SCORE, as in teacher:avh, got {text!r}.")

"""Samples to be compared: their labels, predictions, scores and further columns, from a run, a snapshot or a scores table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_labels, to_numpy
from hardsight.errors import FileError, InputError, did_you_mean
from hardsight.files.class_names import read_class_names
from hardsight.files.kinds import kind_of
from hardsight.files.npy import open_npz
from hardsight.files.parquet import table_notes
from hardsight.files.places import missing, place
from hardsight.files.reading import reading
from hardsight.files.wide_tables import snapshot_hint
from hardsight.head import Head
from hardsight.options import SampleOptions
from hardsight.scores import SCORES
from hardsight.scoring.job import CROSS_VALIDATED, FoldHeads, Job
from hardsight.scoring.samples import path_of, rows_of_split
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.table import SCORE_IT, TABLES, read_scores, scores_given
from hardsight.threads import sample_rows

NORM, CONFIDENCE = "norm", "predicted_confidence"
FIXED = ("id", "label", "predicted", "status")


@dataclass(frozen=True)
class Measured:
    """n samples and what is known of each."""

    name: str  # of the run or file, for messages
    ids: pa.Array  # (n,)
    labels: np.ndarray  # (n,) -1 unlabeled
    predicted: np.ndarray  # (n,) -1 for none
    scores: dict[str, np.ndarray]  # (n,) float64 by name, NaN where a sample has none
    columns: pa.Table  # whatever else there is, n rows
    class_names: list[str] | None = None
    snapshot: Snapshot | None = None  # the features, where there are any
    rows: np.ndarray | None = None  # (n,) where each sample stands in the snapshot; None: in its own place
    fitted: FoldHeads | None = None  # the heads that scored it, where it came without one

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def correct(self) -> np.ndarray:
        """(n,) 1 for right, 0 for wrong, NaN where the label or the prediction is not known."""
        known = (self.labels >= 0) & (self.predicted >= 0)
        return np.where(known, self.labels == self.predicted, np.nan)

    @property
    def head(self) -> Head | None:
        """The model's head, if the samples came with it."""
        return None if self.snapshot is None else self.snapshot.head

    @property
    def num_classes(self) -> int:
        """Of the snapshot, or as many as labels and predictions name."""
        if self.snapshot is not None and self.snapshot.num_classes is not None:
            return self.snapshot.num_classes
        return int(max(self.labels.max(initial=-1), self.predicted.max(initial=-1))) + 1

    def features(self) -> np.ndarray | None:
        """(n, d), or None where there are none."""
        if self.snapshot is None or self.snapshot.source.evidence != "features":
            return None
        batch = self.snapshot.in_memory() if self.rows is None else self.snapshot.take(self.rows).in_memory()
        values = np.asarray(to_numpy(batch.values), dtype=np.float64)
        return values if batch.missing is None else np.where(batch.missing[:, None], np.nan, values)

    @cached_property
    def units(self) -> np.ndarray | None:
        """(n,) which samples are copies of one image; None where each stands alone."""
        if "base_id" not in self.columns.column_names:
            return None
        base = pc.coalesce(self.columns.column("base_id").cast(pa.string()), pa.chunked_array([self.ids.cast(pa.string())]))
        codes = base.combine_chunks().dictionary_encode()
        return None if len(codes.dictionary) == len(self) else codes.indices.to_numpy()

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        return str(label) if self.class_names is None else self.class_names[label]

    def take(self, rows: np.ndarray) -> Measured:
        """The same with only these rows."""
        return replace(
            self,
            ids=self.ids.take(pa.array(rows)),
            labels=self.labels[rows],
            predicted=self.predicted[rows],
            scores={name: values[rows] for name, values in self.scores.items()},
            columns=self.columns.take(pa.array(rows)),
            rows=rows if self.rows is None else self.rows[rows],
        )


def open_measured(
    source: Any,
    by: str,
    *,
    head: Any = None,
    labels: Any = None,
    sampling: SampleOptions | None = None,
    progress: Progress | None = None,
) -> Measured:
    """A run, a snapshot (also a `Snapshot`) or a scores table, with the score `by`, or the loss if AVH cannot be computed.

    `head` may also be heads that were fitted already, where there is none.
    """
    if not isinstance(source, (Snapshot, str, os.PathLike)):
        source = scores_given(source)
    if not isinstance(source, (Snapshot, pa.Table, str, os.PathLike)):
        expected = "give a run, a file, a Snapshot or a table of scores, or arrays by keyword"
        raise InputError(f"{expected}, got {type(source).__name__}.{snapshot_hint(source)}")
    if by not in SCORES:
        raise InputError(SCORES.refusal(by))
    source = loaded(source, head, labels)
    if isinstance(source, Snapshot):
        fold_heads = head if isinstance(head, FoldHeads) else None
        measured = _of_snapshot(source, by, sampling, fold_heads, progress)
    elif isinstance(source, pa.Table):
        measured = _of_table(source, "the table", by, sampling)
    else:
        path = Path(source)
        if head is not None or labels is not None:
            raise InputError(f"{path}: a head and labels go with features, and this is a table of scores.")
        measured = _of_table(read_scores(path), str(path), by, sampling)
    if len(measured) == 0:
        raise InputError(f"{measured.name} holds no samples.")
    return measured


def loaded(source: Any, head: Any = None, labels: Any = None) -> Any:
    """The snapshot at a path. The path of a scores table, and anything that is no path, is returned unchanged."""
    if not isinstance(source, (str, os.PathLike)):
        return source
    path = place(source)
    if not path.exists():
        raise FileError(missing(path))
    return source if isinstance(path, Path) and _is_table(path) else Snapshot.load(path, head=head, labels=labels)


def with_class_names(measured: Measured, class_names: Any) -> Measured:
    """The same with names of the classes from a file, if there is one."""
    if class_names is None:
        return measured
    return replace(measured, class_names=read_class_names(class_names, measured.num_classes))


def measured_by(measured: Measured, by: str) -> str:
    """The score that measures hardness: the requested one, or the loss if AVH needs features and there are none."""
    if np.isfinite(measured.scores.get(by, np.array([]))).any():
        return by
    if by == "avh" and np.isfinite(measured.scores.get("loss", np.array([]))).any():
        return "loss"
    there = ", ".join(name for name, values in measured.scores.items() if name in SCORES and np.isfinite(values).any())
    raise InputError(f"{measured.name}: no sample has a value of {by}" + (f"; it has {there}." if there else "."))


def of_split(measured: Measured, split: str | None) -> Measured:
    """The samples of one split."""
    if split is None:
        return measured
    splits = measured.columns.column("split").to_pylist() if "split" in measured.columns.column_names else None
    return measured.take(rows_of_split(splits, split, measured.name))


def check_labeled(measured: Measured) -> None:
    """Some labels, and predictions beside them."""
    if (measured.labels < 0).all():
        raise _unlabeled(measured.name, "give --labels FILE" if measured.snapshot is not None else "add a column label")
    if np.isnan(measured.correct).all():
        raise InputError(f"{measured.name}: no labeled sample has a prediction: give features and a head, logits or probs.")


def check_labels_of(snapshot: Snapshot, way: str = "give --labels FILE") -> None:
    """Some labels, which is known before anything is scored."""
    labels = snapshot.columns(["label"]).column(0)  # (n,) null where unlabeled
    if len(labels) and labels.null_count == len(labels):
        raise _unlabeled(snapshot.name or "the snapshot", way)


def _unlabeled(name: str, way: str) -> InputError:
    return InputError(f"{name}: there are no labels, so there is no accuracy or hardness to compare: {way}.")


def _is_table(path: Path) -> bool:
    if path.is_dir():
        return not (path / "samples").is_dir() and (path / "scores.parquet").is_file()
    return path.suffix.lower() in TABLES and kind_of(path) != "snapshot"


def check_column(name: str, columns: Sequence[str], where: str) -> None:
    """A column to group by, among those that hold no lists."""
    there = [column for column in columns if column not in ("id", "features", "logits", "probs")]
    if name not in there:
        shown = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
        known = (f"it has {shown}." if there else "it has none.") + did_you_mean(name, there)
        raise InputError(f"{where}: there is no column {name!r}; {known}")


def with_groups(source: Any, group: Sequence[str], **files: Any) -> Any:
    """What `loaded` returns, after checking, before anything is scored, that a snapshot has the columns to group by."""
    source = loaded(source, **files)
    if isinstance(source, Snapshot) and group:
        there = [*source.column_names, *_added_columns(source).column_names]
        for name in group:
            _check_array(source, name)
            check_column(name, there, source.name or "the snapshot")
    return source


def _check_array(snapshot: Snapshot, name: str) -> None:
    """Refuse an array of an .npz that is there, but is no column because of its shape."""
    path = path_of(snapshot)
    if name in snapshot.column_names or path is None or path.suffix.lower() != ".npz":
        return
    arrays = open_npz(path)
    if name in arrays and name not in ("features", "logits", "probs"):
        n = len(snapshot)
        raise InputError(f"{path}: a column has one value per sample, shape ({n},), but {name!r} has shape {arrays[name].shape}.")


def _of_snapshot(
    snapshot: Snapshot,
    by: str,
    sampling: SampleOptions | None,
    fold_heads: FoldHeads | None,
    progress: Progress | None,
) -> Measured:
    snapshot = snapshot if sampling is None else snapshot.of_rows(sample_rows(sampling, len(snapshot)))
    name = snapshot.name or "the snapshot"
    check_labels_of(snapshot)
    possible = {score.name for score in Job(snapshot).chosen}
    wanted = [score for score in dict.fromkeys((by, NORM, CONFIDENCE)) if score in possible or score == by]
    if by == "avh" and by not in possible:
        wanted[0] = "loss"
    job = Job(snapshot, wanted)
    if job.cross_validated:
        job = replace(job, fold_heads=fold_heads or job.fit_heads())
    parts = list(job.parts(progress))
    table = pa.concat_tables(parts) if parts else job.schema.empty_table()
    scores = {score: table.column(score).to_numpy() for score in wanted}
    return Measured(
        name,
        table.column("id").combine_chunks(),
        table.column("label").fill_null(-1).to_numpy(),
        table.column("predicted").fill_null(-1).to_numpy(),
        scores,
        _joined(snapshot.columns().combine_chunks(), _added_columns(snapshot)),
        snapshot.class_names,
        snapshot,
        fitted=job.fold_heads,
    )


def _added_columns(snapshot: Snapshot) -> pa.Table:
    """Columns that a user added to the run's scores.parquet, with `id` if there are any."""
    path = path_of(snapshot)
    if path is None or not (path / "scores.parquet").is_file():
        return pa.table({})
    table = read_scores(path)
    added = [name for name in table.column_names if name not in (*FIXED, *SCORES, *snapshot.column_names)]
    return table.select(["id", *added] if added and "id" in table.column_names else [])


def _joined(columns: pa.Table, added: pa.Table) -> pa.Table:
    """The columns of the samples, and those of another table by id."""
    if not added.column_names:
        return columns
    at = pc.index_in(columns.column("id").cast(pa.string()), value_set=added.column("id").cast(pa.string()).combine_chunks())
    for name in added.column_names[1:]:
        columns = columns.append_column(name, added.column(name).take(at))
    return columns


def _of_table(table: pa.Table, where: str, by: str, sampling: SampleOptions | None) -> Measured:
    table = (table if sampling is None else table.take(pa.array(sample_rows(sampling, len(table))))).combine_chunks()
    with reading(where, "not a readable scores table"):
        n, names = len(table), set(table.column_names)
        if not names & {"label", "predicted"}:
            columns = f"score it first ({SCORE_IT}), or name the columns for hardsight audit: --features 'f*' --label NAME"
            raise InputError(f"{where}: a table of scores has columns label and predicted, this has none of them: {columns}.")
        ids = table.column("id").combine_chunks() if "id" in names else pa.array(np.arange(n))
        if ids.null_count or len(pc.unique(ids)) != n:
            raise InputError(f"{where}: ids must be unique and not null, one per sample.")
        labels, predicted = (_classes_in(table, name) for name in ("label", "predicted"))
        numeric = [
            name for name in dict.fromkeys((by, "avh", "loss", NORM, CONFIDENCE)) if name in names and _is_number(table, name)
        ]
        scores = {name: table.column(name).cast(pa.float64()).to_numpy() for name in numeric}
        cross_validated = table_notes(table.schema).get("head") == CROSS_VALIDATED
        fitted = FoldHeads([], np.empty(0)) if cross_validated else None  # the heads are not kept with the scores
        return Measured(where, ids, labels, predicted, scores, table, fitted=fitted)


def _classes_in(table: pa.Table, name: str) -> np.ndarray:
    if name not in table.column_names:
        return np.full(len(table), -1)
    return check_labels(table.column(name), len(table), None)


def _is_number(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def no_head_of(snapshot: Snapshot) -> bool:
    """Whether there are features and labels, but no head."""
    return snapshot.head is None and snapshot.source.evidence == "features" and snapshot.source.labeled


def shared_heads(first: Snapshot, second: Snapshot, *, paired: bool) -> tuple[FoldHeads, FoldHeads]:
    """Heads fitted to the first snapshot, and which of them scores each sample of the first and of the second.

    Paired, a sample is scored by the same head in both. Unpaired, every class of the second is spread evenly over the folds.
    """
    labels = _labels(second)
    most, num_classes = int(labels.max(initial=-1)), int(_labels(first).max(initial=-1)) + 1
    if most >= num_classes:
        names = first.name or "the first snapshot", second.name or "the second snapshot"
        raise InputError(
            f"neither {names[0]} nor {names[1]} has a head, and one fitted to the first does not know class {most} of the second"
            ": give --head."
        )
    fitted = Job(first).fit_heads()
    if paired:
        # The row of each sample in the first snapshot, any for one that is missing there: it is left out later.
        rows = pc.fill_null(pc.index_in(_ids(second), value_set=_ids(first)), 0)
        return fitted, FoldHeads(fitted.heads, fitted.fold_of[rows.to_numpy()])
    samples = first.in_memory()
    known = (samples.labels >= 0) & np.isfinite(to_numpy(samples.values)).all(axis=1)
    folds = int(fitted.fold_of[known].max()) + 1  # the head of all other rows was fitted to every known one
    fold_of = np.empty(len(second), np.int64)
    fold_of[np.argsort(labels, kind="stable")] = np.arange(len(second)) % folds
    return fitted, FoldHeads(fitted.heads, fold_of)


def _labels(snapshot: Snapshot) -> np.ndarray:
    return np.asarray(snapshot.columns(["label"]).column(0).fill_null(-1).to_numpy(), np.int64)


def _ids(snapshot: Snapshot) -> pa.Array:
    return snapshot.columns(["id"]).column(0).combine_chunks().cast(pa.string())

"""Reader of dynamics files: the moments of a run in order, and each sample's `Story` over them.

One file is in memory at a time. The state per sample does not grow with the number of epochs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import FileError, InputError
from hardsight.files.parquet import open_parquet, parquet_columns, read_parquet
from hardsight.files.reading import naming, reading
from hardsight.scores.dynamics import Story
from hardsight.scores.registry import Score

COLUMNS = (
    "id", "split", "label", "own_angle", "nearest_angle", "avh", "norm", "confidence", "logit_margin", "el2n", "correct", "loss",
)  # fmt: skip
PREDICTED = "predicted"  # the class with the highest logit
EXTRA = ("aldr_lambda",)  # only some losses have it: otherwise null, or not in the file
NUMBERS = (*COLUMNS[3:], *EXTRA)
FILE_NAME = re.compile(r"(epoch|step)=(\d+)\.parquet")


@dataclass(frozen=True)
class Moment:
    """When samples were recorded: an epoch, or one step of it."""

    epoch: int
    step: int | None = None

    @property
    def file_name(self) -> str:
        """Name of the dynamics file of this moment."""
        return f"epoch={self.epoch:04d}.parquet" if self.step is None else f"step={self.step:06d}.parquet"


def moments(run: str | Path, *, steps: bool = False) -> list[tuple[Moment, Path]]:
    """The dynamics files of a run in order: epochs, or steps."""
    folder = Path(run) / "dynamics"
    if not folder.is_dir():
        raise FileError(f"{run}: there are no dynamics here (no directory {folder}): pass a run of hardsight train.")
    kind = "step" if steps else "epoch"
    files = []
    for path in folder.glob(f"{kind}=*.parquet"):
        name = FILE_NAME.fullmatch(path.name)
        if not name:
            raise FileError(f"{path}: unexpected file name; dynamics are {kind}=NUMBER.parquet.")
        number = int(name[2])
        files.append((number, Moment(_epoch_of(path), number) if steps else Moment(number), path))
    return [(moment, path) for _, moment, path in sorted(files, key=lambda entry: entry[0])]


def read_moment(path: Path, columns: Sequence[str] | None = None, split: str | None = None) -> pa.Table:
    """One dynamics file, or some of its columns and rows."""
    present = parquet_columns(path)
    wanted = (*COLUMNS, *(name for name in EXTRA if name in present)) if columns is None else columns
    missing = [name for name in (*wanted, "split") if name not in present and name not in EXTRA]
    if missing:
        raise FileError(f"{path}: not a dynamics file: it has no column {missing[0]!r}.")
    table = read_parquet(path, [name for name in dict.fromkeys([*wanted, "split"]) if name in present])
    for name in wanted:
        if name not in present:  # an epoch with held-out samples only
            table = table.append_column(name, pa.nulls(len(table), pa.float32()))
    if split is not None:
        table = table.filter(pc.equal(table.column("split"), split))
    return table.select(list(wanted))


def number_column(table: pa.Table, name: str) -> np.ndarray:
    """A column as float64, with NaN for null and 1 and 0 for right and wrong."""
    return np.asarray(table.column(name).cast(pa.float64()).to_numpy(), dtype=np.float64)


def rows_named(ids: pa.Array) -> np.ndarray | None:
    """(n,) the data row that each id names: 42, "42", "test/42" or "42#contrast=0.3"; None if some do not name a row."""
    if pa.types.is_integer(ids.type):
        return ids.to_numpy(zero_copy_only=False).astype(np.int64)
    matches = [re.fullmatch(r"(?:[^#]*/)?(\d{1,18})(?:#.*)?", id) for id in ids.to_pylist()]
    rows = [int(match[1]) for match in matches if match is not None]
    return np.array(rows, np.int64) if len(rows) == len(matches) else None


class KnownIds:
    """Ids in order of first appearance, and the index of each."""

    def __init__(self) -> None:
        self.ids: pa.Array | None = None

    def __len__(self) -> int:
        return 0 if self.ids is None else len(self.ids)

    def indices(self, ids: pa.Array) -> np.ndarray:
        """(n,) the index of each id, -1 for an unknown one."""
        if self.ids is None:
            return np.full(len(ids), -1)
        if self.ids.type != ids.type:
            raise InputError(f"ids in the dynamics are {self.ids.type}, but the requested ones are {ids.type}.")
        if ids.equals(self.ids):  # usually the case after the first epoch
            return np.arange(len(ids))
        return pc.fill_null(pc.index_in(ids, value_set=self.ids), -1).to_numpy(zero_copy_only=False).astype(np.int64)

    def learn(self, ids: pa.Array) -> np.ndarray:
        """The same, but unknown ids are appended."""
        indices = self.indices(ids)
        new = np.flatnonzero(indices < 0)
        if len(new):
            indices[new] = len(self) + np.arange(len(new))
            fresh = ids.take(pa.array(new))
            self.ids = fresh if self.ids is None else pa.concat_arrays([self.ids, fresh])
        return indices


class Stories:
    """The story of every sample over the epochs of a run; look up a score by ids.

    If an id is in several splits, "train" is used, or else the first split by name; `split` restricts the lookup to one.
    """

    def __init__(self, run: str | Path, scores: Iterable[Score], split: str | None = None) -> None:
        scores = list(scores)
        absent = [score.name for score in scores if not recorded(run, score)]
        if absent:
            raise InputError(f"{run}: {absent[0]} is not in its dynamics; it is recorded only with --loss aldr.")
        self.columns = tuple(sorted({column for score in scores for column in score.columns}))
        self.splits: dict[str | None, tuple[KnownIds, Story]] = {}
        for moment, path in moments(run):
            table = read_moment(path, ["id", "split", *self.columns], split)
            with naming(path):
                self._see(moment, table)

    def _see(self, moment: Moment, table: pa.Table) -> None:
        for split in table.column("split").unique().to_pylist():
            column = table.column("split")
            part = table.filter(pc.is_null(column) if split is None else pc.equal(column, split))
            known, story = self.splits.setdefault(split, (KnownIds(), Story(self.columns)))
            rows = known.learn(part.column("id").combine_chunks())
            story.grow(len(known))
            story.see(moment.epoch, {name: number_column(part, name) for name in self.columns}, rows)

    def of(self, score: Score, ids: Any) -> np.ndarray:
        """(n,) the score of each id, NaN for ids without dynamics."""
        assert score.story is not None
        wanted = ids if isinstance(ids, pa.Array) else pa.array(ids)
        result = np.full(len(wanted), np.nan)
        missing = np.ones(len(wanted), dtype=bool)
        for split in sorted(self.splits, key=lambda name: (name != "train", name is None, name or "")):
            known, story = self.splits[split]
            indices = known.indices(wanted)
            found = missing & (indices >= 0)
            result[found] = score.story(story)[indices[found]]
            missing &= ~found
        return result


def has_dynamics(run: Any) -> bool:
    """Whether a directory on this machine holds epochs of a training."""
    return isinstance(run, Path) and any((run / "dynamics").glob("epoch=*.parquet"))


def epoch_means(run: Path) -> dict[str, Any]:
    """The mean probabilities of each sample, from what the files hold: those of the given and of the predicted class.

    Returned are (n, c) values, NaN for a sample that was never scored, (n,) labels of the last epoch, ids, and the column split;
    an id of several splits is that of "train".

    The rest of an epoch's probability is shared by the other classes. An unlabeled sample counts as its predicted classes.
    """
    files = [path for _, path in moments(run)]
    classes = [read_moment(path, ["label", PREDICTED]) for path in files]
    c = 1 + max((pc.max(column).as_py() or 0 for table in classes for column in table.columns), default=0)
    means = _MeanProbs(c)
    for path in files:
        means.add(_train_first(read_moment(path, ["id", "split", "label", "confidence", "logit_margin", PREDICTED])))
    return means.result()


def _train_first(table: pa.Table) -> pa.Table:
    """One row for each id: that of "train", or else the first."""
    table = table.take(pa.array(np.argsort(table.column("split").to_numpy() != "train", kind="stable")))
    codes = table.column("id").combine_chunks().dictionary_encode().indices.to_numpy()
    return table.take(pa.array(np.unique(codes, return_index=True)[1]))


class _MeanProbs:
    """Sums over the epochs: of a class's probability beyond that of `the rest`, which is added once for all classes."""

    def __init__(self, c: int) -> None:
        self.known = KnownIds()
        self.sums, self.rest, self.epochs = np.zeros((0, c), np.float32), np.zeros(0), np.zeros(0)  # (n, c), (n,), (n,)
        self.labels, self.splits = np.zeros(0, np.int64), np.zeros(0, object)

    def add(self, table: pa.Table) -> None:
        """Add one epoch."""
        rows = self.known.learn(table.column("id").combine_chunks())
        self._grow(len(self.known) - len(self.sums))
        given, predicted = (table.column(name).fill_null(-1).to_numpy().astype(np.int64) for name in ("label", PREDICTED))
        self.labels[rows], self.splits[rows] = given, table.column("split").to_numpy()
        p, margin = number_column(table, "confidence"), number_column(table, "logit_margin")
        of_other = np.minimum(p * np.exp(np.minimum(-margin, 700)), 1 - p)
        top = np.where(given < 0, 1.0, np.where(given == predicted, p, of_other))  # of the predicted class
        scored = (predicted >= 0) & np.isfinite(top)
        rows, given, predicted, p, top = rows[scored], given[scored], predicted[scored], p[scored], top[scored]
        wrong = (given >= 0) & (given != predicted)
        rest = (1 - top - np.where(wrong, p, 0)) / np.maximum(self.sums.shape[1] - 1 - wrong, 1)  # of each other class
        self.sums[rows, predicted] += top - rest
        self.sums[rows[wrong], given[wrong]] += (p - rest)[wrong]
        self.rest[rows] += rest
        self.epochs[rows] += 1

    def _grow(self, more: int) -> None:
        """Add samples that no earlier epoch had."""
        if more:
            self.sums = np.concatenate([self.sums, np.zeros((more, self.sums.shape[1]), np.float32)])
            self.rest, self.epochs = (np.concatenate([column, np.zeros(more)]) for column in (self.rest, self.epochs))
            self.labels = np.concatenate([self.labels, np.full(more, -1)])
            self.splits = np.concatenate([self.splits, np.full(more, None)])

    def result(self) -> dict[str, Any]:
        """The values, labels, ids and columns of the samples."""
        with np.errstate(invalid="ignore", divide="ignore"):
            probs = np.clip((self.sums + self.rest[:, None]) / self.epochs[:, None], 0, 1)
            probs /= probs.sum(axis=1, keepdims=True)
        assert self.known.ids is not None
        columns = {"split": pa.array(self.splits, pa.string())}
        ids = self.known.ids.to_numpy(zero_copy_only=False)
        return {"values": probs.astype(np.float32), "labels": self.labels, "ids": ids, "columns": columns}


def recorded(run: str | Path, score: Score) -> bool:
    """Whether the dynamics of a run have the columns that a score needs; some columns exist for some losses only."""
    extra = set(EXTRA).intersection(score.columns)
    return not extra or any(extra <= set(parquet_columns(path)) for _, path in moments(run)[-1:])


def read_measures(path: Path) -> dict[str | None, dict[str, Any]]:
    """The metrics of each split as a whole in a dynamics file, by split; empty where none were measured."""
    with reading(path, "not a readable dynamics file"):
        measures = _notes(path).get("measures", {})
        return {split or None: {str(name): value for name, value in numbers.items()} for split, numbers in measures.items()}


def _epoch_of(path: Path) -> int:
    with reading(path, "not a readable dynamics file"):
        return int(_notes(path)["epoch"])


def _notes(path: Path) -> dict[str, Any]:
    with open_parquet(path) as file:
        notes: dict[str, Any] = json.loads((file.schema_arrow.metadata or {}).get(b"hardsight", b"{}"))
        return notes

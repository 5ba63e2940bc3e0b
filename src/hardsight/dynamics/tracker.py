"""`Dynamics`: records every sample while a network trains, one Parquet file per epoch.

A file has one row per sample and split: its angles, norm, confidence, margin and loss when it was seen. Its metadata has the
metrics of each split as a whole (kept_features.py). Only the current epoch is in memory; finished epochs are on disk and read
one file at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight import checks
from hardsight.dynamics.kept_features import KeptFeatures, from_bytes, to_bytes
from hardsight.errors import InputError, RunError
from hardsight.files.epochs import COLUMNS, EXTRA, PREDICTED, Moment, moments, read_moment
from hardsight.files.parquet import write_parquet
from hardsight.head import Head
from hardsight.pandas_index import align
from hardsight.scores import SCORES
from hardsight.scores.registry import norms_only, row_values
from hardsight.scores.sweep import Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, LOGITS, NEAREST, SOFTMAX, SQUARES
from hardsight.version import VERSION

Gather = Callable[[pa.Table], "list[pa.Table] | None"]

WRITTEN = (*COLUMNS, PREDICTED, *EXTRA)
TERMS = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES})  # what the columns need of a sweep


class Dynamics:
    """A tracker: pass it every batch, and it records the dynamics of each sample in `folder/dynamics/`.

    An epoch is written when the next one begins, at the end of a `with` block, or by `finish`. Training an epoch again
    replaces its file.

    Args:
        folder: the run directory, created if it does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Dynamics(folder) as tracker:
        ...         for epoch in (1, 2):
        ...             features, weight = epoch * np.eye(2), np.eye(2)  # norms grow, angles stay
        ...             sums = tracker.update(epoch, features, weight, labels=[0, 1], ids=["a", "b"])
        ...     [table.column("norm").to_pylist() for _, table in Dynamics.read(folder)]
        [[1.0, 1.0], [2.0, 2.0]]
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder) / "dynamics"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise RunError(f"{self.folder}: a file is in the way; use another folder.") from error
        self._open: dict[bool, _Pool] = {}  # at most two: the current epoch and the current step
        self._begun = False

    def update(
        self,
        epoch: int,
        features: Any,
        head: Any,
        labels: Any,
        ids: Any,
        *,
        split: str | None = "train",
        step: int | None = None,
        aldr_lambda: Any = None,
    ) -> dict[str, float]:
        """Record one batch.

        Args:
            epoch: number of the epoch, usually from 1.
            features: (b, d) inputs of the head, array or tensor; gradients are not affected.
            head: a `Head`, one of our head losses, an `nn.Linear` or a (c, d) weight, in its state of this forward pass.
            labels: (b,) given class; -1 for unlabeled.
            ids: (b,) strings or integers, the same for a sample in every epoch.
            split: "train", "val", "test" or the name of a held-out set.
            step: for held-out samples recorded in the middle of an epoch: the step number.
            aldr_lambda: (b,) `temperatures[indices]` of an `ALDRLoss` after this forward pass, if you train with one.

        Returns:
            Sums over the batch's labeled rows, for a progress bar: "n", "correct", "avh", "norm", "loss".
        """
        moment = _moment(epoch, step)
        if split is not None and not isinstance(split, str):
            raise InputError(f"split must be a word such as 'train', or None, got {split!r}.")
        ids, labels = align(ids, "ids", features, "features"), align(labels, "labels", features, "features")
        lambdas = None if aldr_lambda is None else align(aldr_lambda, "aldr_lambda", features, "features")
        features = _on_host(checks.as_matrix(features, "features"))
        names, rows = checks.check_ids(ids, len(features)), _swept(features, head, labels)
        pool = self._take(moment, split, names, rows, None if lambdas is None else _lambdas(lambdas, len(names)))
        pool.keep(names, split, rows.labels, features, head)
        return _sums(rows)

    def _take(self, moment: Moment, split: str | None, names: np.ndarray, rows: Sweep, lambdas: pa.Array | None = None) -> _Pool:
        self._begin(moment)
        pool = self._open.get(moment.step is not None)
        if pool is not None and pool.moment != moment:
            self.finish(pool.moment.epoch, step=pool.moment.step)
            pool = None
        if pool is None:
            pool = self._open[moment.step is not None] = _Pool(moment)
        pool.add(names, split, rows, lambdas)
        return pool

    def finish(self, epoch: int, *, step: int | None = None, gather: Gather | None = None) -> Path | None:
        """Write what was recorded for this moment; return None if there was nothing.

        If an id was recorded twice in a split, the first row is kept. Rows are sorted, so the bytes do not depend on the order
        of the batches.

        Args:
            gather: for several processes: a function that takes this process's table and returns the tables of all processes on
                the main process and None on the others, which write nothing.
        """
        moment = _moment(epoch, step)
        pool = self._open.get(step is not None)
        table = _NO_ROWS
        kept: dict[str | None, KeptFeatures] = {}
        if pool is not None and pool.moment == moment:
            table, kept = pool.table(), pool.measured()
        if gather is not None:
            gathered = gather(table.replace_schema_metadata({_KEPT: to_bytes(kept)}))
            if gathered is None:
                self._close(moment)
                return None
            kept = _all_kept(gathered, kept)
            table = _joined([part.replace_schema_metadata(None) for part in gathered])
        if len(table) == 0:
            return None
        path = self.folder / moment.file_name
        table = table.drop_columns([name for name in EXTRA if table.column(name).null_count == len(table)])
        measures = {split or "": features.measures() for split, features in sorted(kept.items(), key=lambda item: item[0] or "")}
        notes = {"version": VERSION, "epoch": moment.epoch, "step": moment.step, "measures": measures}
        table = _sorted_once_each(table).replace_schema_metadata({"hardsight": json.dumps(notes)})
        write_parquet(path, table)
        self._close(moment)
        return path

    def close(self) -> None:
        """Write what is still in memory."""
        for pool in list(self._open.values()):
            self.finish(pool.moment.epoch, step=pool.moment.step)

    def __enter__(self) -> Dynamics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:  # do not write a partial epoch
            self.close()

    @staticmethod
    def read(
        run: str | Path, *, columns: Sequence[str] | None = None, split: str | None = None, steps: bool = False
    ) -> Iterator[tuple[Moment, pa.Table]]:
        """The epochs of a run in order, each with its table, one in memory at a time.

        Args:
            run: the run's directory.
            columns: read only these.
            split: read only the rows of this split.
            steps: read the steps within epochs instead.
        """
        for moment, path in moments(run, steps=steps):
            yield moment, read_moment(path, columns, split)

    def _begin(self, moment: Moment) -> None:
        """Refuse to mix two trainings: epochs later than the first one recorded here belong to another training."""
        if self._begun:
            return
        later = [path.name for other, path in moments(self.folder.parent) if other.epoch > moment.epoch]
        if later:
            raise RunError(
                f"{self.folder} already holds {later[-1]}, and this training is at epoch {moment.epoch}: "
                "two trainings would mix. Use another folder, or remove the files of the later epochs."
            )
        self._begun = True

    def _close(self, moment: Moment) -> None:
        pool = self._open.get(moment.step is not None)
        if pool is not None and pool.moment == moment:
            del self._open[moment.step is not None]


class _Pool:
    """The rows of one moment. Sweeps are queued until there are many rows to turn into columns at once."""

    ENOUGH = 8192  # rows

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.id_type: pa.DataType | None = None
        self.parts: list[pa.Table] = []
        self.waiting: list[tuple[np.ndarray, str | None, Sweep, pa.Array]] = []
        self.rows_waiting = 0
        self.kept: dict[str | None, KeptFeatures] = {}  # by split
        self.heads: dict[str | None, Any] = {}  # by split, as passed by the caller

    def keep(self, ids: np.ndarray, split: str | None, labels: np.ndarray, features: Any, head: Any) -> None:
        """Keep the features of a few samples."""
        self.kept.setdefault(split, KeptFeatures()).add(ids, labels, features)
        self.heads[split] = head

    def measured(self) -> dict[str | None, KeptFeatures]:
        """The kept features, each with the current head."""
        for split, kept in self.kept.items():
            kept.head = _finite_head(self.heads[split])
        return self.kept

    def add(self, ids: np.ndarray, split: str | None, rows: Sweep, lambdas: pa.Array | None = None) -> None:
        if len(ids) == 0:
            return
        kind = pa.string() if ids.dtype == object else pa.int64()
        if self.id_type not in (None, kind):
            raise InputError(f"ids must be all strings or all integers: so far they were {self.id_type}, now {kind}.")
        self.id_type = kind
        self.waiting.append((ids, split, rows, pa.nulls(len(ids), pa.float32()) if lambdas is None else lambdas))
        self.rows_waiting += len(ids)
        if self.rows_waiting >= self.ENOUGH:
            self._settle()

    def table(self) -> pa.Table:
        self._settle()
        return pa.concat_tables(self.parts) if self.parts else _NO_ROWS

    def _settle(self) -> None:
        """Turn queued sweeps into a table with the columns of the file."""
        if not self.waiting:
            return
        every_ids, every_split, sweeps, lambdas = zip(*self.waiting, strict=True)
        ids, rows = np.concatenate(every_ids), _concatenated(list(sweeps))
        splits = [pa.repeat(pa.scalar(split, pa.string()), len(ids)) for ids, split in zip(every_ids, every_split, strict=True)]
        arrays: dict[str, Any] = {
            "id": pa.array(ids, self.id_type),
            "split": pa.concat_arrays(splits),
            "label": pa.array(rows.labels, mask=~rows.labeled),
            "correct": pa.array(rows.labels == rows.predicted, mask=~(rows.labeled & rows.ok)),
            PREDICTED: pa.array(rows.predicted, pa.int64(), mask=~rows.ok),
            "aldr_lambda": pa.concat_arrays(lambdas),
        }
        for name in COLUMNS:
            if name not in arrays:
                column = row_values(SCORES[name], rows).astype(np.float32)
                arrays[name] = pa.array(column, mask=np.isnan(column))
        self.parts.append(pa.table({name: arrays[name] for name in WRITTEN}))
        self.waiting, self.rows_waiting = [], 0


_NO_ROWS = pa.table({name: pa.array([], pa.null()) for name in WRITTEN})


def _on_host(x: Any) -> Any:
    """A tensor on the CPU as an array, on which each of the many small steps of a sweep is faster; anything else as it is."""
    return checks.widened(x.detach()).numpy() if checks.is_tensor(x) and x.device.type == "cpu" else x


def _swept(features: Any, head: Any, labels: Any) -> Sweep:
    """Everything the columns need from each row of a batch: (b, d) features, a head of any form, (b,) labels or -1."""
    head = _as_head(head)
    checks.check_same_space(features, head.weight)
    labels = checks.check_labels(labels, len(features), head.num_classes)
    if _on_host(head.directions).any(1).all():
        return sweep(features, head, labels, TERMS)
    # A class vector at the origin, as in a head initialized with zeros, has logits but no angles.
    rows = sweep_logits(head.logits(features), labels, TERMS - {ANGLES, NEAREST})
    return replace(rows, norm=norms_only(features, None).norm)


def _as_head(head: Any) -> Head:
    """A `Head` with the current parameters: of a loss, its own; of an `nn.Linear` or a (c, d) weight, a linear one."""
    own = getattr(head, "head", head)
    if isinstance(own, Head):
        return own
    weight, bias = getattr(head, "weight", head), getattr(head, "bias", None)
    return Head("linear", _on_host(weight), None if bias is None else _on_host(bias))


def _finite_head(head: Any) -> Head | None:
    """The head, unless its parameters are not finite any more."""
    try:
        return _as_head(head)
    except InputError:
        return None


def _concatenated(sweeps: list[Sweep]) -> Sweep:
    """The rows of several batches."""
    parts = {field.name: [getattr(rows, field.name) for rows in sweeps] for field in fields(Sweep) if field.name != "more"}
    c, precision = max(parts.pop("num_classes")), np.result_type(*parts.pop("precision")).type
    columns: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Sweep(c, precision, **columns)


_KEPT = b"hardsight kept features"


def _all_kept(tables: Sequence[pa.Table], own: dict[str | None, KeptFeatures]) -> dict[str | None, KeptFeatures]:
    """The features kept by all processes; the head is the same in all of them."""
    result: dict[str | None, KeptFeatures] = {}
    heads = [kept.head for kept in own.values()]
    for table in tables:
        for split, kept in from_bytes((table.schema.metadata or {})[_KEPT]).items():
            result.setdefault(split, KeptFeatures()).join(kept)
    for split, kept in result.items():
        kept.head = own[split].head if split in own else next(iter(heads), None)
    return result


def _lambdas(aldr_lambda: Any, n: int) -> pa.Array:
    values = checks.to_numpy(checks.as_numbers(aldr_lambda, "aldr_lambda"))
    if values.shape != (n,):
        raise InputError(f"there must be one aldr_lambda per sample, got shape {values.shape} for {n} samples.")
    return pa.array(values.astype(np.float32), from_pandas=True)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables of all processes; an empty one has no column types to match."""
    full = [table for table in tables if len(table)]
    if len({table.schema.field("id").type for table in full}) > 1:
        raise InputError("ids must be all strings or all integers, and the processes have both.")
    return pa.concat_tables(full) if full else _NO_ROWS


def _sorted_once_each(table: pa.Table) -> pa.Table:
    """Sorted by split and id, keeping the first row of each."""
    table = table.combine_chunks()
    table = table.take(pc.sort_indices(table, [("split", "ascending"), ("id", "ascending")]))  # a stable sort
    ids, splits = (table.column(name).combine_chunks() for name in ("id", "split"))
    same = pc.and_(pc.equal(ids[1:], ids[:-1]), pc.equal(pc.fill_null(splits[1:], ""), pc.fill_null(splits[:-1], "")))
    if not pc.any(same).as_py():
        return table
    return table.filter(pa.concat_arrays([pa.array([True]), pc.invert(same)]))


def _sums(rows: Sweep) -> dict[str, float]:
    """Sums over the labeled rows that could be scored."""
    counted = rows.labeled & rows.ok
    correct = (rows.labels == rows.predicted) & counted
    columns = {name: SCORES[name].of for name in ("avh", "norm", "loss")}
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        sums = {name: of(rows) for name, of in columns.items() if of is not None}
    totals = {name: float(np.sum(column, where=counted & np.isfinite(column))) for name, column in sums.items()}
    return {"n": int(np.count_nonzero(counted)), "correct": int(np.count_nonzero(correct)), **totals}


def _moment(epoch: Any, step: Any) -> Moment:
    return Moment(checks.check_count(epoch, "epoch"), None if step is None else checks.check_count(step, "step"))

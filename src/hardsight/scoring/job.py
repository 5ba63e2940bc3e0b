"""A scoring job: which rows and which scores of a snapshot (first half), computed batch by batch (second half).

`tables` is the computation. Row scores take one pass over the rows, a sweep. Scopes that must see all rows first take an extra
pass; other inputs of a score (a reference, a run's epochs, other models, layers, checkpoints) are read beforehand and joined by
id or row. Read before this: score.py. Next: scopes.py, what each scope of scores makes of a batch and its sweep.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import SeenIds, check_count, to_numpy, widened
from hardsight.errors import InputError, did_you_mean
from hardsight.files.samples import Batch
from hardsight.head import Head
from hardsight.scores import SCORES
from hardsight.scores.probabilities import sweep_probs
from hardsight.scores.registry import Score, norms_only
from hardsight.scores.sweep import Sweep, sweep, sweep_logits
from hardsight.scores.terms import ANGLES, LOGITS, NEAREST, NONFINITE, NONFINITE_LOGIT, OK, ZERO
from hardsight.scoring.fitted_head import heads_with_every_class
from hardsight.scoring.scopes import SCOPES, Scope, scopes_of
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import TableSource
from hardsight.table import read_scores
from hardsight.version import VERSION

MISSING, NO_LABEL, ALL_ZERO, ALL_PI = "missing_feature", "unlabeled", "all_angles_zero", "all_angles_pi"
NONFINITE_PROBABILITY = "nonfinite_probability"
UNSCORED = (NONFINITE, NONFINITE_LOGIT, NONFINITE_PROBABILITY, MISSING, ZERO)  # such rows have no scores
CROSS_VALIDATED = "linear, cross-validated: each sample scored by a head that was not fitted to it"


@dataclass(frozen=True)
class FoldHeads:
    """Fitted heads, and which of them scores each row: one that was not fitted to it."""

    heads: list[Head]
    fold_of: np.ndarray  # (n,)


@dataclass(frozen=True)
class Job:
    """A scoring job: which rows, which scores, how strict. `tables` computes the table, `schema` has its columns."""

    snapshot: Snapshot
    scores: str | Sequence[str] | None = None
    first: int | None = None
    shard: tuple[int, int] | str | None = None
    strict: bool = False
    fold_heads: FoldHeads | None = None  # instead of fitting heads, if there is none
    reference: Snapshot | None = field(default=None, kw_only=True)  # what some scores need beside the snapshot
    models: tuple[Snapshot, ...] = field(default=(), kw_only=True)
    images: Any = field(default=None, kw_only=True)

    @property
    def headless(self) -> bool:
        """Whether there are features but no head."""
        return self.snapshot.head is None and self.snapshot.source.evidence == "features"

    @functools.cached_property
    def of_features_alone(self) -> bool:
        """Whether there are no labels to fit a head to, and no requested score needs one: nothing is predicted."""
        if not self.headless or self.snapshot.source.labeled or not self.chosen:
            return False
        return not any(score.terms or score.labels for score in self.chosen)

    @property
    def cross_validated(self) -> bool:
        """Whether there is no head, so that one is fitted by cross-validation."""
        return self.headless and not self.of_features_alone

    @functools.cached_property
    def chosen(self) -> list[Score]:
        """The requested scores, or the default row scores that the input allows."""
        if self.scores is None and not self.snapshot.source.of_epochs:
            return [score for score in SCORES.values() if score.default and SCOPES[score.scope].why_not(score, self) is None]
        if self.scores is None or (isinstance(self.scores, str) and self.scores.strip() == "all"):
            chosen = [score for score in SCORES.values() if SCOPES[score.scope].in_all(score, self)]
        else:
            chosen = self._named(list(dict.fromkeys(_names(self.scores))))
        if self.shard is not None and not all(SCOPES[score.scope].on_shard for score in chosen):
            raise InputError("dataset scores need all rows and are not available for a single shard.")
        return chosen

    def _named(self, names: list[str]) -> list[Score]:
        """The scores of these names, all of which must be possible."""
        for name in names:
            if name not in SCORES:
                raise InputError(SCORES.refusal(name))
        for name in names:
            if obstacle := SCOPES[SCORES[name].scope].why_not(SCORES[name], self):
                raise InputError(obstacle)
        return [SCORES[name] for name in names]

    @functools.cached_property
    def rows(self) -> range:
        """The rows of this job."""
        n = len(self.snapshot)
        n = n if self.first is None else min(n, check_count(self.first, "first"))
        if self.shard is None:
            return range(n)
        index, count = _shard(self.shard)
        return range(n * index // count, n * (index + 1) // count)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """Columns of the table; notes go into its metadata."""
        ids = self.snapshot.source.id_type
        notes: dict[str, Any] = {
            "version": VERSION,
            "head": CROSS_VALIDATED if self.cross_validated else getattr(self.snapshot.head, "kind", None),
        }
        if self.snapshot.class_names is not None:
            notes["class_names"] = self.snapshot.class_names
        fixed = [("id", ids), ("label", pa.int64()), ("predicted", pa.int64()), ("status", pa.string())]
        columns = [*fixed, *((score.name, pa.float64()) for score in self.chosen)]
        return pa.schema(columns, metadata={"hardsight": json.dumps(notes)})

    @functools.cached_property
    def terms(self) -> frozenset[str]:
        """What the sweep must compute for the chosen scores, and for `predicted`."""
        if self.of_features_alone:
            return frozenset()
        return frozenset({LOGITS}).union(*(scope.terms for scope in scopes_of(self.chosen)))

    def tables(self, progress: Progress | None = None) -> Iterator[pa.Table]:
        """The table, piece by piece, in row order. Fails at the end if an id is repeated."""
        rows, scopes, seen_ids = self.rows, scopes_of(self.chosen), SeenIds()
        # Heads are fitted where there is none, but not to no rows at all.
        heads = (self.fold_heads or self.fit_heads()) if self.cross_validated and len(rows) else None
        for scope in scopes:
            scope.prepare(self, rows, progress)
        first_pass = [scope for scope in scopes if scope.all_rows_first]
        done, total = 0, (2 if first_pass else 1) * len(rows)

        def count(batch: Batch) -> None:
            nonlocal done
            done += len(batch)
            if progress is not None:
                progress(done, total)

        for batch in self.snapshot.batches(rows.start, rows.stop) if first_pass else ():
            swept = self._sweep(batch, heads)
            for scope in first_pass:
                scope.see(batch, swept)
            count(batch)

        def seen(batch: Batch) -> None:
            seen_ids.add(batch.ids)
            count(batch)

        for piece in self.pieces():
            yield self.table_of(piece, scopes, heads, seen)
        if not self.snapshot.allow_duplicates:
            seen_ids.refuse_repeated(self.ids, self.snapshot.name or "ids", rows.start)

    def ids(self) -> np.ndarray:
        """(n,) ids of the rows of this job."""
        return np.concatenate([np.asarray(batch.ids) for batch in self.snapshot.batches(self.rows.start, self.rows.stop)])

    def table_of(
        self,
        piece: range,
        scopes: Sequence[Scope] | None = None,
        heads: FoldHeads | None = None,
        seen: Callable[[Batch], None] = lambda batch: None,
    ) -> pa.Table:
        """One piece of the table. With a given head, row scores need only the piece, so it can be scored anywhere."""
        tables, scopes = [], scopes_of(self.chosen) if scopes is None else scopes
        start = piece.start if heads else self._batch_start(piece.start)  # no fold has a row before those of this job
        for batch in self.snapshot.batches(start, piece.stop):
            swept = self._sweep(batch, heads)
            if (lead := piece.start - batch.start) > 0:
                batch, swept = batch.since(lead), swept.since(lead)
            tables.append(self._table(batch, swept, scopes))
            seen(batch)
        return pa.concat_tables(tables).combine_chunks()

    def _batch_start(self, row: int) -> int:
        """The first row of a row's batch when all rows are scored.

        The rounding of a matrix product depends on a row's position in the batch, so a shard that starts within a batch also
        sweeps the rows before it: joined shards equal the whole table to the last bit.
        """
        if self.shard is None:
            return row
        start = next(piece.start for piece in self.snapshot.pieces() if row in piece)
        return row - (row - start) % self.snapshot.batch_rows

    def pieces(self) -> list[range]:
        """The rows of this job, split where the snapshot is: row groups of Parquet, else about 32 MB."""
        rows = self.rows
        cut = (range(max(piece.start, rows.start), min(piece.stop, rows.stop)) for piece in self.snapshot.pieces())
        return [piece for piece in cut if len(piece)]

    def _table(self, batch: Batch, swept: Sweep, scopes: Sequence[Scope]) -> pa.Table:
        """One batch, swept, as rows of the table."""
        status = _status(swept, batch, self.terms, self.snapshot.source.evidence)
        self._refuse_if_strict(status, batch)
        columns = {score.name: scope.values(score, batch, swept) for scope in scopes for score in scope.scores}
        return _as_table(batch, swept, status, [columns[score.name] for score in self.chosen], self.schema)

    def _sweep(self, batch: Batch, heads: FoldHeads | None) -> Sweep:
        """The one pass over the classes: of logits or probabilities, by the head, or by the fitted heads."""
        x, labels, evidence = batch.values, batch.labels, self.snapshot.source.evidence
        if evidence == "logits":
            return sweep_logits(widened(x), labels, self.terms)
        if self.of_features_alone:
            return replace(norms_only(x, None), predicted=np.full(len(batch), -1))
        if heads is not None:
            return self._sweep_by_folds(batch, heads)
        try:
            if evidence == "probs":
                return sweep_probs(x, labels, self.terms)
            assert self.snapshot.head is not None
            return sweep(x, self.snapshot.head, labels, self.terms)
        except InputError as error:  # a class vector without a direction; rows that do not sum to 1
            raise self._named_error(error, "probs" if evidence == "probs" else None) from error

    def _sweep_by_folds(self, batch: Batch, heads: FoldHeads) -> Sweep:
        """Each row by the head that did not see it."""
        whole: Sweep | None = None
        for fold, head in enumerate(heads.heads):
            mine = np.flatnonzero(heads.fold_of[batch.start - self.rows.start :][: len(batch)] == fold)
            if len(mine):
                part = sweep(to_numpy(batch.values)[mine], head, batch.labels[mine], self.terms)
                whole = _scatter(whole, part, mine, len(batch))
        assert whole is not None
        return replace(whole, labels=batch.labels, num_classes=heads.heads[0].num_classes)

    def _named_error(self, error: InputError, otherwise: str | None = None) -> InputError:
        """The same error, with the name of the samples."""
        name = self.snapshot.name or otherwise
        return InputError(f"{name}: {error}" if name else str(error))

    def fit_heads(self) -> FoldHeads:
        """Heads fitted to the rows of this job by cross-validation."""
        if not self.snapshot.source.labeled:
            raise self._named_error(InputError("features alone cannot be scored: pass a head, or labels to fit one to."))
        everything = self.snapshot.in_memory(self.rows.start, self.rows.stop)
        fold_of = np.zeros(len(self.rows), dtype=np.int64)
        heads: list[Head] = []
        try:
            for at, head in heads_with_every_class(to_numpy(everything.values), everything.labels):
                fold_of[at] = len(heads)
                heads.append(head)
        except InputError as error:
            raise self._named_error(error) from error
        return FoldHeads(heads, fold_of)

    def _refuse_if_strict(self, status: np.ndarray, batch: Batch) -> None:
        bad = np.flatnonzero((status != OK) & (status != NO_LABEL))
        if self.strict and len(bad):
            (name,) = batch.ids[bad[:1]].tolist()
            raise InputError(
                f"{self.snapshot.name or 'input'}: row {batch.start + bad[0]} (id {name!r}) cannot be scored: "
                f"{status[bad[0]]}. Fix or drop it, or omit strict to keep such rows with their status."
            )


def _names(scores: Any) -> list[str]:
    """Score names, from comma-separated text or any iterable."""
    names = scores.split(",") if isinstance(scores, str) else scores
    if isinstance(names, (set, frozenset, bytes)) or not hasattr(names, "__iter__"):
        raise InputError(f'scores must be a list of names, text such as "avh,loss", or "all", got {scores!r}.')
    names = list(names)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InputError(f"scores must be names, but {odd[0]!r} is not; choose from {', '.join(SCORES)}, or all.")
    return [name.strip() for name in names]


def _shard(shard: Any) -> tuple[int, int]:
    """(i, n), also from the text i/n."""
    if isinstance(shard, str) and re.fullmatch(r"-?[0-9]{1,18}/-?[0-9]{1,18}", shard):
        shard = tuple(int(number) for number in shard.split("/"))
    if not (isinstance(shard, (tuple, list)) and len(shard) == 2):
        raise InputError(f"shard must look like 0/4, or (0, 4) in Python, got {shard!r}.")
    index, count = (check_count(number, "each number of a shard", -(2**63)) for number in shard)
    if not 0 <= index < count:
        raise InputError(f"a shard is i/n with i from 0 to n - 1, got {index}/{count}.")
    return index, count


def _status(swept: Sweep, batch: Batch, terms: frozenset[str], evidence: str) -> np.ndarray:
    """Why a row has null scores, or "ok"."""
    status = swept.status
    if evidence == "probs":
        status[status == NONFINITE_LOGIT] = NONFINITE_PROBABILITY
    if batch.missing is not None:
        status[batch.missing] = MISSING
    fine = status == OK
    if terms & {ANGLES, NEAREST}:
        status[fine & (swept.angle_sum == 0)] = ALL_ZERO
        status[fine & (swept.angle_sum >= swept.num_classes * np.pi * (1 - 1e-15))] = ALL_PI
    status[(status == OK) & ~swept.labeled] = NO_LABEL
    return status


def _scatter(whole: Sweep | None, part: Sweep, at: np.ndarray, n: int) -> Sweep:
    """Copy the rows of a part to their positions in a sweep of n rows."""
    names = [name for name in vars(part) if name not in ("num_classes", "precision", "more")]

    def put(values: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        array = np.empty(n, dtype=values.dtype) if before is None else before
        array[at] = values
        return array

    arrays = {name: put(getattr(part, name), None if whole is None else getattr(whole, name)) for name in names}
    more = {term: put(values, None if whole is None else whole.more[term]) for term, values in part.more.items()}
    return Sweep(part.num_classes, part.precision, **arrays, more=more)


def _as_table(batch: Batch, swept: Sweep, status: np.ndarray, columns: list[np.ndarray], schema: pa.Schema) -> pa.Table:
    scored = np.isin(status, UNSCORED, invert=True)
    arrays = [
        pa.array(batch.ids, type=schema.field("id").type),
        pa.array(batch.labels, mask=batch.labels < 0),
        pa.array(swept.predicted, mask=~scored | (swept.predicted < 0)),
        pa.array(status, type=pa.string()),
        *(pa.array(column, mask=np.isnan(column)) for column in columns),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


# ---- `Snapshot.scores`: stored scores are read, others computed ----

FIXED = {"id": None, "label": pa.int64(), "predicted": pa.int64(), "status": pa.string()}


def scores_of(snapshot: Snapshot, names: Sequence[str], progress: Progress | None = None) -> pa.Table:
    """id, label, predicted, status and these scores of every sample, in the order of the samples."""
    if isinstance(snapshot.source, TableSource):
        return _with_fixed(_selected(snapshot.columns(), names, snapshot.where))
    stored = _stored_in_run(snapshot, names)
    if stored is not None:
        return stored
    unknown = [name for name in names if name not in SCORES]
    if unknown:
        raise InputError(SCORES.refusal(unknown[0]))
    job = Job(snapshot, names)
    tables = list(job.tables(progress))
    return pa.concat_tables(tables) if tables else job.schema.empty_table()


def _stored_in_run(snapshot: Snapshot, names: Sequence[str]) -> pa.Table | None:
    """The scores in the run's scores.parquet, by id; None if it lacks some, or if they are of another head or other labels."""
    if snapshot.run is None or snapshot.is_changed or not (snapshot.run / "scores.parquet").is_file():
        return None
    table = read_scores(snapshot.run)
    if not {"id", *names} <= set(table.column_names):
        return None
    ids = snapshot.columns(["id"]).column(0).cast(pa.string())
    rows = pc.index_in(ids, value_set=table.column("id").cast(pa.string()).combine_chunks())
    if rows.null_count:
        return None
    stored = Snapshot.of_scores(table.take(rows), allow_duplicates=True).numbered_as(snapshot).source
    assert isinstance(stored, TableSource)
    return _with_fixed(_selected(stored.table, names, snapshot.where))


def _selected(table: pa.Table, names: Sequence[str], where: str) -> pa.Table:
    for name in names:
        if name not in table.column_names:
            there = ", ".join(table.column_names[:20])
            raise InputError(f"{where} has no column {name!r}; it has {there}.{did_you_mean(name, table.column_names)}")
        kind = table.schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{where}: samples are ranked by a column of numbers, but {name} holds {kind}.")
    columns = {name: table.column(name).cast(pa.float64()) for name in names}
    fixed = {name: table.column(name) for name in FIXED if name in table.column_names}
    return pa.table({**fixed, **columns}).replace_schema_metadata(table.schema.metadata)


def _with_fixed(table: pa.Table) -> pa.Table:
    """The table with every fixed column: null where it is not known, and status "ok"."""
    names = [name for name in table.column_names if name not in FIXED]
    for name, kind in FIXED.items():
        if name not in table.column_names:
            column = pa.array(["ok"] * len(table), kind) if name == "status" else pa.nulls(len(table), kind)
            table = table.append_column(name, column)
    return table.select([*FIXED, *names])

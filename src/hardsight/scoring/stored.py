"""`Snapshot.scores`: scores that are stored with the samples are read, others are computed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError, did_you_mean
from hardsight.scores import SCORES
from hardsight.scoring.job import Job
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import TableSource
from hardsight.table import read_scores

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
    parts = list(job.parts(progress))
    return pa.concat_tables(parts) if parts else job.schema.empty_table()


def _stored_in_run(snapshot: Snapshot, names: Sequence[str]) -> pa.Table | None:
    """The scores in the run's scores.parquet, by id; None if it lacks some, or if they are of another head or other labels."""
    loaded = snapshot.loaded_from or {}
    replaced = loaded.get("head") is not None or loaded.get("labels") is not None
    if snapshot.run is None or replaced or not (snapshot.run / "scores.parquet").is_file():
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

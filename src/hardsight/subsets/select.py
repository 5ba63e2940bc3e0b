"""`select`: which samples to train on, or to label next: a table of ids, each with the reason, in the order they were chosen.

    id       of the input
    reason   why this one, in words

The schema's metadata, under `hardsight`, says by which method, score and seed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hardsight.checks import given_probs
from hardsight.errors import InputError
from hardsight.files.places import Place, place
from hardsight.files.table_writing import check_table_output
from hardsight.files.wide_tables import is_table, names_columns
from hardsight.files.writing import check_output
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scoring.score import of_table
from hardsight.scoring.score_file import open_with_columns
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.subsets.methods import Picker
from hardsight.subsets.pool import Pool, is_scores, open_pool
from hardsight.subsets.settings import SelectFileSettings, SelectSettings
from hardsight.table import write_table
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import SelectOptions
    from hardsight.subsets.cost import Curve


@dataclass(frozen=True)
class Selected:
    """The subset, with what it was chosen from."""

    __repr__ = brief

    table: pa.Table  # id, reason
    pool: Pool
    labels: list[int]  # of the chosen samples, -1 unlabeled
    path: Place | None = None
    curve: Curve | None = None


@takes(SelectSettings)
def select(
    source: Any = None, *, features: Any = None, labels: Any = None, probs: Any = None, pred_probs: Any = None,
    logits: Any = None, head: Any = None, ids: Any = None,
    settings: SelectSettings | None = None, progress: Progress | None = None, **options: Unpack[SelectOptions],
) -> Result:  # fmt: skip
    """Choose samples to train on, or to label next: a table with id and reason, `budget` rows.

    Args:
        source: a run directory, a file (.npz, .npy, .parquet), a `Snapshot` or a table of scores; or nothing, and arrays by
            keyword.
        features: (n, d) inputs of the last linear layer; of a table, names or patterns of columns.
        labels: (n,) given class; -1 or null for unlabeled; of a table, the name of a column.
        probs: (n, c) instead of features; `pred_probs` is another name of them.
        logits: (n, c) instead of features.
        head: a `Head`, or the (c, d) weight of a linear one.
        ids: (n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the samples done and the samples in all.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[0.9, 0.1], [0.55, 0.45], [0.7, 0.3]])
        >>> select(probs=probs, budget=2, method="margin").to_pydict()["id"]  # what to label next
        [1, 2]
    """
    settings = SelectSettings.given(settings, options)
    arrays = {"features": features, "labels": labels, "probs": given_probs(probs, pred_probs), "logits": logits, "head": head}
    given = {name: value for name, value in {**arrays, "ids": ids}.items() if value is not None}
    if source is None:
        source = Snapshot(**given)
    elif is_table(source) and names_columns(source, features, labels):
        source = of_table(source, given.pop("features", None), given)
    elif given:
        raise InputError(f"{next(iter(given))} goes with arrays; a run, a file or a snapshot holds its own.")
    return Result(choose(source, settings, progress).table)  # nearly every reason is its own: nothing to count


def choose(source: Any, settings: SelectSettings, progress: Progress | None = None) -> Selected:
    """Choose samples from anything that `open_pool` opens."""
    pool = open_pool(source, settings)
    assert settings.budget is not None  # checked with the pool
    rows, reasons = Picker(settings, progress)(pool, settings.budget)
    by = {"by": pool.by} if pool.by else {}
    notes = {"version": VERSION, "method": settings.method, **by, "seed": settings.seed, "samples": len(pool)}
    ids = pool.ids[rows]
    kind = pa.string() if ids.dtype == object else pa.int64()
    schema = pa.schema([("id", kind), ("reason", pa.string())], metadata={"hardsight": json.dumps(notes)})
    return Selected(pa.Table.from_arrays([pa.array(ids, kind), pa.array(reasons, pa.string())], schema=schema),
                    pool, pool.labels[rows].tolist())  # fmt: skip


@takes(SelectFileSettings)
def select_to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    settings: SelectFileSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Selected:
    """Choose samples of a run or a file, and write the table; measure the curve, if asked.

    Args:
        source: a run directory, a snapshot (.npz, .npy, .parquet) or a table of scores (.parquet, .csv, .json).
        output: .parquet, .csv or .json.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the samples done and the samples in all.
    """
    settings = SelectFileSettings.given(settings, options)
    path, target = place(source), place(output)
    inputs = (path, settings.head, settings.labels)
    check_table_output(target, "a subset", inputs)
    if isinstance(settings.curve, str):
        check_output(place(settings.curve), table="the cost curve of subsets", inputs=inputs)
        if place(settings.curve).resolve() == target.resolve():
            raise InputError(f"{target} is both the subset and its curve: give two files.")
    if settings.curve and is_scores(path, settings):
        raise InputError(
            f"--curve fits heads to features, and {path} is a table of scores, which has none: give the run or snapshot."
        )
    opened = path if is_scores(path, settings) else open_with_columns(path, settings)
    selected = choose(opened, settings, progress)
    curve = None
    if settings.curve:
        from hardsight.subsets.cost import cost_curve, write_curve  # with statistics, which take time to load

        curve = cost_curve(opened, settings=settings, pool=selected.pool)
        if isinstance(settings.curve, str):
            write_curve(curve, place(settings.curve))
    write_table(selected.table, target)
    return replace(selected, path=target, curve=curve)

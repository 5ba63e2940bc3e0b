"""`curriculum`: the order in which a training starts to use its samples.

    id            of the input
    position      0 for the first
    first_epoch   the first epoch that trains on it
    SCORE         the score that it was ordered by, under its own name

`train --curriculum RUN:SCORE` goes by the same order; `curriculum.parquet:position` names this table there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.places import Place, missing, place
from hardsight.files.table_writing import check_table_output
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scoring.score_file import open_with_columns
from hardsight.screen import brief
from hardsight.subsets.pool import Pool, is_scores, open_pool
from hardsight.subsets.settings import CurriculumFileSettings, CurriculumSettings, SelectSettings
from hardsight.table import write_table
from hardsight.training.pacing import Curriculum, Pacing

if TYPE_CHECKING:
    from hardsight.option_types import CurriculumOptions


@dataclass(frozen=True)
class Planned:
    """A curriculum, with what it was made from."""

    __repr__ = brief

    table: pa.Table
    order: str
    score: str
    sizes: list[int]  # samples of each epoch
    notes: tuple[str, ...]
    path: Place | None = None


@takes(CurriculumSettings)
def curriculum(source: Any, *, settings: CurriculumSettings | None = None, **options: Unpack[CurriculumOptions]) -> Result:
    """Order samples from easy to hard, or the other way, and say from which epoch each is trained on.

    Args:
        source: a run directory, a file (.npz, .npy, .parquet), a `Snapshot` or a table of scores.
        settings: all options as one object; each is also a keyword of its own, see below.

    Returns:
        A `Result`, used as a `pyarrow.Table`: id, position, first_epoch and the score.

    Example:
        >>> table = pa.table({"id": ["a", "b", "c", "d"], "avh": [0.3, 0.1, 0.4, 0.2]})
        >>> curriculum(table, by="avh", epochs=4, pace_start=0.5).select(["id", "first_epoch"]).to_pydict()
        {'id': ['b', 'd', 'a', 'c'], 'first_epoch': [1, 1, 2, 3]}
    """
    settings = CurriculumSettings.given(settings, options)
    return Result(plan(source, settings).table)


def plan(source: Any, settings: CurriculumSettings) -> Planned:
    """The order of the samples, and the epoch from which each is used."""
    order = settings.order or "easy-first"
    if order == "self-paced":
        raise InputError(
            "self-paced follows the network while it trains, so there is no list to write: use hardsight train --order "
            "self-paced."
        )
    pool = _samples(source, settings)
    assert pool.harder is not None and pool.values is not None
    pacing = Pacing.of(settings, settings.epochs)
    lessons = Curriculum(pool.labels, order, pacing, pool.harder, settings.seed)
    assert lessons.rows is not None
    sizes = [pacing.size(epoch, len(pool)) for epoch in range(1, settings.epochs + 1)]
    first = np.searchsorted(sizes, np.arange(len(pool)), side="right") + 1  # (n,)
    first_epoch = pa.array(first, mask=first > settings.epochs)  # null for samples that are never used
    ids, kind = pool.ids[lessons.rows], pa.string() if pool.ids.dtype == object else pa.int64()
    columns = {"id": pa.array(ids, kind), "position": np.arange(len(pool)), "first_epoch": first_epoch}
    table = pa.table({**columns, pool.by: pool.values[lessons.rows]})
    return Planned(table, order, pool.by, sizes, pool.notes)


def _samples(source: Any, settings: CurriculumSettings) -> Pool:
    """Every sample that has the score."""
    chosen = SelectSettings(budget=1, method="hardest", by=settings.by, split=settings.split)
    return open_pool(source, chosen)


@takes(CurriculumFileSettings)
def curriculum_to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    settings: CurriculumFileSettings | None = None,
    **options: Any,
) -> Planned:
    """Order the samples of a run or a file, and write the table.

    Args:
        source: a run directory, a snapshot (.npz, .npy, .parquet) or a table of scores (.parquet, .csv, .json).
        output: .parquet, .csv or .json.
        settings: all options as one object; each is also a keyword of its own, see below.
    """
    settings = CurriculumFileSettings.given(settings, options)
    path, target = place(source), place(output)
    check_table_output(target, "a curriculum", (path, settings.head, settings.labels))
    if isinstance(path, Path) and not path.exists():
        raise InputError(missing(path))
    planned = plan(path if is_scores(path, settings) else open_with_columns(path, settings), settings)
    write_table(planned.table, target)
    return replace(planned, path=target)

"""`curriculum`: the order in which a training starts to use its samples.

    id            of the input
    position      0 for the first
    first_epoch   the first epoch that trains on it
    SCORE         the score that it was ordered by, under its own name

`train --curriculum RUN:SCORE` goes by the same order; `curriculum.parquet:position` names this table there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.options import takes
from hardsight.result import Result, table_target
from hardsight.screen import Cell, Sentence, ShownTable, line, number, percent
from hardsight.snapshot import Snapshot
from hardsight.subsets.eligible import EligibleRows, eligible_rows
from hardsight.subsets.settings import CurriculumSettings, SelectSettings
from hardsight.training.pacing import Curriculum, Pacing

if TYPE_CHECKING:
    from hardsight.option_types import CurriculumOptions

SHOWN = 10  # epochs


class Plan(Result):
    """A curriculum, with the number of samples of each epoch."""

    def __init__(self, table: pa.Table, found: EligibleRows, sizes: list[int], settings: CurriculumSettings) -> None:
        super().__init__(table, found.samples.notes)
        self.score, self.sizes, self.settings, self.decided = found.by, sizes, settings, found.notes

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """The order, and how many samples each epoch uses."""
        yield from map(line, self.decided)
        n, order, pacing = len(self), self.settings.order or "easy-first", self.settings.pacing
        facts = {"sizes": self.sizes, "samples": n, "order": order, "by": self.score, "pacing": pacing}
        yield line(f"n = {n}   order {order} by {self.score}   pacing {pacing}", **facts)
        rows = [(number(epoch), number(size), percent(size / n, digits=0)) for epoch, size in enumerate(self.sizes, 1)]
        yield ShownTable("epochs", ("epoch", "samples", Cell("%", "share")), rows[:SHOWN], words=0)
        if len(rows) > SHOWN:
            yield line(f"and {len(rows) - SHOWN} epochs more, the last with {self.sizes[-1]} samples")


@takes(CurriculumSettings)
def curriculum(
    x: Any = None, *, output: str | os.PathLike[str] | None = None, settings: CurriculumSettings | None = None,
    **options: Unpack[CurriculumOptions],
) -> Plan:  # fmt: skip
    """Order samples from easy to hard, or the other way, and say from which epoch each is trained on.

    Args:
        x: a run directory, a file, (n, d) features, a frame, a `Snapshot` or a table of scores.
        output: .parquet, .csv or .json to write the table to.
        settings: all options as one object; each is also a keyword of its own, see below.

    Returns:
        A `Result` with the columns id, position, first_epoch and the score.

    Example:
        >>> table = pa.table({"id": ["a", "b", "c", "d"], "avh": [0.3, 0.1, 0.4, 0.2]})
        >>> curriculum(table, by="avh", epochs=4, pace_start=0.5).select(["id", "first_epoch"]).to_pydict()
        {'id': ['b', 'd', 'a', 'c'], 'first_epoch': [1, 1, 2, 3]}
    """
    settings = CurriculumSettings.given(settings, options)
    if settings.order == "self-paced":
        raise InputError("order self-paced follows the network while it trains: use hardsight train --order self-paced.")
    target = table_target(output, "a curriculum", (x, settings.head, settings.labels))
    samples = Snapshot.open(x, by=settings.by, **settings.keywords())
    found = eligible_rows(samples, SelectSettings(budget=1, method="hardest", by=settings.by, split=settings.split))
    plan = _plan(found, settings)
    if target is not None:
        plan.save(target)
    return plan


def _plan(found: EligibleRows, settings: CurriculumSettings) -> Plan:
    """The order of the samples, and the epoch from which each is used."""
    pacing = Pacing.of(settings, settings.epochs)
    lessons = Curriculum(found.labels, settings.order or "easy-first", pacing, found.harder, settings.seed)
    assert lessons.rows is not None and found.values is not None
    sizes = [pacing.size(epoch, len(found)) for epoch in range(1, settings.epochs + 1)]
    first = np.searchsorted(sizes, np.arange(len(found)), side="right") + 1  # (n,)
    first_epoch = pa.array(first, mask=first > settings.epochs)  # null for samples that are never used
    ids = pa.array(found.ids[lessons.rows], found.samples.source.id_type)
    columns = {"id": ids, "position": np.arange(len(found)), "first_epoch": first_epoch}
    return Plan(pa.table({**columns, found.by: found.values[lessons.rows]}), found, sizes, settings)

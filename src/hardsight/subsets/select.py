"""`select`: which samples to train on, or to label next: a table of ids, each with the reason, in the order they were chosen.

    id       of the input
    reason   why this one, in words

The schema's metadata, under `hardsight`, says by which method, score and seed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.places import place
from hardsight.files.writing import check_output
from hardsight.options import takes
from hardsight.result import Result, table_target
from hardsight.screen import Progress, Sentence, ShownTable, line, number
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.subsets.eligible import EligibleRows, eligible_rows
from hardsight.subsets.methods import Picker
from hardsight.subsets.settings import UNCERTAIN, SelectSettings
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import SelectOptions
    from hardsight.subsets.cost import Curve

SHOWN = 5  # samples to label next
MOST_CLASSES = 20  # that are counted one by one


class Subset(Result):
    """The chosen samples, with what they were chosen from; `curve` is what the subset costs in accuracy, if it was measured."""

    curve: Curve | None = None

    def __init__(self, found: EligibleRows, rows: np.ndarray, reasons: list[str], settings: SelectSettings) -> None:
        super().__init__(_table(found, rows, reasons, settings), found.samples.notes)
        self.candidates, self.settings = found, settings
        self.labels = found.labels[rows].tolist()

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many of how many, by what, of which classes; and the curve."""
        found, settings, k = self.candidates, self.settings, len(self)
        yield from map(line, found.notes)
        by = f" by {found.by}" if found.by and settings.method not in UNCERTAIN else ""
        facts = {"chosen": k, "samples": len(found), "method": settings.method, "by": found.by, "seed": settings.seed}
        share = f"{100 * k / len(found):.1f} %"
        yield line(f"{k} of {len(found)} samples ({share})   method {settings.method}{by}   seed {settings.seed}", **facts)
        yield self._classes()
        if self.curve is not None:
            yield from self.curve.lines()

    def _classes(self) -> Sentence | ShownTable:
        found, counts = self.candidates, Counter(label for label in self.labels if label >= 0)
        if not counts:  # what to label next: the first of it
            first = [(str(row["id"]), row["reason"]) for row in self.table.slice(0, SHOWN).to_pylist()]
            return ShownTable("first", ("id", "reason"), first, words=2)
        every = [counts.get(label, 0) for label in range(found.num_classes)]
        if len(every) > MOST_CLASSES:
            spread = {"fewest_of_a_class": min(every), "most_of_a_class": max(every), "classes_without": every.count(0)}
            words = f"samples of a class: {min(every)} to {max(every)}, {every.count(0)} of {len(every)} classes have none"
            return line(words, **spread)
        total = np.bincount(found.labels[found.labels >= 0], minlength=found.num_classes).tolist()
        rows = [(found.name_of(label), number(every[label]), number(total[label])) for label in range(found.num_classes)]
        return ShownTable("classes", ("class", "chosen", "of"), rows)


@takes(SelectSettings)
def select(
    x: Any = None, budget: int | None = None, *, output: str | os.PathLike[str] | None = None,
    settings: SelectSettings | None = None, progress: Progress | None = None, **options: Unpack[SelectOptions],
) -> Subset:  # fmt: skip
    """Choose samples to train on, or to label next: a table with id and reason, `budget` rows.

    Args:
        x: a run directory, a file, (n, d) features, a frame, a `Snapshot` or a table of scores; or nothing, and features, logits
            or probs by keyword.
        budget: number of samples to choose.
        output: .parquet, .csv or .json to write the table to.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the samples done and the samples in all.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.55, 0.45], [0.7, 0.3]])
        >>> select(probs=probs, budget=2, method="margin")["id"].to_pylist()  # what to label next
        [1, 2]
    """
    settings = SelectSettings.given(settings, options, budget=budget)
    target = table_target(output, "a subset", (x, settings.head, settings.labels))
    if isinstance(settings.curve, str):
        check_output(place(settings.curve), table="the cost curve of subsets", inputs=(x, settings.head, settings.labels))
        if target is not None and place(settings.curve).resolve() == target.resolve():
            raise InputError(f"{target} is both the subset and its curve: give two files.")
    samples = Snapshot.open(x, by=settings.by, **settings.keywords())
    if settings.curve and samples.source.evidence == SCORES_ALONE:
        raise InputError(f"--curve fits heads to features, and {samples.where} is a table of scores: give the run or snapshot.")
    found = eligible_rows(samples, settings)
    assert settings.budget is not None  # checked with the candidates
    rows, reasons = Picker(settings, progress)(found, settings.budget)
    subset = Subset(found, rows, reasons, settings)
    if settings.curve:
        from hardsight.subsets.cost import curve_of  # with statistics, which take time to load

        subset.curve = curve_of(found, settings)
        if isinstance(settings.curve, str):
            subset.curve.save(settings.curve)
    if target is not None:
        subset.save(target)
    return subset


def _table(found: EligibleRows, rows: np.ndarray, reasons: list[str], settings: SelectSettings) -> pa.Table:
    by = {"by": found.by} if found.by else {}
    notes = {"version": VERSION, "method": settings.method, **by, "seed": settings.seed, "samples": len(found)}
    ids, kind = found.ids[rows], found.samples.source.id_type
    schema = pa.schema([("id", kind), ("reason", pa.string())], metadata={"hardsight": json.dumps(notes)})
    return pa.Table.from_arrays([pa.array(ids, kind), pa.array(reasons, pa.string())], schema=schema)

"""What a subset costs in accuracy: linear heads fitted to the features of smaller and smaller subsets, against random ones.

Fast, and a lower bound of the cost: the features come from a network that may have learned from all samples, so only the head
feels what is left out. To know the whole cost, train on the subset: `hardsight train --subset`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.places import place
from hardsight.files.writing import replacing
from hardsight.result import Result
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.screen import Cell, Sentence, ShownTable, interval, line, number, percent
from hardsight.stats import wilson
from hardsight.subsets.eligible import EligibleRows
from hardsight.subsets.methods import Picker
from hardsight.subsets.settings import SelectSettings
from hardsight.threads import even_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = (".png", ".pdf", ".svg")
HELD_OUT = 0.2  # of the samples, where no other split is there to test on
MOST_TESTED = 10_000
PARTS = (8, 4, 2, 1)  # the budget over each of these
WORDS = "accuracy of a linear head fitted to the subset"


class Curve(Result):
    """The curve as a table: subset, budget, accuracy, accuracy_low, accuracy_high; and what it was tested on."""

    def __init__(self, table: pa.Table, tested_on: str) -> None:
        super().__init__(table)
        self.tested_on = tested_on

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """The accuracy of every subset with its interval."""
        rows = [
            (row["subset"], number(row["budget"]), percent(row["accuracy"], digits=1),
             interval(row["accuracy_low"], row["accuracy_high"], 1, 100, ""))
            for row in self.table.to_pylist()
        ]  # fmt: skip
        yield line(f"{WORDS}, tested on {self.tested_on}")
        yield ShownTable("curve", ("subset", "samples", Cell("accuracy %", "accuracy"), Cell("95 %", "accuracy")), rows)

    def figures(self) -> dict[str, Figure]:
        """Accuracy against the size of the subset."""
        from hardsight.render.intervals import cost_figure

        return {"curve": cost_figure(self.table, WORDS)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a table, or as a figure: .png, .pdf or .svg."""
        target = place(path)
        if target.suffix.lower() not in FIGURES:
            super().save(path)
            return
        with replacing(target) as temporary:
            self.figures()["curve"].savefig(temporary, format=target.suffix[1:].lower())


def curve_of(found: EligibleRows, settings: SelectSettings) -> Curve:
    """The accuracy of heads that are fitted to an eighth, a quarter, a half and all of the budget, and to all candidates."""
    features, labels = found.samples.features, found.samples.labels
    if features is None:
        raise InputError(f"the curve is made of heads on features, and there are only {found.samples.source.evidence}.")
    if (found.labels < 0).any():
        raise InputError("the curve needs the labels of all samples that can be chosen, and some have none.")
    found, test, tested_on = _held_out(found, labels, features, settings.seed)
    assert settings.budget is not None
    budget = min(settings.budget, len(found))
    budgets = sorted({max(min(found.num_classes, budget), budget // part) for part in PARTS})
    subsets: list[tuple[str, np.ndarray]] = []
    for method in dict.fromkeys([settings.method, "random"]):
        choice = replace(settings, method=method, cut=None) if method == "random" else settings
        subsets += [(method, Picker(choice)(found, size)[0]) for size in budgets]
    subsets.append(("all", np.arange(len(found))))
    records = []
    with unconverged():
        for name, chosen in subsets:
            right = _right(features, labels, found.rows[chosen], test)
            low, high = wilson(int(right.sum()), len(right))
            bounds = {"accuracy_low": low, "accuracy_high": high}
            records.append({"subset": name, "budget": len(chosen), "accuracy": float(right.mean()), **bounds})
    return Curve(pa.Table.from_pylist(records), tested_on)


def _held_out(found: EligibleRows, labels: np.ndarray, features: np.ndarray, seed: int) -> tuple[EligibleRows, np.ndarray, str]:
    """The candidates without what is tested on, the rows to test on, and words for them."""
    usable = (labels >= 0) & np.isfinite(features).all(axis=1)
    found = found.take(np.flatnonzero(usable[found.rows]))
    others = usable.copy()
    others[found.rows] = False
    if others.sum() >= max(10, len(found) // 20):
        test = np.flatnonzero(others)
        test = test[even_rows(len(test), MOST_TESTED)]
        return found, test, f"{len(test)} samples outside of those to choose from"
    if len(found) < 2:
        raise InputError(f"the curve is tested on samples held out, and of {len(found)} samples none can be: leave out --curve.")
    drawn = np.random.default_rng([seed, 2**31]).permutation(len(found))
    out = drawn[: min(MOST_TESTED, max(1, int(HELD_OUT * len(found))))]
    return found.take(np.setdiff1d(drawn, out)), found.rows[out], f"{len(out)} samples held out at random"


def _right(features: np.ndarray, labels: np.ndarray, rows: np.ndarray, test: np.ndarray) -> np.ndarray:
    """(t,) whether a head fitted to some rows is right on each of the others."""
    if len(np.unique(labels[rows])) < 2:
        return np.asarray(labels[test] == labels[rows[0]])
    head = fit_head(features[rows], labels[rows], int(labels.max()) + 1)
    return np.asarray(to_numpy(head.logits(features[test])).argmax(axis=1) == labels[test])

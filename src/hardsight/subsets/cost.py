"""What a subset costs in accuracy: linear heads fitted to the features of smaller and smaller subsets, against random ones.

Fast, and a lower bound of the cost: the features come from a network that may have learned from all samples, so only the head
feels what is left out. To know the whole cost, train on the subset: `hardsight train --subset`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.places import Place
from hardsight.files.table_writing import FORMATS
from hardsight.files.writing import replacing
from hardsight.options import takes
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.snapshot import Snapshot
from hardsight.stats import wilson
from hardsight.subsets.methods import Picker
from hardsight.subsets.pool import Pool, open_pool
from hardsight.subsets.settings import SelectSettings
from hardsight.table import write_table
from hardsight.threads import even_rows

HELD_OUT = 0.2  # of the samples, where no other split is there to test on
MOST_TESTED = 10_000
PARTS = (8, 4, 2, 1)  # the budget over each of these
WORDS = "accuracy of a linear head fitted to the subset"


@dataclass(frozen=True)
class Curve:
    """The curve as a table: subset, budget, accuracy, accuracy_low, accuracy_high; and what it was tested on."""

    table: pa.Table
    tested_on: str


@takes(SelectSettings)
def cost_curve(source: Any, *, settings: SelectSettings | None = None, pool: Pool | None = None, **options: Any) -> Curve:
    """The accuracy of heads that are fitted to an eighth, a quarter, a half and all of the budget, and to all samples.

    Args:
        source: a run or a file by its path, or a `Snapshot`: features and labels.
        settings: of `select`, as one object; each is also a keyword of its own, see below.
        pool: the samples to choose among, if they are open already.
    """
    settings = SelectSettings.given(settings, options)
    snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source)
    if snapshot.source.evidence != "features":
        raise InputError(f"the curve is made of heads on features, and there are only {snapshot.source.evidence}.")
    pool = open_pool(snapshot, settings) if pool is None else pool
    if (pool.labels < 0).any():
        raise InputError("the curve needs the labels of all samples that can be chosen, and some have none.")
    rows = snapshot.in_memory()
    features, labels = to_numpy(rows.values), rows.labels
    pool, test, tested_on = _held_out(pool, labels, features, settings.seed)
    assert settings.budget is not None
    budget = min(settings.budget, len(pool))
    budgets = sorted({max(min(pool.num_classes, budget), budget // part) for part in PARTS})
    lines: list[tuple[str, np.ndarray]] = []
    for method in dict.fromkeys([settings.method, "random"]):
        choice = replace(settings, method=method, cut=None) if method == "random" else settings
        lines += [(method, _chosen(pool, choice, size)) for size in budgets]
    lines.append(("all", np.arange(len(pool))))
    records = []
    with unconverged():
        for name, chosen in lines:
            right = _right(features, labels, pool.rows[chosen], test)
            low, high = wilson(int(right.sum()), len(right))
            bounds = {"accuracy_low": low, "accuracy_high": high}
            records.append({"subset": name, "budget": len(chosen), "accuracy": float(right.mean()), **bounds})
    return Curve(pa.Table.from_pylist(records), tested_on)


def _chosen(pool: Pool, settings: SelectSettings, budget: int) -> np.ndarray:
    return Picker(settings)(pool, budget)[0]


def _held_out(pool: Pool, labels: np.ndarray, features: np.ndarray, seed: int) -> tuple[Pool, np.ndarray, str]:
    """The pool without what is tested on, the rows to test on, and words for them."""
    usable = (labels >= 0) & np.isfinite(features).all(axis=1)
    pool = pool.take(np.flatnonzero(usable[pool.rows]))
    others = usable.copy()
    others[pool.rows] = False
    if others.sum() >= max(10, len(pool) // 20):
        test = np.flatnonzero(others)
        test = test[even_rows(len(test), MOST_TESTED)]
        return pool, test, f"{len(test)} samples outside of those to choose from"
    if len(pool) < 2:
        raise InputError(f"the curve is tested on samples held out, and of {len(pool)} samples none can be: leave out --curve.")
    drawn = np.random.default_rng([seed, 2**31]).permutation(len(pool))
    out = drawn[: min(MOST_TESTED, max(1, int(HELD_OUT * len(pool))))]
    return pool.take(np.setdiff1d(drawn, out)), pool.rows[out], f"{len(out)} samples held out at random"


def _right(features: np.ndarray, labels: np.ndarray, rows: np.ndarray, test: np.ndarray) -> np.ndarray:
    """(t,) whether a head fitted to some rows is right on each of the others."""
    if len(np.unique(labels[rows])) < 2:
        return np.asarray(labels[test] == labels[rows[0]])
    head = fit_head(features[rows], labels[rows], int(labels.max()) + 1)
    return np.asarray(to_numpy(head.logits(features[test])).argmax(axis=1) == labels[test])


def write_curve(curve: Curve, path: Place) -> None:
    """As a table, or as a figure."""
    if path.suffix.lower() in FORMATS:
        write_table(curve.table, path)
        return
    from hardsight.render.subsets import cost_figure

    figure = cost_figure(curve.table, WORDS)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower())

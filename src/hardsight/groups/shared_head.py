"""One head for two snapshots that have none, so that the same feature is as hard in both.

A head fitted to each would differ between the two even where no feature does. So heads are fitted to folds of the first
snapshot, and every sample of either is scored by one that was not fitted to it: where nothing changed, both are scored alike.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scoring.score import FoldHeads, Job
from hardsight.snapshot import Snapshot


def no_head_of(snapshot: Snapshot) -> bool:
    """Whether there are features and labels, but no head."""
    return snapshot.head is None and snapshot.source.evidence == "features" and snapshot.source.labeled


def shared_heads(first: Snapshot, second: Snapshot, *, paired: bool) -> tuple[FoldHeads, FoldHeads]:
    """Heads fitted to the first snapshot, and which of them scores each sample of the first and of the second.

    Paired, a sample is scored by the same head in both. Unpaired, every class of the second is spread evenly over the folds.
    """
    labels = _labels(second)
    most, c = int(labels.max(initial=-1)), int(_labels(first).max(initial=-1)) + 1
    if most >= c:
        names = first.name or "the first snapshot", second.name or "the second snapshot"
        raise InputError(
            f"neither {names[0]} nor {names[1]} has a head, and one fitted to the first does not know class {most} of the second"
            ": give --head."
        )
    fitted = Job(first).fit_heads()
    if paired:
        at = pc.fill_null(pc.index_in(_ids(second), value_set=_ids(first)), 0)  # samples of one alone are left out later
        return fitted, FoldHeads(fitted.heads, fitted.fold_of[at.to_numpy()])
    held = first.in_memory()
    known = (held.labels >= 0) & np.isfinite(to_numpy(held.values)).all(axis=1)
    folds = int(fitted.fold_of[known].max()) + 1  # the head of all other rows was fitted to every known one
    fold_of = np.empty(len(second), np.int64)
    fold_of[np.argsort(labels, kind="stable")] = np.arange(len(second)) % folds
    return fitted, FoldHeads(fitted.heads, fold_of)


def _labels(snapshot: Snapshot) -> np.ndarray:
    return np.asarray(snapshot.columns(["label"]).column(0).fill_null(-1).to_numpy(), np.int64)


def _ids(snapshot: Snapshot) -> pa.Array:
    return snapshot.columns(["id"]).column(0).combine_chunks().cast(pa.string())

"""One head for two snapshots that have none: fitted to the first by cross-validation, it scores both."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.scoring.job import FoldHeads, Job
from hardsight.snapshot import Snapshot


def is_headless(samples: Snapshot) -> bool:
    """Whether there are features, but no head."""
    return samples.head is None and samples.source.evidence == "features"


def shared_heads(first: Snapshot, second: Snapshot, *, paired: bool) -> tuple[FoldHeads | None, FoldHeads | None]:
    """Heads fitted to the first snapshot, and which of them scores each sample of both; None where one has its own head.

    Paired, a sample is scored by the same head in both. Unpaired, every class of the second is spread evenly over the folds.
    """
    widths = first.source.width, second.source.width
    if not (is_headless(first) and is_headless(second)) or (paired and widths[0] != widths[1]):
        return None, None
    if widths[0] != widths[1]:
        raise InputError(
            f"different samples are compared by one model, but one has {widths[0]} features, the other {widths[1]}: "
            "leave out --unpaired."
        )
    _check_classes(first, second)
    fitted = Job(first).fit_heads()
    fold_of = _folds_by_id(first, second, fitted) if paired else _folds_by_class(first, second, fitted)
    return fitted, FoldHeads(fitted.heads, fold_of)


def _check_classes(first: Snapshot, second: Snapshot) -> None:
    """Refuse a class of the second snapshot that the first has not."""
    most = int(second.labels.max(initial=-1))
    if most > int(first.labels.max(initial=-1)):
        names = first.name or "the first snapshot", second.name or "the second snapshot"
        raise InputError(
            f"neither {names[0]} nor {names[1]} has a head, and one fitted to the first does not know class {most} of the second"
            ": give --head."
        )


def _folds_by_id(first: Snapshot, second: Snapshot, fitted: FoldHeads) -> np.ndarray:
    """(m,) the fold of each sample of the second in the first; any for one that is missing there, which is left out later."""
    ids = [pa.array(side.ids).cast(pa.string()) for side in (second, first)]
    return np.asarray(fitted.fold_of[pc.fill_null(pc.index_in(ids[0], value_set=ids[1]), 0).to_numpy()])


def _folds_by_class(first: Snapshot, second: Snapshot, fitted: FoldHeads) -> np.ndarray:
    """(m,) the samples of each class of the second in turn."""
    features = first.features
    assert features is not None
    known = (first.labels >= 0) & np.isfinite(features).all(axis=1)
    folds = int(fitted.fold_of[known].max()) + 1  # the head of all other rows was fitted to every known one
    fold_of = np.empty(len(second), np.int64)
    fold_of[np.argsort(second.labels, kind="stable")] = np.arange(len(second)) % folds
    return fold_of

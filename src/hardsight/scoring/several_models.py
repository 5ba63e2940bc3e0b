"""The probabilities of several models for the same samples, joined by id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.samples import Batch
from hardsight.scores.ensembles import model_agreement
from hardsight.scores.sweep import Sweep
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks

TABLE = 2**20  # probabilities per model in memory at a time


class SeveralModels:
    """Snapshots of several models, whose rows may be in different orders."""

    def __init__(self, own: Snapshot, others: tuple[Snapshot, ...], rows: range) -> None:
        """Args: the snapshot, the others, and the requested rows: each model must have some of them."""
        self.own, self.others = own, others
        self.ids = [other.columns(["id"]).column("id").combine_chunks() for other in others]
        wanted = own.columns(["id"]).column("id").slice(rows.start, len(rows)).combine_chunks()
        for number, other in enumerate(others):
            name, kinds = other.name or "the other model", (self.ids[number].type, own.source.id_type)
            if kinds[0] != kinds[1]:
                raise InputError(f"{name}: its ids are {kinds[0]}, those of this model {kinds[1]}.")
            if len(wanted) and (self._places(wanted, number) < 0).all():
                raise InputError(f"{name} has none of the ids of {own.name or 'this snapshot'}.")

    def agreement(self, batch: Batch, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) agreement on each row; NaN if one of the models lacks it."""
        result = np.full(len(batch), np.nan)
        ids = pa.array(batch.ids, type=self.own.source.id_type)
        rows_of_others = [self._places(ids, number) for number in range(len(self.others))]  # (b,) each
        scored = np.flatnonzero(rows.ok & np.all([at >= 0 for at in rows_of_others], axis=0))
        for part in blocks(len(scored), max(1, TABLE // (self.own.num_classes or 1))):
            at = scored[part]
            tables = [_probabilities(self.own, to_numpy(x)[at])]
            tables += [_probabilities(other, _rows(other, of[at])) for other, of in zip(self.others, rows_of_others, strict=True)]
            result[at] = model_agreement(tables)
        return result

    def _places(self, ids: pa.Array, number: int) -> np.ndarray:
        """(b,) row of each id in another model's snapshot, -1 if it is missing."""
        return pc.fill_null(pc.index_in(ids, value_set=self.ids[number]), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _rows(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Some rows of a snapshot's values; consecutive rows are read together."""
    if len(rows) and (np.diff(rows) == 1).all():
        return to_numpy(snapshot.in_memory(int(rows[0]), int(rows[-1]) + 1).values)
    return to_numpy(snapshot.take(rows).in_memory().values)


def _probabilities(snapshot: Snapshot, values: np.ndarray) -> np.ndarray:
    """(b, c) float64 probabilities from whatever a snapshot holds; NaN for rows that are not finite."""
    from scipy.special import softmax  # not needed to open a table

    values = values.astype(np.float64)
    if snapshot.source.evidence == "probs":
        return values
    finite = np.isfinite(values).all(1, keepdims=True)
    values = np.where(finite, values, 0.0)
    if snapshot.source.evidence == "features":
        assert snapshot.head is not None
        values = snapshot.head.logits(values)
    return np.where(finite, softmax(values, axis=1), np.nan)

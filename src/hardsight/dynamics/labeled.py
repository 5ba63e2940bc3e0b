"""The labeled, finite samples of a snapshot or of arrays, on which dataset-level metrics are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.snapshot import Snapshot
from hardsight.threads import even_rows


@dataclass(frozen=True)
class Labeled:
    """n samples with a label and finite features."""

    features: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,)
    head: Head | None = None

    def unit(self) -> Labeled:
        """The samples that have a direction, normalized to length 1 in float64."""
        x = self.features.astype(np.float64)
        largest = np.abs(x).max(axis=1, initial=0.0)
        rows = np.flatnonzero(largest > 0)
        x = x[rows] / largest[rows, None]  # only directions count: rescaled so that 1e300 does not overflow
        return Labeled(x / np.linalg.norm(x, axis=1)[:, None], self.labels[rows], self.head)

    def subsample(self, limit: int | None) -> Labeled:
        """An even subsample."""
        rows = even_rows(len(self.labels), limit)
        return Labeled(self.features[rows], self.labels[rows], self.head)


def labeled_features(
    source: Any = None, *, features: Any = None, labels: Any = None, head: Any = None, all_samples: bool = False
) -> Labeled:
    """The samples of a Snapshot, of a path to one, or of arrays.

    Samples that are not finite are left out, and unlabeled ones too, unless `all_samples` is set.
    """
    if source is None:
        if features is None:
            raise InputError("pass a snapshot, or features and labels.")
        source = Snapshot(features, head, labels)
    elif features is not None or labels is not None:
        raise InputError("pass a snapshot or arrays, not both.")
    snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source, head=head)
    where = f"{snapshot.name}: " if snapshot.name else ""
    if snapshot.source.evidence != "features":
        raise InputError(f"{where}this needs features, but there are only {snapshot.source.evidence}.")
    batch = snapshot.in_memory()
    x = to_numpy(batch.values)
    if not all_samples and (not snapshot.source.labeled or (batch.labels < 0).all()):
        raise InputError(f"{where}no sample has a label: pass labels.")
    rows = np.flatnonzero(((batch.labels >= 0) | all_samples) & np.isfinite(x).all(axis=1))
    if len(rows) == 0:
        raise InputError(f"{where}no sample has finite features.")
    return Labeled(x[rows], batch.labels[rows], snapshot.head)

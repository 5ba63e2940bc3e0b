"""Near duplicates and outliers, from features alone.

    near duplicate   the nearest other sample is at most 0.13 times as far as is usual (found in scores/duplicates.py)
    outlier          the tenth nearest of up to 2,000 samples is further away than the third quartile plus three times the
                     distance between the quartiles (Tukey's "far out")

Distances are between unit vectors. Every pair is compared for duplicates. How far a sample is from the others is seen as well
from an even subsample of them (Sugiyama & Borgwardt, NeurIPS 2013); the same search gives the ten whose labels evidence.py
counts. Copies of one sample count once among them, and never for each other: a copy has the same wrong label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardsight.scores.duplicates import Repeats, directions, find_repeats, first_rows
from hardsight.screen import Progress
from hardsight.threads import blocks, even_rows, share

K, SAMPLE = 10, 2000
FAR_OUT = 3.0  # quartile distances beyond the third quartile
QUERIES = 512


@dataclass(frozen=True)
class Nearby:
    """The ten nearest of a subsample, for n samples."""

    rows: np.ndarray  # (n, k) which they are, nearest first; -1 for none
    distance: np.ndarray  # (n,) to the last of them, NaN unknown

    def take(self, rows: np.ndarray) -> Nearby:
        """Distances of some samples, or of all in another order; which the neighbors are is no longer known."""
        return Nearby(np.full((len(rows), self.rows.shape[1]), -1), self.distance[rows])

    @cached_property
    def far(self) -> np.ndarray:
        """(n,) whether a sample is an outlier."""
        with np.errstate(invalid="ignore"):
            return self.distance > far_out(self.distance)


@dataclass(frozen=True)
class Neighborhood:
    """What n samples are near to, and how far from the others they are."""

    nearby: Nearby
    repeats: Repeats
    leaked: Repeats | None = None  # near duplicates of samples of a reference
    reference_ids: Sequence[str] = ()  # (m,) of that reference
    originals: np.ndarray | None = None  # (n,) the row that stands for each sample: `Repeats.originals`

    @cached_property
    def repeated(self) -> np.ndarray:
        """(n,) whether a sample is a near duplicate of another before it, or of one in the reference."""
        return self.repeats.repeated if self.leaked is None else self.repeats.repeated | self.leaked.repeated


def find_neighborhood(features: np.ndarray, labels: np.ndarray, folds: int, progress: Progress) -> Neighborhood:
    """Near duplicates and neighbors of (n, d) features; copies of a sample are together in one of the folds."""
    progress(0, "searching duplicates")
    repeats = find_repeats(features)
    originals = repeats.originals(labels, folds)
    progress(1, "searching neighbors")
    return Neighborhood(find_nearby(features, originals=originals), repeats, originals=originals)


def find_nearby(features: np.ndarray, reference: np.ndarray | None = None, originals: np.ndarray | None = None) -> Nearby:
    """The ten nearest of up to 2,000 other samples, or of the reference: (n, d), (m, d).

    Of samples that share a number of the (n,) `originals`, the first stands for all, and is no neighbor of any of them.
    """
    from hardsight.scores.search import Candidates

    own = directions(features, "features")
    among = own if reference is None else directions(reference, "reference")
    first = np.arange(len(features)) if originals is None else first_rows(originals)  # (n,)
    distinct = np.arange(len(among.rows)) if reference is not None else np.flatnonzero(first[own.rows] == own.rows)
    sample = distinct[even_rows(len(distinct), SAMPLE)]
    distance, nearest = np.full(len(features), np.nan), np.full((len(features), K), -1)
    k = min(K, len(sample) - (reference is None))
    if k < 1:
        return Nearby(nearest, distance)
    candidates = Candidates()
    candidates.add(among.unit[sample], among.rows[sample])

    def work(part: slice) -> None:
        rows = own.rows[part]
        similarity, neighbors = candidates.nearest(own.unit[part], k, first[rows] if reference is None else None)
        nearest[rows, :k] = neighbors
        distance[rows] = np.sqrt(np.maximum(2 - 2 * similarity[:, -1].astype(np.float64), 0.0))

    share(work, blocks(len(own.rows), QUERIES))
    return Nearby(nearest, distance)


def far_out(distance: np.ndarray) -> float:
    """The distance beyond which a sample is an outlier."""
    known = distance[np.isfinite(distance)]
    if len(known) == 0:
        return float("inf")
    low, high = np.quantile(known, [0.25, 0.75])
    return float(high + FAR_OUT * max(high - low, 1e-6))  # the same features over and over have no spread

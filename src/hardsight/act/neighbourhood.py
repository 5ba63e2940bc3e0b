"""Near duplicates and outliers, from features alone: labels play no part.

    near duplicate   the nearest other sample is at most 0.13 times as far as is usual (`scores.duplicates`)
    outlier          the tenth nearest of up to 5,000 samples is further away than the third quartile plus three times the
                     distance between the quartiles (Tukey's "far out")

Distances are between unit vectors. Every pair is compared for duplicates. How far a sample is from the others is seen as well
from an even subsample of them (Sugiyama & Borgwardt, NeurIPS 2013), at a tenth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.threads import blocks, even_rows, share

K, SAMPLE = 10, 5000
FAR_OUT = 3.0  # quartile distances beyond the third quartile
QUERIES = 512


@dataclass(frozen=True)
class Neighbourhood:
    """What n samples are near to, and how far from the others they are."""

    nearest: np.ndarray  # (n,) row of the nearest other sample, or of the reference; -1 unknown
    nearest_distance: np.ndarray  # (n,)
    repeats: np.ndarray  # (n,) bool: a near duplicate of a sample before it, or of one in the reference
    in_reference: bool  # whether `nearest` counts rows of the reference
    distance: np.ndarray  # (n,) to the tenth nearest of the subsample, NaN unknown
    limit: float  # of an outlier

    @property
    def far(self) -> np.ndarray:
        """(n,) whether a sample is an outlier."""
        with np.errstate(invalid="ignore"):
            return self.distance > self.limit


def neighbourhood(features: np.ndarray, reference: np.ndarray | None = None) -> Neighbourhood:
    """Neighbours of (n, d) features among themselves, or in an (m, d) reference."""
    from hardsight.scores.duplicates import near_duplicates

    found = near_duplicates(features, reference)
    distance = distance_to_others(features, reference)
    repeats = found.near if reference is not None else found.near & ~_first_of_group(found.group)
    return Neighbourhood(found.nearest, found.distance, np.asarray(repeats), reference is not None, distance, far_out(distance))


def _first_of_group(group: np.ndarray) -> np.ndarray:
    """(n,) whether a row is the first of its group; -1 is none.

    Example:
        >>> _first_of_group(np.array([-1, 0, 1, 0, 1]))
        array([False,  True,  True, False, False])
    """
    first = np.zeros(len(group), dtype=bool)
    numbers, at = np.unique(group, return_index=True)
    first[at[numbers >= 0]] = True
    return first


def distance_to_others(features: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """(n,) distance between unit vectors to the tenth nearest of up to 5,000 other samples, or of the reference."""
    from hardsight.scores.search import Candidates

    rows, unit = _directions(features)
    among_rows, among = (rows, unit) if reference is None else _directions(reference)
    sample = even_rows(len(among), SAMPLE)
    candidates = Candidates()
    candidates.add(among[sample], among_rows[sample])
    result = np.full(len(features), np.nan)
    k = min(K, len(sample) - (reference is None))
    if k < 1:
        return result

    def work(part: slice) -> None:
        similarity, _ = candidates.nearest(unit[part], k, rows[part] if reference is None else None)
        result[rows[part]] = np.sqrt(np.maximum(2 - 2 * similarity[:, -1].astype(np.float64), 0.0))

    share(work, blocks(len(rows), QUERIES))
    return result


def far_out(distance: np.ndarray) -> float:
    """The distance beyond which a sample is an outlier."""
    known = distance[np.isfinite(distance)]
    if len(known) == 0:
        return float("inf")
    low, high = np.quantile(known, [0.25, 0.75])
    return float(high + FAR_OUT * max(high - low, 1e-6))  # the same features over and over have no spread


def _directions(features: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of (n, d) that have a direction, and their unit vectors in float32."""
    from hardsight.geometry import safe_row_norms

    with np.errstate(invalid="ignore", over="ignore"):
        norm = safe_row_norms(np.asarray(features, dtype=np.float64), np)
        rows = np.flatnonzero(np.isfinite(norm) & (norm > 0))
        return rows, (features[rows] / norm[rows, None]).astype(np.float32)

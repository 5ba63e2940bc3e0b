"""Features of the same few samples in every epoch, and the dataset-level metrics computed from them.

Collapse and cosines describe sets, not samples: they need features, which a run does not keep. So the tracker keeps the
features of up to 2,048 samples of each split (16 of each class, if there are many), the same in every epoch, chosen by a
hash of their id. At the end of the epoch it computes the metrics and drops the features. The overhead is a hash per id and a
copy of a few rows per batch, and a few milliseconds per epoch.
"""

from __future__ import annotations

import io
import math
import zlib
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.dynamics.collapse import Labeled, measured_collapse, measured_cosines
from hardsight.head import Head
from hardsight.threads import take

KEPT, PER_CLASS = 2048, 16
NUMBERS = 2**24  # limit for all kept features: 64 MB
PAIRS_OF = 512  # samples to form pairs from


class KeptFeatures:
    """The kept features of one split at one moment: the samples with the smallest hashes."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # hash, id, label, features
        self.size, self.highest, self.classes = 0, 2**32, 0
        self.head: Head | None = None

    def add(self, ids: np.ndarray, labels: np.ndarray, features: Any) -> None:
        """Add a batch: (b,) ids and labels, (b, d) features."""
        self.classes = max(self.classes, int(labels.max(initial=-1)) + 1)
        number = hashes(ids)
        chosen = np.flatnonzero((number < self.highest) & (labels >= 0))
        if len(chosen) == 0:
            return
        x = np.array(to_numpy(take(features, chosen)), np.float32)
        self.parts.append((number[chosen], np.asarray(ids)[chosen].astype(str), labels[chosen], x))
        self.size += len(chosen)
        if self.size > 2 * self.most:
            self._shrink()

    @property
    def most(self) -> int:
        """How many are kept."""
        d = self.parts[0][3].shape[1] if self.parts else 1
        return max(2, min(max(KEPT, PER_CLASS * self.classes), NUMBERS // max(1, d)))

    def _shrink(self) -> None:
        if not self.parts:
            return
        number, ids, labels, x = (np.concatenate(columns) for columns in zip(*self.parts, strict=True))
        order = np.lexsort((ids, number))  # stable: the first row of a repeated id comes first
        order = order[np.concatenate([[True], ids[order][1:] != ids[order][:-1]])][: self.most]
        self.parts = [(number[order], ids[order], labels[order], x[order])]
        self.size = len(order)
        if len(order) == self.most:
            self.highest = int(number[order[-1]]) + 1

    def join(self, other: KeptFeatures) -> None:
        """Add what another process kept."""
        self.parts += other.parts
        self.classes = max([self.classes, *(int(part[2].max(initial=-1)) + 1 for part in other.parts)])

    def as_arrays(self) -> list[np.ndarray]:
        """Hashes, ids, labels and features; empty if no sample was kept."""
        self._shrink()
        return list(self.parts[0]) if self.parts else []

    def measures(self) -> dict[str, Any]:
        """The metrics by name, for JSON: six digits, None if undefined, and histograms as lists."""
        self._shrink()
        if not self.parts:
            return {}
        _, _, labels, x = self.parts[0]
        finite = np.isfinite(x).all(axis=1)
        samples = Labeled(x[finite], labels[finite], self.head)
        if len(samples.labels) < 2:
            return {}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            cosines, histograms = measured_cosines(samples, PAIRS_OF)
            numbers = {**measured_collapse(samples), **cosines}
        return {"measured": len(samples.labels), **{name: _short(value) for name, value in numbers.items()}, **histograms}


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def hashes(ids: np.ndarray) -> np.ndarray:
    """(n,) hashes below 2^32 that depend on the id alone; a number and its text have the same hash.

    Example:
        >>> bool((hashes(np.array([7, 8])) == hashes(np.array(["7", "8"]))).all())
        True
    """
    return np.fromiter((zlib.crc32(str(id).encode()) for id in ids), np.int64, len(ids))


def to_bytes(kept: dict[str | None, KeptFeatures]) -> bytes:
    """Serialized for another process: arrays by split, without pickle."""
    arrays: dict[str, np.ndarray] = {"splits": np.array([split or "" for split in kept], dtype=str)}
    for number, features in enumerate(kept.values()):
        arrays |= {f"{number}_{at}": array for at, array in enumerate(features.as_arrays())}
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def from_bytes(content: bytes) -> dict[str | None, KeptFeatures]:
    """The inverse of `to_bytes`."""
    kept: dict[str | None, KeptFeatures] = {}
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for number, split in enumerate(arrays["splits"].tolist()):
            features = kept[split or None] = KeptFeatures()
            if f"{number}_0" in arrays:
                features.parts = [tuple(arrays[f"{number}_{at}"] for at in range(4))]
    return kept

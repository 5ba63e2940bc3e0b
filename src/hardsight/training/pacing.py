"""A curriculum: which samples are trained on in which epoch.

Samples are ordered, easy or hard first, and each epoch is one pass over a part of them, which grows until it includes all
of them. Within an epoch the order is random. Ranks are taken within each class, so that every part holds the classes in
their proportions: the easiest tenth of all samples would often be a few classes alone.

    u = (epoch - 1) / pace_epochs, at most 1        b = pace_start, the share of the first epoch
    linear      b + (1 - b) u
    root        sqrt(b^2 + (1 - b^2) u)             faster at first (Platanios et al., NAACL 2019)
    geometric   b^(1 - u)                           slower at first
    step        b until u = 1, then all

An epoch with fewer samples has fewer steps. To see what the order does, compare with the order `random`: it makes as many.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.training.settings import PacingOptions


@dataclass(frozen=True)
class Pacing:
    """How fast the part grows."""

    kind: str = "linear"
    start: float = 0.2
    epochs: float = 5.0  # until all samples are in

    @classmethod
    def of(cls, options: PacingOptions, epochs: int) -> Pacing:
        """That of a training of `epochs` epochs; by default the part grows in the first half."""
        return cls(options.pacing, options.pace_start, epochs / 2 if options.pace_epochs is None else options.pace_epochs)

    def share(self, epoch: int) -> float:
        """The share of the samples in an epoch, counted from 1.

        Example:
            >>> [round(Pacing("linear", 0.2, 4).share(epoch), 6) for epoch in (1, 3, 5, 9)]
            [0.2, 0.6, 1.0, 1.0]
        """
        b, u = self.start, min(1.0, (epoch - 1) / self.epochs) if self.epochs else 1.0
        if u >= 1:
            return 1.0
        if self.kind == "root":
            return math.sqrt(b**2 + (1 - b**2) * u)
        return {"linear": b + (1 - b) * u, "geometric": b ** (1 - u), "step": b}[self.kind]

    def size(self, epoch: int, n: int) -> int:
        """The same as a number of n samples, at least one."""
        return min(n, max(1, math.ceil(round(self.share(epoch) * n, 6))))


def ordered(hardness: np.ndarray, labels: np.ndarray, hard_first: bool = False) -> np.ndarray:
    """(n,) rows in the order in which they are let in: by the rank within their class, from the easiest to the hardest.

    Args:
        hardness: (n,) higher is harder; NaN where nothing is known, which counts as hardest.
        labels: (n,) class of each; -1 for unlabeled is one more class.
        hard_first: the other way round.

    Example:
        >>> ordered(np.array([0.9, 0.1, 0.5, 0.7]), np.array([0, 0, 1, 1]))  # the easier of each class, then the harder
        array([1, 2, 3, 0])
    """
    key = np.where(np.isnan(hardness), np.inf, hardness)
    key = -key if hard_first else key
    rank = np.empty(len(key))
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        rank[mine[np.argsort(key[mine], kind="stable")]] = (np.arange(len(mine)) + 0.5) / len(mine)
    return np.lexsort((key, rank))


class Curriculum:
    """The rows of every epoch.

    Args:
        labels: (n,) class of each training sample.
        order: easy-first, hard-first, random or self-paced.
        pacing: how fast the part grows.
        hardness: (n,) higher is harder; for self-paced it is given anew in every epoch, by `update`.
        seed: of the order random.
    """

    def __init__(self, labels: np.ndarray, order: str, pacing: Pacing, hardness: np.ndarray | None = None, seed: int = 0) -> None:
        self.labels, self.order, self.pacing = labels, order, pacing
        if order == "random":
            hardness = np.random.default_rng([seed, 2**31]).random(len(labels))
        self.rows: np.ndarray | None = None
        if hardness is not None and order != "self-paced":
            self.rows = ordered(hardness, labels, order == "hard-first")

    def __len__(self) -> int:
        return len(self.labels)

    def update(self, hardness: np.ndarray) -> None:
        """Order the samples by what the network finds easy now: (n,)."""
        self.rows = ordered(hardness, self.labels)

    def part(self, epoch: int) -> np.ndarray:
        """Rows of an epoch, counted from 1, in the order in which they were let in."""
        n = len(self)
        size = self.pacing.size(epoch, n)
        return np.arange(n) if size == n or self.rows is None else self.rows[:size]

    def fingerprint(self) -> dict[str, Any]:
        """What a resumed run must find again."""
        rows = b"" if self.rows is None else self.rows.astype(np.int64).tobytes()
        return {"order": self.order, "count": len(self), "sha256": hashlib.sha256(rows).hexdigest()}

"""How well a score tells inputs of unseen classes from those of known ones: the area under the ROC curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import rankdata

from hardsight.checks import to_numpy
from hardsight.errors import InputError


@dataclass(frozen=True)
class Auroc:
    """The chance that an unseen input looks harder than a known one; 0.5 is a guess."""

    value: float
    low: float
    high: float
    known: int
    unseen: int


def auroc(known: Any, unseen: Any, level: float = 0.95) -> Auroc:
    """AUROC of a score that is high on unseen inputs, with DeLong's interval; equal values count half.

    Example:
        >>> auroc([0.0, 1.0, 2.0, 3.0], [2.0, 4.0]).value  # 6.5 of 8 pairs, a tie being half a pair
        0.8125
    """
    known, unseen = (np.asarray(to_numpy(x), dtype=np.float64) for x in (known, unseen))
    for array, name in ((known, "known"), (unseen, "unseen")):
        if array.ndim != 1 or len(array) < 2:
            raise InputError(f"{name} must be (n,) scores of at least two inputs, got shape {array.shape}.")
        if not np.isfinite(array).all():
            raise InputError(f"{name} must be finite; row {int(np.flatnonzero(~np.isfinite(array))[0])} is not.")
    m, n = len(known), len(unseen)
    rank = rankdata(np.concatenate([known, unseen]))
    beaten = (rank[m:] - rankdata(unseen)) / m  # (n,) share of known inputs below each unseen one
    beating = 1 - (rank[:m] - rankdata(known)) / n  # (m,) share of unseen inputs above each known one
    value = float(beaten.mean())
    error = math.sqrt(beaten.var(ddof=1) / n + beating.var(ddof=1) / m)
    half = float(-special.ndtri((1 - level) / 2)) * error
    return Auroc(value, max(0.0, value - half), min(1.0, value + half), m, n)

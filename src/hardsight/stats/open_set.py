"""How well a score separates inputs of unseen classes from known ones: the area under the ROC curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.stats.coefficients import normal_quantile


@dataclass(frozen=True)
class Auroc:
    """The probability that an unseen input looks harder than a known one; 0.5 is chance level."""

    value: float
    low: float
    high: float
    known: int
    unseen: int


def auroc(known: Any, unseen: Any, level: float = 0.95, *, made_from: Any = None) -> Auroc:
    """AUROC of a score that is high on unseen inputs, with DeLong's interval; ties count half.

    Args:
        made_from: the known input that each unseen one was made from, if all were. The two are then correlated, and the
            interval counts each pair as one draw (Obuchowski, Biometrics 1997).

    Example:
        >>> auroc([0.0, 1.0, 2.0, 3.0], [2.0, 4.0]).value  # 6.5 of 8 pairs, a tie being half a pair
        0.8125
    """
    from scipy.stats import rankdata  # takes a second to import

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
    if made_from is None:
        error = math.sqrt(beaten.var(ddof=1) / n + beating.var(ddof=1) / m)
    else:
        pull = (beating - value) / m  # (m,) contribution of each known input, with those made from it
        np.add.at(pull, _checked_rows(made_from, m, n), (beaten - value) / n)
        error = math.sqrt((pull**2).sum() * m / (m - 1))
    half = normal_quantile(level) * error
    return Auroc(value, max(0.0, value - half), min(1.0, value + half), m, n)


def _checked_rows(rows: Any, known: int, unseen: int) -> np.ndarray:
    rows = np.asarray(rows)
    if rows.shape != (unseen,) or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= known:
        raise InputError(f"made_from must name one of the {known} known inputs, from 0 on, for each of the {unseen} unseen ones.")
    return rows

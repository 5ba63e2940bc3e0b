"""The running numbers of one block of samples while tiles of classes go by: (b,) arrays, changed in place.

A block starts empty, absorbs the angles and the logits of one tile after another, and is stored at its rows in the
result. Only what the requested terms need is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from hardsight.checks import is_tensor, namespace, to_numpy
from hardsight.geometry import NEAR_PI, NEAR_ZERO_ANGLE, row_norms
from hardsight.scores.terms import ANGLES, EVERYTHING, MOMENT, NEAREST, NOBIAS, NONFINITE_LOGIT, SOFTMAX, SQUARES, STATUSES
from hardsight.threads import like

AnglesAt = Callable[[tuple[Any, ...]], Any]  # the angles at some rows and columns of a tile

FLOOR = -40.0  # logits this far below the best other one count for 4e-18: kept out of the slow denormal range

_ANGULAR = frozenset({ANGLES, NEAREST})
_SUMS = frozenset({SOFTMAX, SQUARES, MOMENT, NOBIAS})
# Running number: what it starts from, and the terms that ask for it.
_RUNNING: dict[str, tuple[float, frozenset[str]]] = {
    "angle_sum": (0.0, _ANGULAR),
    "own_angle": (np.nan, _ANGULAR),
    "other_angle": (np.nan, EVERYTHING - _ANGULAR),
    "nearest_angle": (np.inf, frozenset({NEAREST})),
    "own_logit": (np.nan, EVERYTHING - _ANGULAR),
    "other_logit": (-np.inf, EVERYTHING - _ANGULAR),
    "other_sum": (0.0, _SUMS),
    "other_squares": (0.0, frozenset({SQUARES})),
    "other_moment": (0.0, frozenset({MOMENT})),
    "nobias": (0.0, frozenset({NOBIAS})),
}


def empty_columns(n: int, terms: frozenset[str]) -> dict[str, Any]:
    """The (n,) columns of the result; those that no term needs are NaN and take no memory."""
    requested = {name: terms & by for name, (_, by) in _RUNNING.items()}
    requested |= {"predicted_angle": requested.pop("other_angle"), "nobias_confidence": requested.pop("nobias")}
    columns: dict[str, Any] = {
        name: np.full(n, np.nan) if wanted else np.broadcast_to(np.nan, (n,)) for name, wanted in requested.items()
    }
    columns["code"] = np.zeros(n, dtype=np.int8)
    columns["predicted"] = np.full(n, -1, dtype=np.int64)
    columns["norm"] = np.full(n, np.nan)
    return columns


class Running:
    """The running numbers of a block of samples by name, and its (b,) given classes; `rows` views a part of it."""

    def __init__(self, numbers: dict[str, Any], own: Any) -> None:
        self.numbers, self.own = numbers, own

    @classmethod
    def start(cls, x: Any, own: Any, terms: frozenset[str]) -> Running:
        """The numbers of a block x before its first tile."""
        xp, b = namespace(x), len(x)
        numbers = {
            name: xp.full((b,), value, dtype=x.dtype, device=x.device) for name, (value, by) in _RUNNING.items() if terms & by
        }
        if terms - _ANGULAR:
            numbers["other_index"] = xp.zeros((b,), dtype=xp.int64, device=x.device)
        return cls(numbers, own)

    def rows(self, rows: slice) -> Running:
        """A view of some rows: what they absorb, the block has absorbed."""
        return Running({name: values[rows] for name, values in self.numbers.items()}, self.own[rows])

    def own_entries(self, first: int, width: int, xp: ModuleType) -> tuple[Any, Any]:
        """Row and column of each given class that lies in the tile of classes first, first + 1, ..."""
        inside = (self.own >= first) & (self.own < first + width)
        if inside.all():
            return xp.arange(len(self.own), device=self.own.device), self.own - first
        rows = xp.where(inside)[0]
        return rows, self.own[rows] - first

    def absorb_angles(self, theta: Any, first: int) -> None:
        """A (b, t) tile of angles into the sum, the own and the nearest."""
        xp, numbers = namespace(theta), self.numbers
        mine = self.own_entries(first, theta.shape[1], xp)
        kept = theta[mine]
        numbers["own_angle"][mine[0]] = kept
        numbers["angle_sum"] += theta.sum(1)
        if "nearest_angle" in numbers:
            theta[mine] = float("inf")
            numbers["nearest_angle"][...] = xp.minimum(numbers["nearest_angle"], xp.amin(theta, axis=1))
            theta[mine] = kept

    def absorb_cosines(self, cosine: Any, first: int, angles: AnglesAt) -> None:
        """A (b, t) tile of cosines into the own and the nearest angle: the smallest angle has the largest cosine."""
        xp, numbers = namespace(cosine), self.numbers
        mine = self.own_entries(first, cosine.shape[1], xp)
        numbers["own_angle"][mine[0]] = xp.asarray(angles(mine), dtype=cosine.dtype)
        if "nearest_angle" in numbers:
            kept = cosine[mine]
            cosine[mine] = float("-inf")
            largest = xp.amax(cosine, axis=1)  # (b,), -inf where a tile holds the given class alone
            there = xp.isfinite(largest)  # rounding may have carried a cosine past -1
            smallest = xp.where(there, xp.arccos(xp.clip(largest, -1.0, 1.0)), float("inf"))
            close = xp.where((largest > NEAR_ZERO_ANGLE) | ((largest < NEAR_PI) & there))[0]
            if len(close):  # as `angles` has them, from the vectors
                smallest[close] = xp.asarray(angles((close, _argmax(cosine[close]))), dtype=cosine.dtype)
            cosine[mine] = kept
            numbers["nearest_angle"][...] = xp.minimum(numbers["nearest_angle"], smallest)

    def absorb_logits(self, logits: Any, first: int, exps: Any, angles: AnglesAt | None = None, unbias: Any = None) -> None:
        """A (b, t) tile of logits into the running softmax over the other classes; `logits` and `exps` are overwritten."""
        xp, numbers = namespace(logits), self.numbers
        mine = self.own_entries(first, logits.shape[1], xp)
        numbers["own_logit"][mine[0]] = logits[mine]
        logits[mine] = float("-inf")
        before = numbers["other_logit"]
        if first == 0:  # all rows are better than none: one pass finds the column and the value
            better, column = xp.arange(len(logits), device=logits.device), _argmax(logits)
            largest = logits[better, column]  # (b,)
        else:
            largest = xp.amax(logits, axis=1)
            better = xp.where(largest > before)[0]
            column = _argmax(logits[better])
        if len(better):
            numbers["other_index"][better] = column + first
            if angles is not None:
                numbers["other_angle"][better] = xp.asarray(angles((better, column)), dtype=logits.dtype)
        top = xp.maximum(before, largest)
        if "other_sum" in numbers:
            self._absorb_softmax(logits, top, mine, exps, unbias)
        numbers["other_logit"][...] = top

    def _absorb_softmax(self, logits: Any, top: Any, mine: Any, exps: Any, unbias: Any) -> None:
        """The sums over the other classes, moved from the largest logit before this tile to the largest with it, `top`."""
        xp, numbers = namespace(logits), self.numbers
        before = numbers["other_logit"]
        anchor = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # a tile may hold the given class alone
        shrink = xp.exp(before - anchor)  # what earlier tiles' sums are multiplied by
        xp.subtract(logits, anchor[:, None], out=logits)
        logits[mine] = 0.0
        if not logits.min() >= FLOOR:  # rarely: looking is cheaper than clipping
            xp.clip(logits, FLOOR, None, out=logits)
        xp.exp(logits, out=exps)
        exps[mine] = 0.0
        if "other_moment" in numbers:
            step = xp.where(xp.isfinite(before), before - anchor, xp.zeros_like(before))
            moved = shrink * (numbers["other_moment"] + step * numbers["other_sum"])
            numbers["other_moment"][...] = moved + _row_products(logits, exps)
        numbers["other_sum"][...] = shrink * numbers["other_sum"] + exps.sum(1)
        if unbias is not None:
            numbers["nobias"][...] = shrink * numbers["nobias"] + exps @ unbias
        if "other_squares" in numbers:
            numbers["other_squares"][...] = shrink**2 * numbers["other_squares"] + row_norms(exps, xp) ** 2

    def store(self, columns: dict[str, Any], at: Any) -> None:
        """Write the block's numbers at rows `at` of the result, sums relative to the largest of all logits."""
        index = self.numbers.pop("other_index", None)
        done = {name: to_numpy(values).astype(np.float64) for name, values in self.numbers.items()}
        for name in ("angle_sum", "own_angle"):
            if name in done:
                columns[name][at] = done[name]
        if "nearest_angle" in done:
            columns["nearest_angle"][at] = np.where(np.isfinite(done["nearest_angle"]), done["nearest_angle"], np.nan)
        if index is None:
            return
        own, index = to_numpy(self.own), to_numpy(index)
        own_logit, other_logit = done["own_logit"], done["other_logit"]
        wins = (own_logit > other_logit) | ((own_logit == other_logit) & (own < index))  # the first among equals
        columns["predicted"][at] = np.where(wins, own, index)
        columns["predicted_angle"][at] = np.where(wins, done["own_angle"], done["other_angle"]) if "own_angle" in done else np.nan
        columns["own_logit"][at], columns["other_logit"][at] = own_logit, other_logit
        with np.errstate(over="ignore", invalid="ignore"):
            too_far = np.isfinite(other_logit) & ~np.isfinite(own_logit - other_logit)
        broken = ~np.isfinite(own_logit) | np.isnan(other_logit) | (other_logit == np.inf) | too_far
        columns["code"][at] = np.where(broken, STATUSES.index(NONFINITE_LOGIT), columns["code"][at])
        if "other_sum" in done:
            _store_softmax(columns, at, done)


def _store_softmax(columns: dict[str, Any], at: Any, done: dict[str, np.ndarray]) -> None:
    own_logit, other_logit = done["own_logit"], done["other_logit"]
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isfinite(other_logit), other_logit - np.maximum(own_logit, other_logit), 0.0)
    scale = np.exp(shift)
    columns["other_sum"][at] = scale * done["other_sum"]
    if "other_squares" in done:
        columns["other_squares"][at] = scale**2 * done["other_squares"]
    if "other_moment" in done:
        columns["other_moment"][at] = scale * (done["other_moment"] + shift * done["other_sum"])
    if "nobias" in done:
        columns["nobias_confidence"][at] = scale * done["nobias"]  # not yet a confidence: `_Pass._absorb` of sweep.py finishes it


def _row_products(x: Any, y: Any) -> Any:
    """(b, t), (b, t) -> (b,) sum of the products of each row; x may be overwritten."""
    return np.vecdot(x, y) if isinstance(x, np.ndarray) else x.mul_(y).sum(1)


def _argmax(x: Any) -> Any:
    """Column of each row's largest value, the first among equals."""
    if is_tensor(x) and x.device.type == "cpu":  # NumPy's is vectorized, torch's is not: six times faster
        return like(np.argmax(x.numpy(), axis=1), x)
    return namespace(x).argmax(x, axis=1)

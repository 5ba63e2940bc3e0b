"""One pass over the classes: all that the row scores need of each sample, and never an n x c array.

Samples go in blocks, classes in tiles. Each tile of the product `features @ weight.T` is used while it is in
cache: its angles are summed, its logits enter a running softmax over the *other* classes (the given class is
set apart, so that 1 - p and the margins lose no digits), and the tile is overwritten by the next. What is left
is a dozen numbers per sample, the fields of `Sweep`, and every row score is one line of arithmetic on them.

NumPy and torch run the same code (`xp` is one or the other): arrays use NumPy, tensors torch on their device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from hardsight.checks import is_tensor, namespace, to_numpy
from hardsight.errors import InputError
from hardsight.geometry import cosines_to_angles, row_norms, safe_row_norms, sum_angles
from hardsight.head import Head

BLOCK = 2**22  # numbers in one block of features, and in one tile of the product: 16 MB of float32 each
SLICE = {"numpy": 2**18, "torch": 2**19}  # numbers worked on at a time after the product, to stay in cache
ORDINARY = (1e-15, 1e15)  # norms whose squares and products are safe in float32; other rows go through float64
FLOOR = -40.0  # logits this far below the best other one count for 4e-18: kept out of the slow denormal range
BIAS_RANGE = 8.0  # biases further apart than this take a second pass for the softmax without bias

OK, NONFINITE, ZERO, NONFINITE_LOGIT = "ok", "nonfinite_feature", "zero_norm", "nonfinite_logit"
STATUSES = (OK, NONFINITE, ZERO, NONFINITE_LOGIT)

# What a score may need of the pass.
ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS = "angles nearest logits softmax squares moment nobias".split()
EVERYTHING = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS})


@dataclass(frozen=True)
class Sweep:
    """What one pass leaves of each sample: (n,) float64 arrays, NaN where a row could not be scored or was not asked.

    "Other" means any class but the given one; sums of e^ are relative to the largest logit. Unlabeled rows
    (label -1) are swept as if given class 0: fields marked * mean nothing there, and `labeled` masks them.
    """

    num_classes: int
    precision: type  # np.float32 or np.float64: of the features or logits it was made from
    labels: np.ndarray  # (n,) int64, -1 unlabeled
    code: np.ndarray  # (n,) index into STATUSES: 0 or why the row has no scores
    predicted: np.ndarray  # (n,) int64 class of the largest logit, the first among equals; -1 where not scored
    norm: np.ndarray  # length of the feature
    angle_sum: np.ndarray  # sum of the angles to all classes
    own_angle: np.ndarray  # * angle to the given class
    nearest_angle: np.ndarray  # * smallest angle to another class
    predicted_angle: np.ndarray  # angle to the predicted class
    own_logit: np.ndarray  # * logit of the given class
    other_logit: np.ndarray  # * largest logit of another class
    other_sum: np.ndarray  # * sum over the others of e^(logit - max)
    other_squares: np.ndarray  # * sum over the others of e^(2 (logit - max))
    other_moment: np.ndarray  # * sum over the others of (logit - max) e^(logit - max)
    nobias_confidence: np.ndarray  # * probability of the given class when the bias is left out

    @property
    def ok(self) -> np.ndarray:
        return self.code == 0

    @property
    def status(self) -> np.ndarray:
        """(n,) in words."""
        return np.array(STATUSES, dtype=object)[self.code]

    def reported(self, probability: np.ndarray) -> np.ndarray:
        """A probability in the precision of the model: float32 features cannot tell 1 - 1e-9 from 1, and say 1."""
        return probability.astype(self.precision).astype(np.float64)

    @property
    def labeled(self) -> np.ndarray:
        return self.labels >= 0

    @property
    def max_logit(self) -> np.ndarray:
        return np.maximum(self.own_logit, self.other_logit)

    @property
    def own_exp(self) -> np.ndarray:
        """e^(own logit - max)."""
        return np.exp(self.own_logit - self.max_logit)

    @property
    def partition(self) -> np.ndarray:
        """Sum over all classes of e^(logit - max): one over it is the largest probability."""
        return self.own_exp + self.other_sum


def sweep(features: Any, head: Head, labels: np.ndarray, needs: frozenset[str] = EVERYTHING) -> Sweep:
    """One pass over checked (n, d) features, a head in the same space and (n,) labels."""
    found = _empty(len(features), needs)
    _Pass(features, head, labels, needs, found).run(features)
    odd = np.flatnonzero(~_ordinary(found["norm"]))
    if len(odd):
        _sweep_odd_rows(features, head, labels, needs, found, odd)
    if NOBIAS in needs and head.bias is not None and not _close_together(head.bias):
        bare = sweep(features, Head(head.kind, head.weight), labels, frozenset({SOFTMAX}))
        found["nobias_confidence"] = bare.own_exp / bare.partition
    return Sweep(head.num_classes, _precision(features), labels, **found)


def sweep_logits(logits: Any, labels: np.ndarray, needs: frozenset[str] = EVERYTHING) -> Sweep:
    """The same pass when only (n, c) logits are known: no angles and no norm."""
    xp = namespace(logits)
    found = _empty(len(logits), needs)
    finite = to_numpy(xp.isfinite(logits).all(1))
    found["code"][~finite] = STATUSES.index(NONFINITE_LOGIT)
    rows = np.flatnonzero(finite)
    for part in _blocks(len(rows), max(1, BLOCK // logits.shape[1])):
        at = rows[part]
        block = logits[_like(at, logits)]
        own = _like(np.maximum(labels[at], 0), logits)
        state = _state(len(at), block)
        _absorb_logits(state, block, None, own, 0, needs - {NOBIAS}, None, xp.empty_like(block))
        _store(found, at, state, own, needs)
    return Sweep(logits.shape[1], _precision(logits), labels, **found)


# ---- rows: ordinary ones in the features' precision, odd ones in float64 ----


def _sweep_odd_rows(
    features: Any, head: Head, labels: np.ndarray, needs: frozenset[str], found: dict[str, Any], odd: np.ndarray
) -> None:
    """Rows whose norm is zero, tiny, huge or not finite: name them, or score them scaled and in float64."""
    for part in _blocks(len(odd), max(1, BLOCK // head.num_features)):
        at = odd[part]
        x = to_numpy(_take(features, at)).astype(np.float64)
        largest = np.abs(x).max(axis=1)
        good = np.isfinite(largest) & (largest > 0)
        found["code"][at[~good]] = np.where(largest[~good] == 0, STATUSES.index(ZERO), STATUSES.index(NONFINITE))
        found["norm"][at[~good]] = np.nan
        at, largest, unit = at[good], largest[good], x[good] / largest[good, None]
        if len(at):
            mine = _empty(len(at), needs)
            _Pass(unit, head, labels[at], needs, mine, magnitude=largest).run(unit)
            mine["norm"] *= largest
            for name, values in mine.items():
                if found[name].flags.writeable:
                    found[name][at] = values


class _Pass:
    """One pass over some rows: the head made ready for it, the size of its tiles, and memory to work in.

    `magnitude` (n,) is what the features were divided by, if they were.
    """

    def __init__(
        self, x: Any, head: Head, labels: np.ndarray, needs: frozenset[str], found: dict[str, Any], magnitude: Any = None
    ) -> None:
        self.xp = xp = namespace(x)
        # Distances to far-off means cancel, and products with class vectors of 1e30 overflow: those take float64.
        careful = x.dtype.itemsize >= 8 or head.kind == "gaussian" or _wide(head.weight)
        self.dtype = xp.float64 if careful else xp.float32
        self.head, self.labels, self.needs, self.found, self.magnitude = (
            head.like(xp.empty((0,), dtype=self.dtype, device=x.device)), labels, needs, found, magnitude,
        )  # fmt: skip
        c, d = head.weight.shape
        self.block_rows = _block_rows(c, d, xp)
        self.width = max(1, min(c, BLOCK // self.block_rows, BLOCK // d))
        self.slice_rows = min(self.block_rows, max(1, SLICE[xp.__name__] // self.width))
        self.angular = bool(needs & {ANGLES, NEAREST}) or head.kind in ("cosine", "angular")
        self.only_angles = needs <= {ANGLES, NEAREST}
        with np.errstate(divide="ignore"):
            self.inverse_w = 1 / safe_row_norms(self.head.weight, xp)  # (c,), infinite for a Gaussian at the origin
        if self.angular and not bool(xp.isfinite(self.inverse_w).all()):
            zero = int(np.flatnonzero(~np.isfinite(to_numpy(self.inverse_w)))[0])
            raise InputError(
                f"angles need class vectors with a direction, but class {zero} is at the origin. Leave the angular scores out."
            )
        # With the bias left out, the softmax terms are the same ones times e^-bias: no second exponential.
        bias = self.head.bias
        shared = NOBIAS in needs and bias is not None and _close_together(bias)
        self.unbias = xp.exp(bias.mean() - bias) if shared else None  # (c,)

        def buffer(rows: int) -> Any:
            return xp.empty((rows * self.width,), dtype=self.dtype, device=x.device)

        rows = self.block_rows if xp is np else min(self.block_rows, len(x)), min(self.slice_rows, max(1, len(x)))
        self.memory = [(buffer(rows[0]), *(buffer(rows[1]) for _ in range(3))) for _ in range(_workers(xp))]
        self.tiles = list(self._tiles()) if self.width == c else None  # a single tile is made once

    def run(self, features: Any) -> None:
        """Sweep all rows with an ordinary norm; the norms are measured on the way, while a block is in cache.

        From the first block with an odd row on, ordinary rows move up into their places, so that a row that cannot
        be scored does not change a bit of the others.
        """
        cut: list[int] = []

        def measure_and_sweep(rows: slice) -> None:
            x = self._cast(features[rows])
            self.found["norm"][rows] = to_numpy(row_norms(x, self.xp))
            if not _ordinary(self.found["norm"][rows]).all():
                cut.append(rows.start)
            if self.needs and (not cut or rows.start < min(cut)):
                self._block(x, rows)

        _share(measure_and_sweep, _blocks(len(features), self.block_rows), self.xp)
        if cut and self.needs:
            start = min(cut)
            rest = start + np.flatnonzero(_ordinary(self.found["norm"][start:]))
            _share(
                lambda rows: self._block(self._cast(_take(features, rest[rows])), rest[rows]),
                _blocks(len(rest), self.block_rows),
                self.xp,
            )

    def _tiles(self) -> Iterator[tuple[int, Head, Any]]:
        """Start, head and the matrix to multiply by, one tile of classes after another."""
        for start in range(0, self.head.num_classes, self.width):
            tile = self.head.classes(start, start + self.width)
            inverse = self.inverse_w[start : start + self.width, None]
            yield start, tile, tile.weight * inverse if self.only_angles else tile.weight

    def _cast(self, x: Any) -> Any:
        """A block in the precision of the pass: halves and integers are widened a block at a time."""
        return x.astype(self.dtype, copy=False) if self.xp is np else x.to(self.dtype)

    def _block(self, x: Any, at: Any) -> None:
        """Sweep one block x (b, d): the rows `at`, a slice or an index array."""
        found = self.found
        own = _like(np.maximum(self.labels[at], 0), x)  # unlabeled rows stand in as class 0
        inverse_x = self._cast(_like(1 / found["norm"][at], x))
        magnitude = None if self.magnitude is None else self.magnitude[at, None]
        state = _state(len(x), x)
        memory = self.memory.pop()  # popping is safe in threads
        for start, tile, matrix in self.tiles or self._tiles():
            product = memory[0][: len(x) * len(matrix)].reshape(len(x), len(matrix))
            if self.angular or tile.kind == "linear":
                self._multiply(x, matrix, memory[0])
            for rows in _blocks(len(x), self.slice_rows):
                part = {name: values[rows] for name, values in state.items()}
                scale = None if magnitude is None else magnitude[rows]
                self._absorb(part, product[rows], x[rows], inverse_x[rows, None], own[rows], scale, start, tile, memory)
        self.memory.append(memory)
        _store(found, at, state, own, self.needs)
        if NOBIAS in self.needs and (self.unbias is not None or self.head.bias is None):
            kept = _own_exp(found, at)
            if self.unbias is None:
                found["nobias_confidence"][at] = kept / (kept + found["other_sum"][at])
            else:
                kept *= to_numpy(self.unbias[own])
                found["nobias_confidence"][at] = kept / (kept + found["nobias_confidence"][at])

    def _multiply(self, x: Any, matrix: Any, out: Any) -> None:
        """x @ matrix.T into the flat memory `out`; NumPy's last block is filled up with zeros to the size of the others."""
        if self.xp is np and len(x) < self.block_rows:
            x = np.concatenate([x, np.zeros((self.block_rows - len(x), x.shape[1]), x.dtype)])
        self.xp.matmul(x, matrix.T, out=out[: len(x) * len(matrix)].reshape(len(x), len(matrix)))

    def _absorb(
        self, state: dict[str, Any], product: Any, x: Any, inverse_x: Any, own: Any, scale: Any,
        start: int, tile: Head, memory: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """One slice of one tile: (s, t) product of (s, d) features and the tile's class vectors."""
        xp, size = self.xp, product.shape[0] * product.shape[1]
        theta, terms, more = (buffer[:size].reshape(product.shape) for buffer in memory[1:])
        if self.only_angles:
            theta = xp.multiply(product, inverse_x, out=product)
        elif self.angular:
            xp.multiply(product, inverse_x, out=theta)
            xp.multiply(theta, self.inverse_w[start : start + len(tile.weight)], out=theta)
        if self.needs == {ANGLES} and xp is np and product.dtype == np.float32:
            mine = _own_entries(own, start, product.shape[1], xp)
            summed = sum_angles(theta, x, tile.weight, mine, scratch=(terms, more))
            if summed is not None:
                state["angle_sum"] += summed[0]
                state["own_angle"][mine[0]] = summed[1]
                return
        if self.angular:
            cosines_to_angles(theta, x, tile.weight, scratch=(terms, more))
            _absorb_angles(state, theta, own, start, self.needs)
        if not self.only_angles:
            logits = _logit_tile(tile, product, theta, x, scale)
            unbias = None if self.unbias is None else self.unbias[start : start + len(tile.weight)]
            _absorb_logits(state, logits, theta if self.angular else None, own, start, self.needs, unbias, terms)


def _ordinary(norm: np.ndarray) -> np.ndarray:
    low, high = ORDINARY
    return (norm > low) & (norm < high)  # False for NaN as well


def _block_rows(c: int, d: int, xp: ModuleType) -> int:
    """Rows in a block: enough for the product to run at full speed.

    NumPy's blocks are shared over threads and all of one size, whatever n is: a product of another shape may round
    otherwise, and then a row more or less would change the last bit of its neighbours.
    """
    if xp is not np:
        return min(8192, max(512, BLOCK // max(c, d)))
    return int(2 ** np.clip(np.log2(2**18 / c) // 1, 9, 12))


def _close_together(bias: Any) -> bool:
    return float(bias.max() - bias.min()) < BIAS_RANGE


def _logit_tile(head: Head, product: Any, theta: Any, x: Any, magnitude: Any) -> Any:
    """Logits of one tile, written over the product where the head allows it."""
    xp = namespace(x)
    if head.kind == "linear":
        if magnitude is not None:
            xp.multiply(product, magnitude, out=product)
        return product if head.bias is None else xp.add(product, head.bias, out=product)
    if head.kind == "cosine":
        return xp.multiply(xp.cos(theta), head.scale or 1.0, out=product)
    if head.kind == "angular":
        return xp.multiply(theta, -(head.scale or 1.0), out=product)
    return head.logits(x if magnitude is None else x * magnitude)


# ---- one tile into the running state: (b,) arrays, changed in place ----


def _state(b: int, x: Any) -> dict[str, Any]:
    xp = namespace(x)

    def full(value: float) -> Any:
        return xp.full((b,), value, dtype=x.dtype, device=x.device)

    state = {name: full(0.0) for name in ("angle_sum", "other_sum", "other_squares", "other_moment", "nobias")}
    state |= {name: full(float("nan")) for name in ("own_angle", "other_angle", "own_logit")}
    state |= {"nearest_angle": full(float("inf")), "other_logit": full(float("-inf"))}
    state["other_index"] = xp.zeros((b,), dtype=xp.int64, device=x.device)
    return state


def _own_entries(own: Any, start: int, width: int, xp: ModuleType) -> tuple[Any, Any]:
    """Row and column of each given class that lies in the tile."""
    inside = (own >= start) & (own < start + width)
    if inside.all():
        return xp.arange(len(own), device=own.device), own - start
    rows = xp.where(inside)[0]
    return rows, own[rows] - start


def _absorb_angles(state: dict[str, Any], theta: Any, own: Any, start: int, needs: frozenset[str]) -> None:
    xp = namespace(theta)
    mine = _own_entries(own, start, theta.shape[1], xp)
    state["own_angle"][mine[0]] = theta[mine]
    state["angle_sum"] += theta.sum(1)
    if NEAREST in needs:
        kept = theta[mine]
        theta[mine] = float("inf")
        state["nearest_angle"][...] = xp.minimum(state["nearest_angle"], xp.amin(theta, axis=1))
        theta[mine] = kept


def _absorb_logits(
    state: dict[str, Any], logits: Any, theta: Any, own: Any, start: int, needs: frozenset[str], unbias: Any, terms: Any
) -> None:
    """Fold a tile of logits into the running softmax over the other classes; `logits` and `terms` are overwritten."""
    xp = namespace(logits)
    mine = _own_entries(own, start, logits.shape[1], xp)
    state["own_logit"][mine[0]] = logits[mine]
    logits[mine] = float("-inf")
    largest = xp.amax(logits, axis=1)  # (b,)
    before = state["other_logit"]
    better = xp.where(largest > before)[0]
    if len(better):
        column = _argmax(logits if len(better) == len(logits) else logits[better])
        state["other_index"][better] = column + start
        if theta is not None:
            state["other_angle"][better] = theta[better, column]
    if not needs & {SOFTMAX, SQUARES, MOMENT, NOBIAS}:
        state["other_logit"][...] = xp.maximum(before, largest)
        return
    top = xp.maximum(before, largest)
    anchor = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # a tile may hold the given class alone
    shrink = xp.exp(before - anchor)  # what earlier tiles' terms are multiplied by
    xp.subtract(logits, anchor[:, None], out=logits)
    xp.clip(logits, FLOOR, None, out=logits)
    xp.exp(logits, out=terms)
    terms[mine] = 0.0
    if MOMENT in needs:
        xp.multiply(logits, terms, out=logits)
        step = xp.where(xp.isfinite(before), before - anchor, xp.zeros_like(before))
        state["other_moment"][...] = shrink * (state["other_moment"] + step * state["other_sum"]) + logits.sum(1)
    state["other_sum"][...] = shrink * state["other_sum"] + terms.sum(1)
    if unbias is not None:
        state["nobias"][...] = shrink * state["nobias"] + terms @ unbias
    if SQUARES in needs:
        state["other_squares"][...] = shrink**2 * state["other_squares"] + row_norms(terms, xp) ** 2
    state["other_logit"][...] = top


# ---- the state of a block into the result ----


def _empty(n: int, needs: frozenset[str]) -> dict[str, Any]:
    """Columns to be filled; those that nobody asked for stay NaN and take no memory."""
    wanted = {
        "angle_sum own_angle": {ANGLES, NEAREST},
        "nearest_angle": {NEAREST},
        "predicted_angle own_logit other_logit": EVERYTHING - {ANGLES, NEAREST},
        "other_sum": {SOFTMAX, SQUARES, MOMENT, NOBIAS},
        "other_squares": {SQUARES},
        "other_moment": {MOMENT},
        "nobias_confidence": {NOBIAS},
    }
    found: dict[str, Any] = {}
    for names, asked in wanted.items():
        for name in names.split():
            found[name] = np.full(n, np.nan) if needs & asked else np.broadcast_to(np.nan, (n,))
    found["code"] = np.zeros(n, dtype=np.int8)
    found["predicted"] = np.full(n, -1, dtype=np.int64)
    found["norm"] = np.full(n, np.nan)
    return found


def _store(found: dict[str, Any], at: Any, state: dict[str, Any], own: Any, needs: frozenset[str]) -> None:
    """Write a block's state at rows `at`, its sums now relative to the largest of all logits."""
    done = {name: to_numpy(values).astype(np.float64) for name, values in state.items() if name != "other_index"}

    def put(name: str, values: np.ndarray) -> None:
        if found[name].flags.writeable:
            found[name][at] = values

    put("angle_sum", done["angle_sum"])
    put("own_angle", done["own_angle"])
    put("nearest_angle", np.where(np.isfinite(done["nearest_angle"]), done["nearest_angle"], np.nan))
    if needs <= {ANGLES, NEAREST}:
        return
    given, index = to_numpy(own), to_numpy(state["other_index"])
    own_logit, other_logit = done["own_logit"], done["other_logit"]
    wins = (own_logit > other_logit) | ((own_logit == other_logit) & (given < index))  # the first among equals
    found["predicted"][at] = np.where(wins, given, index)
    put("predicted_angle", np.where(wins, done["own_angle"], done["other_angle"]))
    put("own_logit", own_logit)
    put("other_logit", other_logit)
    with np.errstate(over="ignore", invalid="ignore"):
        too_far = np.isfinite(other_logit) & ~np.isfinite(own_logit - other_logit)
    broken = ~np.isfinite(own_logit) | np.isnan(other_logit) | (other_logit == np.inf) | too_far
    found["code"][at] = np.where(broken, STATUSES.index(NONFINITE_LOGIT), found["code"][at])
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isfinite(other_logit), other_logit - np.maximum(own_logit, other_logit), 0.0)
    scale = np.exp(shift)
    put("other_sum", scale * done["other_sum"])
    put("other_squares", scale**2 * done["other_squares"])
    put("other_moment", scale * (done["other_moment"] + shift * done["other_sum"]))
    put("nobias_confidence", scale * done["nobias"])  # not yet a confidence: _Pass finishes it


def _own_exp(found: dict[str, Any], at: Any) -> np.ndarray:
    """e^(own logit - largest logit)."""
    own, other = found["own_logit"][at], found["other_logit"][at]
    return np.asarray(np.exp(own - np.maximum(own, other)))


# ---- blocks, slices and indices ----


def _blocks(n: int, rows: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def _share(work: Callable[[slice], None], blocks: Iterator[slice], xp: ModuleType) -> None:
    """Do the work on each block.

    torch uses every core inside each operation. NumPy's elementwise loops use one, so blocks go to threads, and
    the matrix product is held to one core per thread meanwhile. A single block is held to one core as well: a product
    shared over cores may round otherwise, and machines with other numbers of cores would differ in the last bit.
    """
    if xp is not np:
        for block in blocks:
            work(block)
        return
    todo = list(blocks)
    with _blas().limit(limits=1, user_api="blas"):
        if len(todo) == 1 or _workers(xp) == 1:
            for block in todo:
                work(block)
            return
        with ThreadPoolExecutor(_workers(xp)) as pool:
            list(pool.map(work, todo))


def _workers(xp: ModuleType) -> int:
    return num_threads() if xp is np else 1


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def num_threads() -> int:
    """Cores this process may use; OMP_NUM_THREADS lowers it, as it does for the matrix product."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


def _argmax(x: Any) -> Any:
    """Column of each row's largest value, the first among equals."""
    if is_tensor(x) and x.device.type == "cpu":  # NumPy's is vectorised, torch's is not: six times faster
        return _like(np.argmax(x.numpy(), axis=1), x)
    return namespace(x).argmax(x, axis=1)


def _like(index: np.ndarray, x: Any) -> Any:
    return namespace(x).as_tensor(index, device=x.device) if is_tensor(x) else index


def _take(x: Any, rows: Any) -> Any:
    return x[rows] if isinstance(rows, slice) else x[_like(rows, x)]


def _precision(x: Any) -> type:
    return np.float64 if x.dtype.itemsize >= 8 else np.float32


def _wide(weight: Any) -> bool:
    norms = to_numpy(row_norms(weight, namespace(weight)))
    return bool(((norms < ORDINARY[0]) | ~(norms < ORDINARY[1])).any())

"""One pass over the classes: all that the row scores need of each sample, and never an n x c array.

Samples go in blocks, classes in tiles. Each tile of the product `features @ weight.T` is used while it is in
cache: its angles are summed, its logits enter a running softmax over the *other* classes (the given class is
set apart, so that 1 - p and the margins lose no digits), and the tile is overwritten by the next. What is left
is a dozen numbers per sample, the fields of `Sweep`, and every row score is one line of arithmetic on them.

NumPy and torch run the same code (`xp` is one or the other): arrays use NumPy, tensors torch on their device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from hardsight.checks import namespace, to_numpy
from hardsight.errors import InputError
from hardsight.geometry import angles_at, cosines_to_angles, row_norms, safe_row_norms, sum_angles
from hardsight.head import Head
from hardsight.scores.accumulator import AnglesAt, Running, empty_columns
from hardsight.scores.terms import (
    ANGLES,
    EVERYTHING,
    NEAREST,
    NOBIAS,
    NONFINITE,
    NONFINITE_LOGIT,
    SOFTMAX,
    STATUSES,
    ZERO,
    further_terms,
    further_terms_of_logits,
)
from hardsight.threads import blocks, like, num_workers, share, take

BLOCK = 2**22  # numbers in one block of features, and in one tile of the product: 16 MB of float32 each
SLICE = {"numpy": 2**18, "torch": 2**20}  # numbers worked on at a time after the product, to stay in cache
ORDINARY = (1e-15, 1e15)  # norms whose squares and products are safe in float32; other rows go through float64
# Biases further apart than this take a second pass for the softmax without bias. Within it, logits that FLOOR cuts off
# count for c e^(12 - 40) at most beside the largest one: 7e-8 for 100,000 classes.
BIAS_RANGE = 12.0
ARRAY_ROWS = 4096  # tensors on the CPU with as many rows are swept as arrays


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
    more: dict[str, np.ndarray] = field(default_factory=dict, kw_only=True)  # further terms by name (terms.py), if requested

    def since(self, row: int) -> Sweep:
        """What is left of the rows from number `row` on."""
        columns: dict[str, Any] = {name: column[row:] for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        return replace(self, **columns, more={name: column[row:] for name, column in self.more.items()})

    @property
    def ok(self) -> np.ndarray:
        """(n,) whether a row could be scored."""
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
        """(n,) whether a row has a given class."""
        return self.labels >= 0

    @property
    def max_logit(self) -> np.ndarray:
        """(n,) largest logit."""
        return np.maximum(self.own_logit, self.other_logit)

    @property
    def own_exp(self) -> np.ndarray:
        """e^(own logit - max)."""
        return np.exp(self.own_logit - self.max_logit)

    @property
    def partition(self) -> np.ndarray:
        """Sum over all classes of e^(logit - max): one over it is the largest probability."""
        return self.own_exp + self.other_sum

    @property
    def own_probability(self) -> np.ndarray:
        """(n,) softmax probability of the given class."""
        return self.reported(self.own_exp / self.partition)

    @property
    def largest_probability(self) -> np.ndarray:
        """(n,) softmax probability of the predicted class."""
        return self.reported(1 / self.partition)

    @property
    def probability_margin(self) -> np.ndarray:
        """(n,) probability of the given class minus the largest of another; NaN for a single class."""
        margin = self.reported((self.own_exp - np.exp(self.other_logit - self.max_logit)) / self.partition)
        return np.where(np.isfinite(self.other_logit), margin, np.nan)

    @property
    def own_loss(self) -> np.ndarray:
        """(n,) -log of the probability of the given class, with all digits."""
        behind = self.max_logit - self.own_logit  # 0 when the given class is on top, and log1p keeps small losses exact
        return np.where(behind == 0, np.log1p(self.other_sum), behind + np.log(self.partition))


def sweep(features: Any, head: Head, labels: np.ndarray, terms: frozenset[str] = EVERYTHING) -> Sweep:
    """One pass over checked (n, d) features, a head in the same space and (n,) labels."""
    features = _shared_array(features)
    columns = (_around_means if head.kind == "gaussian" else _columns)(features, head, labels, terms & EVERYTHING)
    if NOBIAS in terms and head.bias is not None and not _close_together(head.bias):
        bare = sweep(features, Head(head.kind, head.weight), labels, frozenset({SOFTMAX}))
        columns["nobias_confidence"] = bare.own_exp / bare.partition
    more = further_terms(features, head, labels, columns, terms - EVERYTHING)
    return Sweep(head.num_classes, _precision(features), labels, **columns, more=more)


def sweep_logits(logits: Any, labels: np.ndarray, terms: frozenset[str] = EVERYTHING) -> Sweep:
    """The same pass when only (n, c) logits are known: no angles and no norm."""
    xp = namespace(logits)
    columns = empty_columns(len(logits), terms)
    finite = to_numpy(xp.isfinite(logits).all(1))
    columns["code"][~finite] = STATUSES.index(NONFINITE_LOGIT)
    rows = np.flatnonzero(finite)
    for part in blocks(len(rows), max(1, BLOCK // logits.shape[1])):
        at = rows[part]
        block = logits[like(at, logits)]
        own = like(np.maximum(labels[at], 0), logits)
        running = Running.start(block, own, terms & EVERYTHING - {NOBIAS})
        running.absorb_logits(block, 0, xp.empty_like(block))
        running.store(columns, at)
    more = further_terms_of_logits(logits, terms - EVERYTHING)
    return Sweep(logits.shape[1], _precision(logits), labels, **columns, more=more)


def _shared_array(features: Any) -> Any:
    """Many rows of a float tensor on the CPU as the array that shares their memory; anything else as it is.

    Our threads take whole blocks; torch's synchronize after every operation, which costs most on a busy machine.
    """
    if namespace(features) is np or features.device.type != "cpu" or len(features) < ARRAY_ROWS:
        return features
    return features.detach().numpy() if features.is_floating_point() and features.dtype.itemsize >= 4 else features


# ---- rows: ordinary ones in the features' precision, odd ones in float64 ----


def _columns(features: Any, head: Head, labels: np.ndarray, terms: frozenset[str]) -> dict[str, Any]:
    """Columns of all rows, angles taken from zero."""
    columns = _Pass(features, head, labels, terms).run()
    odd = np.flatnonzero(~_ordinary(columns["norm"]))
    for part in blocks(len(odd), max(1, BLOCK // head.num_features)):
        at = odd[part]
        _put(columns, at, _odd_rows(take(features, at), head, labels[at], terms))
    return columns


def _around_means(features: Any, head: Head, labels: np.ndarray, terms: frozenset[str]) -> dict[str, Any]:
    """Columns of all rows under a Gaussian head: a part at a time is moved so that the mean of the class means is zero."""
    columns, centered, xp = empty_columns(len(features), terms), head.centered(), namespace(features)
    for part in blocks(len(features), max(1, BLOCK // head.num_features)):
        x = features[part].astype(np.float64) if xp is np else features[part].double()  # (b, d)
        _put(columns, part, _columns(head.around_origin(x), centered, labels[part], terms))
        with np.errstate(invalid="ignore"):  # of rows that are not finite
            columns["norm"][part] = to_numpy(safe_row_norms(x, xp))  # a length has nothing to do with the means
    return columns


def _put(columns: dict[str, Any], at: Any, values: dict[str, Any]) -> None:
    """Write the columns of some rows, those that were asked for."""
    for name, column in values.items():
        if columns[name].flags.writeable:
            columns[name][at] = column


def _odd_rows(features: Any, head: Head, labels: np.ndarray, terms: frozenset[str]) -> dict[str, Any]:
    """Columns of rows whose norm is zero, tiny, huge or not finite: a status, or the scores of the row scaled and in float64."""
    x = to_numpy(features).astype(np.float64)
    largest = np.abs(x).max(axis=1)
    good = np.isfinite(largest) & (largest > 0)
    columns = empty_columns(len(x), terms)
    columns["code"][~good] = np.where(largest[~good] == 0, STATUSES.index(ZERO), STATUSES.index(NONFINITE))
    at, magnitude = np.flatnonzero(good), largest[good]
    if len(at):
        scored = _Pass(x[good] / magnitude[:, None], head, labels[good], terms, magnitude).run()
        scored["norm"] *= magnitude
        _put(columns, at, scored)
    return columns


class _Tile(NamedTuple):
    """Some classes: the first, their head, the matrix to multiply features by, and one over their lengths."""

    first: int
    head: Head
    matrix: Any  # (t, d)
    inverse_w: Any  # (t,)
    unbias: Any  # (t,) or None


class _Rows(NamedTuple):
    """Some rows of a block: their running numbers, features, one over their norms, and what they were divided by."""

    running: Running
    x: Any  # (s, d)
    inverse_x: Any  # (s, 1)
    magnitude: Any  # (s, 1) or None


def _check_directions(inverse_norms: np.ndarray, kind: str) -> None:
    """Angles need class vectors that are not zero: (c,) one over their norms."""
    zero = np.flatnonzero(~np.isfinite(inverse_norms))
    if len(zero):
        where = "the mean of the class means" if kind == "gaussian" else "the origin"
        raise InputError(
            f"angles need class vectors with a direction, but class {zero[0]} is at {where}. "
            "Leave the angular scores out: --scores confidence,loss."
        )


class _Pass:
    """One pass over some rows: the head made ready for it, the size of its tiles, and memory to work in.

    `magnitude` (n,) is what the features were divided by, if they were.
    """

    def __init__(self, x: Any, head: Head, labels: np.ndarray, terms: frozenset[str], magnitude: Any = None) -> None:
        self.xp = xp = namespace(x)
        # Distances to far-off means cancel, and products with class vectors of 1e30 overflow: those take float64.
        careful = x.dtype.itemsize >= 8 or head.kind == "gaussian" or _wide(head.weight)
        self.dtype = xp.float64 if careful else xp.float32
        self.head = head.like(xp.empty((0,), dtype=self.dtype, device=x.device))
        self.features, self.terms, self.magnitude = x, terms, magnitude
        self.columns = empty_columns(len(x), terms)
        self.own = np.maximum(labels, 0)  # unlabeled rows stand in as class 0
        c, d = head.weight.shape
        self.block_rows = _block_rows(c, d, xp)
        self.width = max(1, min(c, BLOCK // self.block_rows, BLOCK // d))
        self.slice_rows = min(self.block_rows, max(1, SLICE[xp.__name__] // self.width))
        self.angular = bool(terms & {ANGLES, NEAREST}) or head.kind in ("cosine", "angular")
        self.only_angles = terms <= {ANGLES, NEAREST}
        # On a CPU arccos is slow and sums of angles have a shorter way, unless logits are made of the angles.
        short = self.dtype is xp.float32 and str(x.device) == "cpu" and head.kind == "linear"
        self.by_cosines = short and bool(terms & {ANGLES, NEAREST})
        self.only_sums = terms == {ANGLES} and self.by_cosines and self.width == c
        with np.errstate(divide="ignore"):
            self.inverse_w = 1 / safe_row_norms(self.head.weight, xp)  # (c,), infinite for a Gaussian at the center
        if self.angular:
            _check_directions(to_numpy(self.inverse_w), head.kind)
        self.unbias = _unbias(self.head.bias, xp) if NOBIAS in terms else None  # (c,)

        def buffer(rows: int) -> Any:
            return xp.empty((rows * self.width,), dtype=self.dtype, device=x.device)

        rows = self.block_rows if xp is np else min(self.block_rows, len(x)), min(self.slice_rows, max(1, len(x)))
        self.memory = [(buffer(rows[0]), *(buffer(rows[1]) for _ in range(3))) for _ in range(num_workers(xp))]
        self.tiles = list(self._tiles()) if self.width == c else None  # a single tile is made once

    def run(self) -> dict[str, Any]:
        """Columns of all rows with an ordinary norm; the norms are measured on the way, while a block is in cache.

        From the first block with an odd row on, ordinary rows move up into their places, so that a row that cannot
        be scored does not change a bit of the others.
        """
        features, norm = self.features, self.columns["norm"]
        cut: list[int] = []

        def measure_and_sweep(rows: slice) -> None:
            x = self._cast(features[rows])
            norm[rows] = to_numpy(row_norms(x, self.xp))
            if not (norm[rows].min() > ORDINARY[0] and norm[rows].max() < ORDINARY[1]):  # NaN is odd as well
                cut.append(rows.start)
            if self.terms and (not cut or rows.start < min(cut)):
                self._sweep(x, rows)

        share(measure_and_sweep, blocks(len(features), self.block_rows), self.xp)
        if cut and self.terms:
            first = min(cut)
            rest = first + np.flatnonzero(_ordinary(norm[first:]))
            share(
                lambda rows: self._sweep(self._cast(take(features, rest[rows])), rest[rows]),
                blocks(len(rest), self.block_rows),
                self.xp,
            )
        return self.columns

    def _tiles(self) -> Iterator[_Tile]:
        """One tile of classes after another."""
        for first in range(0, self.head.num_classes, self.width):
            part = slice(first, first + self.width)
            head, inverse = self.head.classes(part), self.inverse_w[part]
            matrix = head.weight * inverse[:, None] if self.only_angles else head.weight
            yield _Tile(first, head, matrix, inverse, None if self.unbias is None else self.unbias[part])

    def _cast(self, x: Any) -> Any:
        """A block in the precision of the pass: halves and integers are widened a block at a time."""
        return x.astype(self.dtype, copy=False) if self.xp is np else x.to(self.dtype)

    def _sweep(self, x: Any, at: Any) -> None:
        """Sweep one block x (b, d): the rows `at`, a slice or an index array."""
        memory = self.memory.pop()  # popping is safe in threads
        if self.only_sums:
            self._sum(x, at, memory)
        else:
            self._absorb(x, at, memory)
        self.memory.append(memory)

    def _sum(self, x: Any, at: Any, memory: tuple[Any, ...]) -> None:
        """Only the sum of the angles and the own angle of a block."""
        columns, tile = self.columns, next(iter(self.tiles or self._tiles()))
        inverse_x = self._cast(like(1 / columns["norm"][at], x))[:, None]
        total = np.empty(len(x))
        product = self._product(x, tile.matrix, memory[0])
        self.xp.multiply(product, inverse_x, out=product)
        own = like(np.arange(len(x)), x), like(self.own[at], x)
        columns["own_angle"][at] = angles_at(product, x, tile.head.weight, own)
        for rows in blocks(len(x), self.slice_rows):
            cosine = product[rows]
            square, q = (buffer[: len(cosine) * self.width].reshape(cosine.shape) for buffer in memory[1:3])
            total[rows] = sum_angles(cosine, x[rows], tile.head.weight, (square, q))
        columns["angle_sum"][at] = total

    def _absorb(self, x: Any, at: Any, memory: tuple[Any, ...]) -> None:
        """All that is needed of a block, one tile after another."""
        columns = self.columns
        own = like(self.own[at], x)
        inverse_x = self._cast(like(1 / columns["norm"][at], x))[:, None]
        magnitude = None if self.magnitude is None else self.magnitude[at, None]
        running = Running.start(x, own, self.terms)
        for tile in self.tiles or self._tiles():
            product = memory[0][: len(x) * len(tile.matrix)].reshape(len(x), len(tile.matrix))
            if self.angular or tile.head.kind == "linear":
                product = self._product(x, tile.matrix, memory[0])
            for part in blocks(len(x), self.slice_rows):
                rows = _Rows(running.rows(part), x[part], inverse_x[part], None if magnitude is None else magnitude[part])
                self._absorb_tile(rows, tile, product[part], memory)
        running.store(columns, at)
        if NOBIAS in self.terms and (self.unbias is not None or self.head.bias is None):
            kept = _own_exp(columns, at)
            if self.unbias is None:
                columns["nobias_confidence"][at] = kept / (kept + columns["other_sum"][at])
            else:
                kept *= to_numpy(self.unbias[own])
                columns["nobias_confidence"][at] = kept / (kept + columns["nobias_confidence"][at])

    def _product(self, x: Any, matrix: Any, memory: Any) -> Any:
        """(b, t) x @ matrix.T in flat memory; NumPy's last block is filled up with zeros to the size of the others."""
        b = len(x)
        if self.xp is np and b < self.block_rows:
            x = np.concatenate([x, np.zeros((self.block_rows - b, x.shape[1]), x.dtype)])
        out = memory[: len(x) * len(matrix)].reshape(len(x), len(matrix))
        self.xp.matmul(x, matrix.T, out=out)
        return out[:b]

    def _absorb_tile(self, rows: _Rows, tile: _Tile, product: Any, memory: tuple[Any, ...]) -> None:
        """One slice of one tile: (s, t) product of (s, d) features and the tile's class vectors."""
        xp, size, running = self.xp, product.shape[0] * product.shape[1], rows.running
        theta, exps, spare = (buffer[:size].reshape(product.shape) for buffer in memory[1:])
        if self.only_angles:
            theta = xp.multiply(product, rows.inverse_x, out=product)
        elif self.angular:
            xp.multiply(product, rows.inverse_x, out=theta)
            xp.multiply(theta, tile.inverse_w, out=theta)
        vectors = rows.x, tile.head.weight
        angles: AnglesAt | None = None
        if self.by_cosines:
            angles = functools.partial(angles_at, theta, *vectors)
            running.absorb_cosines(theta, tile.first, angles)
        elif self.angular:
            cosines_to_angles(theta, *vectors, scratch=(exps, spare))
            angles = theta.__getitem__
            if "own_angle" in running.numbers:
                running.absorb_angles(theta, tile.first)
        if not self.only_angles:
            logits = _logit_tile(tile.head, product, theta, rows)
            running.absorb_logits(logits, tile.first, exps, angles, tile.unbias)
        if self.by_cosines:
            running.numbers["angle_sum"] += like(sum_angles(theta, *vectors, (exps, spare)), theta)


def _ordinary(norm: np.ndarray) -> np.ndarray:
    low, high = ORDINARY
    return (norm > low) & (norm < high)  # False for NaN as well


def _block_rows(c: int, d: int, xp: ModuleType) -> int:
    """Rows in a block: enough for the product to run at full speed.

    NumPy's blocks are shared over threads and all of one size, whatever n is: a product of another shape may round
    otherwise, and then a row more or less would change the last bit of its neighbors.
    """
    if xp is not np:
        return min(4096, max(512, BLOCK // max(c, d)))
    return int(2 ** np.clip(np.log2(2**17 / c) // 1, 10, 11))


def _unbias(bias: Any, xp: ModuleType) -> Any:
    """(c,) e^-bias, with which softmax terms lose their bias without a second exponential; None if biases are far apart."""
    return None if bias is None or not _close_together(bias) else xp.exp(bias.mean() - bias)


def _close_together(bias: Any) -> bool:
    return float(bias.max() - bias.min()) < BIAS_RANGE


def _logit_tile(head: Head, product: Any, theta: Any, rows: _Rows) -> Any:
    """Logits of one tile, written over the product where the head allows it."""
    xp, x, magnitude = namespace(rows.x), rows.x, rows.magnitude
    if head.kind == "linear":
        if magnitude is not None:
            xp.multiply(product, magnitude, out=product)
        return product if head.bias is None else xp.add(product, head.bias, out=product)
    if head.kind == "cosine":
        return xp.multiply(xp.cos(theta), head.scale or 1.0, out=product)
    if head.kind == "angular":
        return xp.multiply(theta, -(head.scale or 1.0), out=product)
    return head.logits(x if magnitude is None else x * magnitude)


def _own_exp(columns: dict[str, Any], at: Any) -> np.ndarray:
    """e^(own logit - largest logit)."""
    own, other = columns["own_logit"][at], columns["other_logit"][at]
    return np.asarray(np.exp(own - np.maximum(own, other)))


def _precision(x: Any) -> type:
    return np.float64 if x.dtype.itemsize >= 8 else np.float32


def _wide(weight: Any) -> bool:
    norms = to_numpy(row_norms(weight, namespace(weight)))
    return bool(((norms < ORDINARY[0]) | ~(norms < ORDINARY[1])).any())

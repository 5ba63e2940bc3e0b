"""The methods by name: rows of the candidates in the order they are chosen, and a reason for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardsight.scores.search import QUERIES, Candidates
from hardsight.screen import number
from hardsight.subsets.eligible import EligibleRows
from hardsight.subsets.settings import SelectSettings
from hardsight.threads import blocks, share

Counted = Callable[[int, int], None]  # samples chosen, samples to choose
Picks = tuple[np.ndarray, list[str]]  # (budget,) of the candidates, and why


@dataclass(frozen=True)
class Picker:
    """How to choose among candidates."""

    settings: SelectSettings
    progress: Counted | None = None

    def __call__(self, candidates: EligibleRows, budget: int) -> Picks:
        """Choose `budget` of the candidates, or share the budget among its classes."""
        s = self.settings
        choose = METHODS[s.method]
        if not (s.per_class or s.method == "balanced"):
            return choose(self, candidates, budget, np.random.default_rng([s.seed, 0]))
        quota = shared_out(np.bincount(candidates.labels, minlength=candidates.num_classes), budget)  # (c,)
        rows, reasons = [], []
        for label in np.flatnonzero(quota).tolist():
            members, share = np.flatnonzero(candidates.labels == label), int(quota[label])
            chosen, why = choose(self, candidates.take(members), share, np.random.default_rng([s.seed, label + 1]))
            rows.append(members[chosen])
            reasons += [f"class {candidates.name_of(label)}: {reason}" for reason in why]
        return np.concatenate(rows), reasons


def _ranked(picker: Picker, candidates: EligibleRows, budget: int, rng: np.random.Generator) -> Picks:
    """The hardest first, or the easiest; among equals the smaller id."""
    assert candidates.values is not None
    method = picker.settings.method
    rows = np.argsort(candidates.harder if method == "easiest" else -candidates.harder, kind="stable")[:budget]
    word = method if method in ("hardest", "easiest") else "least sure"
    name = method if method == "margin" else candidates.by
    return rows, [f"{word}, rank {rank}: {name} {number(candidates.values[row])}" for rank, row in enumerate(rows.tolist(), 1)]


def _random(picker: Picker, candidates: EligibleRows, budget: int, rng: np.random.Generator) -> Picks:
    return rng.permutation(len(candidates))[:budget], ["drawn at random"] * budget


def _coverage(picker: Picker, candidates: EligibleRows, budget: int, rng: np.random.Generator) -> Picks:
    assert candidates.values is not None
    rows, stratum = coverage(candidates.harder, budget, picker.settings.cut, rng)
    return rows, [
        f"stratum {at + 1} of {num_strata(budget)} from easy to hard: {candidates.by} {number(value)}"
        for at, value in zip(stratum.tolist(), candidates.values[rows].tolist(), strict=True)
    ]


def _k_center(picker: Picker, candidates: EligibleRows, budget: int, rng: np.random.Generator) -> Picks:
    assert candidates.unit is not None
    rows, cosines = k_center(candidates.unit, budget, candidates.centers, picker.progress)
    degrees = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    others = "the labeled samples and those chosen before" if candidates.centers is not None else "all chosen before"
    words = [f"{angle:.1f} degrees from {others}" for angle in degrees.tolist()]
    return rows, words if candidates.centers is not None else ["nearest to the mean direction", *words[1:]]


def _d2(picker: Picker, candidates: EligibleRows, budget: int, rng: np.random.Generator) -> Picks:
    assert candidates.unit is not None and candidates.values is not None
    edges = neighbor_graph(candidates.unit, picker.settings.neighbors, picker.progress)
    rows, left = d2(candidates.harder, *edges, budget)
    return rows, [
        f"hard among its neighbors: {number(had)} left, {candidates.by} {number(value)}"
        for had, value in zip(left.tolist(), candidates.values[rows].tolist(), strict=True)
    ]


METHODS: dict[str, Callable[[Picker, EligibleRows, int, np.random.Generator], Picks]] = {
    "coverage": _coverage,
    "hardest": _ranked,
    "easiest": _ranked,
    "balanced": _random,
    "random": _random,
    "kcenter": _k_center,
    "d2": _d2,
    "margin": _ranked,
    "entropy": _ranked,
    "avc": _ranked,
}


# Strata of hardness: a subset that covers every level of it (Zheng et al., ICLR 2023: coverage-centric selection). The hardest
# samples are cut off, since a small subset of them holds mostly wrong labels and exceptions. The rest is cut into strata of
# equal width, and the budget is shared over them from the smallest up: a stratum that has fewer samples than its share gives all
# of them, and the others share what it leaves.

STRATA = 50
LARGEST_CUT = 0.3  # of the paper's table for CIFAR-10, where a tenth is kept


def shared_out(room: np.ndarray, budget: int) -> np.ndarray:
    """How much of a budget each of k groups gives: equal shares as far as each has room, the smallest first.

    Example:
        >>> shared_out(np.array([2, 10, 0, 10]), 12)
        array([2, 5, 0, 5])
    """
    given = np.zeros(len(room), np.int64)
    left = budget
    for done, group in enumerate(np.argsort(room, kind="stable")):
        given[group] = min(int(room[group]), left // (len(room) - done))
        left -= int(given[group])
    return given


def usual_cut(share: float) -> float:
    """The share of the hardest to leave out: nothing where half is kept, up to 0.3 where a tenth is.

    Example:
        >>> usual_cut(0.5), round(usual_cut(0.3), 4), usual_cut(0.1), usual_cut(0.01)
        (0.0, 0.15, 0.3, 0.3)
    """
    return float(np.clip(0.75 * (0.5 - share), 0.0, LARGEST_CUT))


def stratum_of(harder: np.ndarray, strata: int) -> np.ndarray:
    """(n,) the stratum of each sample, from 0, the easiest; all are of the same width.

    Example:
        >>> stratum_of(np.array([0.0, 0.4, 0.5, 1.0]), 2)
        array([0, 0, 1, 1])
    """
    edges = np.linspace(harder.min(), harder.max(), strata + 1)
    return np.searchsorted(edges[1:-1], harder, side="right")


def num_strata(budget: int) -> int:
    """50, or fewer where the budget is smaller: one sample each."""
    return min(STRATA, budget)


def coverage(harder: np.ndarray, budget: int, cut: float | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(budget,) rows that cover the levels of (n,) hardness, easiest stratum first, and the stratum of each."""
    n = len(harder)
    cut = usual_cut(budget / n) if cut is None else cut
    kept = np.argsort(harder, kind="stable")[: max(budget, n - int(cut * n))]  # the hardest are cut off
    strata = num_strata(budget)
    stratum = stratum_of(harder[kept], strata)
    shares = shared_out(np.bincount(stratum, minlength=strata), budget)  # (strata,)
    rows = [rng.permutation(kept[stratum == at])[:share] for at, share in enumerate(shares)]
    return np.concatenate(rows), np.repeat(np.arange(strata), shares)


# k-center: a subset that leaves no sample far from it (Sener and Savarese, ICLR 2018). Greedy: the next sample is the one
# farthest from all chosen so far. Distances are those between directions, since a feature's length says how sure the network is
# and not what it sees. One sample costs a pass over all features, which is limited by memory; so the products of the next
# candidates are made together, and most of the samples chosen next are among them. The result is the same as one by one.
# Memory: the features, and a few numbers per sample.

AHEAD = 16  # candidates whose products are made together
BLOCK = 4096  # rows of one product


def k_center(
    unit: np.ndarray, budget: int, centers: np.ndarray | None = None, progress: Counted | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of (n, d) unit vectors, farthest first, and the cosine of each to the nearest one before: (budget,) both.

    Args:
        unit: (n, d) directions.
        budget: how many.
        centers: (m, d) directions that are there already; without them the first is the one nearest to the mean.
    """
    nearest = np.full(len(unit), -np.inf, unit.dtype)  # (n,) largest cosine with anything chosen
    first = None
    if centers is None or len(centers) == 0:
        mean = unit.mean(axis=0, dtype=np.float64).astype(unit.dtype)  # (d,)
        first = int(np.argmax(products(mean[None], unit)[0]))
    else:
        for part in blocks(len(centers), AHEAD):
            np.maximum(nearest, products(centers[part], unit).max(axis=0), out=nearest)
    rows, cosines = np.empty(budget, np.int64), np.empty(budget)
    ahead: dict[int, np.ndarray] = {}  # row: its (n,) products
    for count in range(budget):
        row = first if count == 0 and first is not None else int(np.argmin(nearest))
        if row not in ahead:
            ahead_count = min(AHEAD, len(unit))
            candidates = np.union1d(np.argpartition(nearest, ahead_count - 1)[:ahead_count], [row])
            ahead = dict(zip(candidates.tolist(), products(unit[candidates], unit), strict=True))
        rows[count], cosines[count] = row, nearest[row]
        np.maximum(nearest, ahead.pop(row), out=nearest)
        nearest[row] = np.inf  # never again
        if progress is not None and count % AHEAD == 0:
            progress(count, budget)
    return rows, cosines


def products(vectors: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """(m, d), (n, d) -> (m, n), a block of rows per thread."""
    result = np.empty((len(vectors), len(unit)), unit.dtype)

    def work(rows: slice) -> None:
        np.matmul(vectors, unit[rows].T, out=result[:, rows])

    share(work, blocks(len(unit), BLOCK))
    return result


# D2: hard samples that are not all of one place (Maharana, Yadav, Bansal, ICLR 2024). On a graph of nearest neighbors, hardness
# first flows in: a sample among hard ones becomes harder. Then the hardest is taken again and again, and each time its neighbors
# lose what it had, so that the next one comes from elsewhere:
#
#     h_i  <-  h_i + sum_j e_ij h_j            e_ij = exp(-|x_i - x_j|^2) of directions, j among the k nearest of i
#     h_j  <-  h_j - e_ij h_i                  for the neighbors j of the one that was taken, i


def neighbor_graph(unit: np.ndarray, k: int, progress: Counted | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of each row of (n, d) directions: (n, k) rows, and the (n, k) weights of these edges."""
    n, k = len(unit), max(1, min(k, len(unit) - 1))
    everything = Candidates()
    everything.add(unit, np.arange(n))
    rows, cosine = np.empty((n, k), np.int64), np.empty((n, k), unit.dtype)
    done = [0]

    def work(part: slice) -> None:
        cosine[part], rows[part] = everything.nearest(unit[part], k, np.arange(part.start, part.stop))
        done[0] += part.stop - part.start
        if progress is not None:
            progress(done[0], n)

    share(work, blocks(n, QUERIES))
    return rows, np.exp(-2.0 * (1.0 - cosine.astype(np.float64)))  # |x - y|^2 = 2 - 2 cos


def d2(harder: np.ndarray, neighbors: np.ndarray, weight: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """(budget,) rows in the order they are taken, and what each had left when it was.

    Args:
        harder: (n,) hardness of any scale; it is brought to 0..1.
        neighbors, weight: (n, k) edges.
    """
    low, high = harder.min(), harder.max()
    scaled = (harder - low) / (high - low) if high > low else np.ones(len(harder))  # (n,)
    left = scaled + (weight * scaled[neighbors]).sum(axis=1)  # (n,)
    rows, had = np.empty(budget, np.int64), np.empty(budget)
    for count in range(budget):
        row = int(np.argmax(left))
        rows[count], had[count] = row, left[row]
        left[neighbors[row]] -= weight[row] * max(left[row], 0.0)  # what is taken already stays at -inf
        left[row] = -np.inf
    return rows, had

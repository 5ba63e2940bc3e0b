"""The methods by name: rows of the candidates in the order they are chosen, and a reason for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardsight.screen import number
from hardsight.subsets.d2 import d2, neighbor_graph
from hardsight.subsets.eligible import EligibleRows
from hardsight.subsets.k_center import Counted, k_center
from hardsight.subsets.settings import SelectSettings

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

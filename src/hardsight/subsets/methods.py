"""The methods by name: rows of a pool in the order they are chosen, and a reason for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardsight.screen import number
from hardsight.subsets.d2 import d2, neighbor_graph
from hardsight.subsets.k_center import Counted, k_center
from hardsight.subsets.pool import Pool
from hardsight.subsets.settings import SelectSettings
from hardsight.subsets.strata import coverage, num_strata, shared_out

Picks = tuple[np.ndarray, list[str]]  # (budget,) rows of the pool, and why


@dataclass(frozen=True)
class Picker:
    """How to choose from a pool."""

    settings: SelectSettings
    progress: Counted | None = None

    def __call__(self, pool: Pool, budget: int) -> Picks:
        """Choose `budget` samples of the pool, or share the budget among its classes."""
        s = self.settings
        choose = METHODS[s.method]
        if not (s.per_class or s.method == "balanced"):
            return choose(self, pool, budget, np.random.default_rng([s.seed, 0]))
        quota = shared_out(np.bincount(pool.labels, minlength=pool.num_classes), budget)  # (c,)
        rows, reasons = [], []
        for label in np.flatnonzero(quota).tolist():
            members, share = np.flatnonzero(pool.labels == label), int(quota[label])
            chosen, why = choose(self, pool.take(members), share, np.random.default_rng([s.seed, label + 1]))
            rows.append(members[chosen])
            reasons += [f"class {pool.name_of(label)}: {reason}" for reason in why]
        return np.concatenate(rows), reasons


def _ranked(picker: Picker, pool: Pool, budget: int, rng: np.random.Generator) -> Picks:
    """The hardest first, or the easiest; among equals the smaller id."""
    assert pool.harder is not None and pool.values is not None
    method = picker.settings.method
    rows = np.argsort(pool.harder if method == "easiest" else -pool.harder, kind="stable")[:budget]
    word = method if method in ("hardest", "easiest") else "least sure"
    name = method if method == "margin" else pool.by
    return rows, [f"{word}, rank {rank}: {name} {number(pool.values[row])}" for rank, row in enumerate(rows.tolist(), 1)]


def _random(picker: Picker, pool: Pool, budget: int, rng: np.random.Generator) -> Picks:
    return rng.permutation(len(pool))[:budget], ["drawn at random"] * budget


def _coverage(picker: Picker, pool: Pool, budget: int, rng: np.random.Generator) -> Picks:
    assert pool.harder is not None and pool.values is not None
    rows, stratum = coverage(pool.harder, budget, picker.settings.cut, rng)
    return rows, [
        f"stratum {at + 1} of {num_strata(budget)} from easy to hard: {pool.by} {number(value)}"
        for at, value in zip(stratum.tolist(), pool.values[rows].tolist(), strict=True)
    ]


def _k_center(picker: Picker, pool: Pool, budget: int, rng: np.random.Generator) -> Picks:
    assert pool.unit is not None
    rows, cosines = k_center(pool.unit, budget, pool.centers, picker.progress)
    degrees = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    others = "the labeled samples and those chosen before" if pool.centers is not None else "all chosen before"
    words = [f"{angle:.1f} degrees from {others}" for angle in degrees.tolist()]
    return rows, words if pool.centers is not None else ["nearest to the mean direction", *words[1:]]


def _d2(picker: Picker, pool: Pool, budget: int, rng: np.random.Generator) -> Picks:
    assert pool.unit is not None and pool.harder is not None and pool.values is not None
    edges = neighbor_graph(pool.unit, picker.settings.neighbors, picker.progress)
    rows, left = d2(pool.harder, *edges, budget)
    return rows, [
        f"hard among its neighbors: {number(had)} left, {pool.by} {number(value)}"
        for had, value in zip(left.tolist(), pool.values[rows].tolist(), strict=True)
    ]


METHODS: dict[str, Callable[[Picker, Pool, int, np.random.Generator], Picks]] = {
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

"""Strata of hardness: a subset that covers every level of it (Zheng et al., ICLR 2023: coverage-centric selection).

The hardest samples are cut off, since a small subset of them holds mostly wrong labels and exceptions. The rest is cut into
strata of equal width, and the budget is shared over them from the smallest up: a stratum that has fewer samples than its
share gives all of them, and the others share what it leaves.
"""

from __future__ import annotations

import numpy as np

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

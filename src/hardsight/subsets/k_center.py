"""k-center: a subset that leaves no sample far from it (Sener and Savarese, ICLR 2018).

Greedy: the next sample is the one farthest from all chosen so far. Distances are those between directions, since a feature's
length says how sure the network is and not what it sees. One sample costs a pass over all features, which is limited by
memory; so the products of the next candidates are made together, and most of the samples chosen next are among them. The
result is the same as one by one. Memory: the features, and a few numbers per sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hardsight.threads import blocks, share

AHEAD = 16  # candidates whose products are made together
BLOCK = 4096  # rows of one product

Counted = Callable[[int, int], None]  # samples chosen, samples to choose


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

"""D2: hard samples that are not all of one place (Maharana, Yadav, Bansal, ICLR 2024).

On a graph of nearest neighbors, hardness first flows in: a sample among hard ones becomes harder. Then the hardest is taken
again and again, and each time its neighbors lose what it had, so that the next one comes from elsewhere:

    h_i  <-  h_i + sum_j e_ij h_j            e_ij = exp(-|x_i - x_j|^2) of directions, j among the k nearest of i
    h_j  <-  h_j - e_ij h_i                  for the neighbors j of the one that was taken, i
"""

from __future__ import annotations

import numpy as np

from hardsight.scores.search import QUERIES, Candidates
from hardsight.subsets.k_center import Counted
from hardsight.threads import blocks, share


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

"""What the labels of a sample's neighbors say of it: votes, and how they are mixed with other predictions."""

from __future__ import annotations

import numpy as np

from hardsight.quality.neighbors import SAMPLE, find_nearby

TINY = 1e-12  # what a probability of zero counts as in a logarithm
VOTERS = 20  # samples per class from which the labels of ten neighbors say something


def enough_voters(labels: np.ndarray, originals: np.ndarray | None = None) -> bool:
    """Whether there are enough samples per class for the labels of neighbors to say something; copies count once."""
    distinct = len(labels) if originals is None else len(np.unique(originals))
    return min(SAMPLE, distinct) >= VOTERS * len(np.unique(labels))


def neighbor_probs(nearest: np.ndarray, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Shares of the classes among the labels of the neighbors, with the shares of all labels as one more: -> (n, c).

    Example:
        >>> nearest, labels = np.array([[1, 2], [0, -1], [0, 1]]), np.array([0, 0, 1])
        >>> neighbor_probs(nearest, labels, 2).round(3)
        array([[0.556, 0.444],
               [0.833, 0.167],
               [0.889, 0.111]])
    """
    known = labels >= 0
    everyone = np.bincount(labels[known], minlength=num_classes) / max(1, known.sum())  # (c,)
    votes = np.tile(everyone, (len(nearest), 1))  # (n, c)
    of_neighbor = np.where(nearest >= 0, labels[nearest], -1)  # (n, k)
    for column in of_neighbor.T:
        has = np.flatnonzero(column >= 0)
        votes[has, column[has]] += 1
    return votes / votes.sum(axis=1, keepdims=True)


def mixed(probs: np.ndarray, others: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mixture of two (n, c) predictions that gives the (n,) labels the highest likelihood, by shares of a tenth."""
    rows = np.flatnonzero((labels >= 0) & np.isfinite(probs).all(axis=1))
    first, second = probs[rows, labels[rows]], others[rows, labels[rows]]
    shares = np.linspace(0, 1, 11)
    likelihood = [np.log(np.maximum(share * first + (1 - share) * second, 1e-12)).mean() for share in shares]
    best = shares[int(np.argmax(likelihood))]
    return best * probs + (1 - best) * others


def votes_by_probs(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What the labels of the ten samples that are predicted most alike say: (n, c), (n,) -> (n, c).

    Alike are centered log-probabilities of nearly the same direction.
    """
    logs = np.log(np.maximum(probs, TINY))
    nearby = find_nearby(logs - logs.mean(axis=1, keepdims=True))
    return neighbor_probs(nearby.rows, labels, probs.shape[1])

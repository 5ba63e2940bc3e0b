"""What the neighbors say: the labels of the nearest samples, at one layer of a network or at one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_count, check_labels, to_numpy, widened
from hardsight.errors import InputError
from hardsight.scores.registry import Fitted, FittedTo, GivenArrays, dataset_score, plain_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.scores.sweep import Sweep
from hardsight.threads import blocks, share


def neighbors_vote(features: Any, labels: np.ndarray, k: int) -> np.ndarray:
    """(n,) the class that most of the k nearest labeled others of each row of (n, d) have, the lowest among equals.

    -1 where there is none to ask, or a feature is not finite.
    """
    x = to_numpy(widened(features))
    usable = np.isfinite(x).all(1)
    voters, asking = np.flatnonzero(usable & (labels >= 0)), np.flatnonzero(usable)
    result = np.full(len(x), -1)
    if len(voters) == 0:
        return result
    centered = x - x[voters].mean(0, dtype=np.float64).astype(x.dtype)  # distances do not change, and keep their digits
    candidates = Candidates(lengths=True)
    candidates.add(centered[voters], voters)
    num_classes = int(labels.max()) + 1

    def ask(part: slice) -> None:
        at = asking[part]
        _, nearest = candidates.nearest(centered[at], k, at)  # (q, k)
        votes = np.zeros((len(at), num_classes + 1), np.int64)  # the last column takes those that are not there
        np.add.at(votes, (np.arange(len(at))[:, None], np.where(nearest >= 0, labels[nearest], num_classes)), 1)
        result[at] = np.where((nearest >= 0).any(1), votes[:, :-1].argmax(1), -1)

    share(ask, blocks(len(asking), QUERIES))
    return result


def depth_of(votes: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(l, n) votes of l layers and (n,) predictions -> (n,) first layer, from 0, from which on all votes are the prediction."""
    agree = np.asarray(votes) == predicted  # (l, n)
    to_the_end = np.logical_and.accumulate(agree[::-1], axis=0).sum(0)  # layers at the end that all agree
    return np.where(predicted >= 0, float(len(agree)) - to_the_end, np.nan)


@plain_score(
    "layers",
    hard="high",
    range="0 to l",
    formula="min {i : the k nearest at layers i, ..., l - 1 all vote for the predicted class}, l if there is none, k = 30",
    source="Baldock, Maennel, Neyshabur, NeurIPS 2021 (prediction depth)",
    labels=False,
)
def prediction_depth(layers: Sequence[Any], labels: Any, predicted: Any, *, k: int = 30) -> np.ndarray:
    """Prediction depth: the first of l layers from which on nearest neighbors predict what the network ends with.

    0 is a sample whose neighbors agree with the network from the first layer given; l is one that they do not agree on even
    at the last. A sample is not its own neighbor. In a run the layers are those of `hardsight extract --layers a,b,c`.

    Args:
        layers: l arrays (n, d) of features, from the first layer to the last; d may differ.
        labels: (n,) given class; unlabeled samples have no vote.
        predicted: (n,) class that the network predicts.
        k: neighbors that vote, by distance; all there are, if fewer.

    Example:
        >>> first, last = np.array([[0.0], [1.0], [0.1], [1.1]]), np.array([[0.0], [0.1], [1.0], [1.1]])
        >>> prediction_depth([first, last], [0, 0, 1, 1], [0, 0, 1, 1], k=1)  # only the last layer has the classes apart
        array([1., 1., 1., 1.])
    """
    matrices = [as_matrix(layer, "layers") for layer in layers]
    if not matrices:
        raise InputError("prediction_depth needs the features of at least one layer.")
    sizes = {len(matrix) for matrix in matrices}
    if len(sizes) > 1:
        raise InputError(f"all layers must have the same samples, got {' and '.join(map(str, sorted(sizes)))} rows.")
    labels = check_labels(labels, len(matrices[0]), None)
    predicted = check_labels(predicted, len(matrices[0]), None)
    k = check_count(k, "k", least=1)
    return depth_of(np.stack([neighbors_vote(matrix, labels, k) for matrix in matrices]), predicted)


class Neighbors(Fitted):
    """Unit features of all labeled samples, kept in memory as float32: n x d x 4 bytes."""

    fits_labels = True

    def __init__(self, k: int = 10) -> None:
        self.k = check_count(k, "k", least=1)
        self.candidates = Candidates()
        self.classes = np.empty(0, np.int64)  # (n,) of the rows seen so far
        self.asked = 0  # rows passed by of

    def see(self, x: Any, rows: Sweep) -> None:
        """Keep the directions and labels of a batch."""
        known = np.flatnonzero(_directed(rows))
        self.candidates.add(unit_rows(x, known, rows.norm), len(self.classes) + known)
        self.classes = np.append(self.classes, rows.labels)

    def values_of(self, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) share of the k nearest that have the given class."""
        result = np.full(len(rows.labels), np.nan)
        scored = np.flatnonzero(_directed(rows))

        def ask(part: np.ndarray) -> None:
            _, nearest = self.candidates.nearest(unit_rows(x, part, rows.norm), self.k, self.asked + part)  # (q, k)
            there = nearest >= 0
            same = (self.classes[nearest] == rows.labels[part, None]) & there
            with np.errstate(invalid="ignore"):
                result[part] = same.sum(1) / there.sum(1)

        share(ask, [scored[start : start + QUERIES] for start in range(0, len(scored), QUERIES)])
        self.asked += len(rows.labels)
        return result


def _directed(rows: Sweep) -> np.ndarray:
    """(b,) whether a row has a label and a direction from zero; a Gaussian head may score one that is all zeros."""
    return rows.labeled & rows.ok & (rows.norm > 0)


def unit_rows(x: Any, rows: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Some rows of (n, d) features at unit length, as float32; norm (n,) are their lengths."""
    chosen = to_numpy(x[rows]).astype(np.float64)
    return (chosen / norm[rows, None]).astype(np.float32)


@dataset_score(
    lambda head, k: Neighbors(k),
    hard="low",
    range="[0, 1]",
    formula="share of the k nearest samples by cosine that carry the same label, k = 10",
    source="k nearest neighbors",
)
def knn_agreement(features: Any, labels: Any, *, k: int = 10) -> FittedTo:
    """Share of a sample's k nearest neighbors (cosine, itself left out) that carry its label."""
    return GivenArrays(features, labels=labels), Neighbors(k)

"""How deep in a network a prediction is made: nearest neighbors in the features of one layer after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_count, check_labels, to_numpy, widened
from hardsight.errors import InputError
from hardsight.scores.registry import plain_score
from hardsight.scores.search import QUERIES, Candidates
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

"""Several views of one sample: what several models, several layers of a network, or several checkpoints of a training say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_count, check_labels, given_probs, to_numpy, widened
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.scores.probabilities import probs_to_logits
from hardsight.scores.registry import plain_score
from hardsight.scores.search import QUERIES, Candidates
from hardsight.stats.uncertainty import entropy_of
from hardsight.threads import blocks, share

# ---- models ----


@plain_score(
    "models",
    hard="low",
    range="[0, 1]",
    formula="1 - (H(mean_m p_m) - mean_m H(p_m)) / log M, H the entropy, p_m the probabilities of model m of M",
    source="Carlini, Erlingsson, Papernot, 2019 (agreement)",
    labels=False,
)
def model_agreement(probs: Sequence[Any] | None = None, *, pred_probs: Sequence[Any] | None = None) -> np.ndarray:
    """Agreement of several models on a sample: 1 where all give the same probabilities, 0 where each is sure of another class.

    One less the Jensen-Shannon divergence of their probabilities, as a share of the largest there can be among M models. No
    label is needed.

    Args:
        probs: M arrays (n, c), one per model, or one array (M, n, c); `pred_probs` is another name of them.

    Example:
        >>> one, other = np.array([[1.0, 0.0], [0.7, 0.3]]), np.array([[0.0, 1.0], [0.7, 0.3]])
        >>> model_agreement([one, other]).round(4)
        array([0., 1.])
    """
    given = given_probs(probs, pred_probs)
    tables = [] if given is None else [as_matrix(table, "probs") for table in given]
    if len(tables) < 2:
        raise InputError(f"model_agreement compares at least two models, got {len(tables)}.")
    shapes = {tuple(table.shape) for table in tables}
    if len(shapes) > 1:
        raise InputError(
            f"all models must have the same samples and classes, got probs of shape {' and '.join(map(str, shapes))}."
        )
    for table in tables:
        probs_to_logits(table)  # refuses what is no distribution
    stacked = np.stack([to_numpy(table).astype(np.float64) for table in tables])  # (M, n, c)
    divergence = entropy_of(stacked.mean(0)) - entropy_of(stacked).mean(0)  # (n,)
    return 1 - np.clip(divergence / np.log(len(tables)), 0.0, 1.0)


# ---- layers ----


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


# ---- checkpoints ----


def within_class(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) values less the mean of their class, over its standard deviation; 0 where a class does not vary, NaN unlabeled."""
    result = np.full(len(values), np.nan)
    for label in np.unique(labels[labels >= 0]):
        mine = (labels == label) & np.isfinite(values)
        if mine.any():
            spread = values[mine].std()
            result[mine] = (values[mine] - values[mine].mean()) / (spread if spread > 0 else 1.0)
    return result


@plain_score(
    "checkpoints",
    hard="high",
    range="(-inf, inf)",
    formula="(v - mean v') / std v' over v' of the same class; v = mean over pixels of var_e (d z_y / d pixel)",
    source="Agarwal, D'souza, Hooker, CVPR 2022 (VoG)",
)
def vog(gradients: Any, labels: Any) -> np.ndarray:
    """Variance of gradients: how much the pixels that matter for the given class change from checkpoint to checkpoint.

    Standardized within the class: 0 is usual, high is a sample that the training went on working at. A run has the
    checkpoints if it was trained with `--keep-epochs`.

    Args:
        gradients: (e, n, ...) derivatives of the given class's logit in the pixels, for e checkpoints and n samples.
        labels: (n,) given class.

    Example:
        >>> still, moving = [[1.0, 2.0], [1.0, 2.0]], [[1.0, 0.0], [-1.0, 0.0]]  # two checkpoints, two pixels
        >>> vog(np.stack([still, moving], axis=1), [0, 0])
        array([-1.,  1.])
    """
    table = to_numpy(gradients).astype(np.float64)
    if table.ndim < 2 or table.shape[0] < 2:
        raise InputError(f"gradients must be (e, n, ...) with at least two checkpoints, got shape {table.shape}.")
    variance = table.var(0)  # (n, ...)
    labels = whole_labels(labels, table.shape[1], None)
    return within_class(variance.reshape(len(variance), -1).mean(1), labels)

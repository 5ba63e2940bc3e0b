"""Several models, or one model at several checkpoints of its training: do they say the same of a sample?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, given_probs, to_numpy
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.scores.probabilities import probs_to_logits
from hardsight.scores.registry import plain_score
from hardsight.stats.uncertainty import entropy_of


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

"""Gradients of the given class's logit in the input, over the checkpoints of a training."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.scores.registry import plain_score


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

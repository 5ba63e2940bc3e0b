"""Plain logistic regression on the source: what every method should be better than.

On features it sees what the head sees, standardized alike; of images, what the source model makes of them.
"""

from __future__ import annotations

import numpy as np

from hardsight.errors import InputError
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.threads import even_rows

BASELINE = "logistic regression"
ROWS = 20_000  # source samples it is fitted on, at most


def logistic_regression(source: np.ndarray, labels: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Fit on the source, predict the target; rows with a number that is not finite are left out, and predicted -1.

    Args:
        source: (n, d) features.
        labels: (n,) their classes.
        target: (m, d) features.

    Returns:
        (m,) int64 class.

    Example:
        >>> logistic_regression(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([3, 3, 5, 5]), np.array([[-9.0], [9.0]]))
        array([3, 5])
    """
    rows = np.flatnonzero(np.isfinite(source).all(1) & (labels >= 0))
    rows = rows[even_rows(len(rows), ROWS)]
    usable = np.isfinite(target).all(1)
    present, own = np.unique(labels[rows], return_inverse=True)
    predicted = np.full(len(target), -1)
    if not len(present):
        return predicted
    predicted[usable] = present[np.bincount(own).argmax()]  # where nothing can be told apart: the largest class
    if len(present) > 1:
        try:
            with unconverged():
                head = fit_head(source[rows], own, len(present))
        except InputError:  # features that are too large
            return predicted
        predicted[usable] = present[head.logits(target[usable]).argmax(1)]
    return predicted

"""Features at length 1, for losses that look at directions alone."""

from __future__ import annotations

import numpy as np


def directions(features: np.ndarray) -> np.ndarray:
    """(n, d) features scaled to length 1; a row of zeros, which a ReLU can leave, stays as it is.

    Example:
        >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)

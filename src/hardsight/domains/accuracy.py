"""Accuracy where every class counts the same, whatever its number of samples."""

from __future__ import annotations

import numpy as np


def class_accuracies(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> list[float | None]:
    """Share of each class's samples that are predicted right; None for a class without any.

    Example:
        >>> class_accuracies(np.array([0, 0, 1, -1]), np.array([0, 1, 1, 0]), 3)
        [0.5, 1.0, None]
    """
    known = labels >= 0
    counts = np.bincount(labels[known], minlength=num_classes)
    right = np.bincount(labels[known & (labels == predicted)], minlength=num_classes)
    return [float(right[k] / counts[k]) if counts[k] else None for k in range(num_classes)]


def mean_accuracy(accuracies: list[float | None]) -> float | None:
    """The unweighted mean over the classes that have samples: each class counts the same."""
    known = [value for value in accuracies if value is not None]
    return float(np.mean(known)) if known else None

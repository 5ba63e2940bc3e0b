"""How well a score finds the samples that are hard: AUROC, average precision, and what a budget misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detection:
    """How well hard samples are found.

    Attributes:
        auroc: the chance that a hard sample ranks before an easy one; 0.5 is a guess.
        average_precision: mean share of hard samples among those ranked first, taken where each hard sample stands.
        missed: share of the hard samples that are not among the first m, where m is how many of them there are.
    """

    auroc: float
    average_precision: float
    missed: float


def detection(score: np.ndarray, hard: np.ndarray) -> Detection:
    """How well a score that is high on hard samples finds them: (n,) numbers and (n,) bool.

    Samples without a score come last. Equal scores are in no order: a pair of them is half won, and what a budget misses of
    them is an expectation.

    Example:
        >>> detection(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
        Detection(auroc=0.75, average_precision=0.8333333333333333, missed=0.5)
    """
    _, level = np.unique(-np.where(np.isnan(score), -np.inf, score), return_inverse=True)  # (n,) 0 is the highest score
    hits, size = np.bincount(level, weights=hard), np.bincount(level)  # (levels,)
    easy, m = size - hits, int(hard.sum())
    below = easy.sum() - np.cumsum(easy) + easy / 2  # easy samples that rank behind a level; of its own, half
    precision = np.cumsum(hits) / np.cumsum(size)
    left = np.clip(m - (np.cumsum(size) - size), 0, size)  # of a level, how many the budget still takes
    return Detection(
        float((hits * below).sum() / (m * easy.sum())),
        float((hits * precision).sum() / m),
        float(1 - (hits / size * left).sum() / m),
    )

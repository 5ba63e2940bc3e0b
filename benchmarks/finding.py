"""How well a score detects hard samples: AUROC, average precision, and the share missed by a budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detection:
    """How well hard samples are found.

    Attributes:
        auroc: the probability that a hard sample ranks before an easy one; 0.5 is chance level.
        average_precision: mean precision at the rank of each hard sample.
        missed: share of the hard samples that are not among the first m, where m is the number of hard samples.
    """

    auroc: float
    average_precision: float
    missed: float


def detection(score: np.ndarray, hard: np.ndarray) -> Detection:
    """How well a score that is high on hard samples detects them: (n,) scores and (n,) bool.

    Samples without a score come last. Ties are unordered: a tied pair counts half, and the share missed among ties is an
    expected value.

    Example:
        >>> detection(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
        Detection(auroc=0.75, average_precision=0.8333333333333333, missed=0.5)
    """
    _, level = np.unique(-np.where(np.isnan(score), -np.inf, score), return_inverse=True)  # (n,) 0 is the highest score
    hits, size = np.bincount(level, weights=hard), np.bincount(level)  # (levels,)
    easy, m = size - hits, int(hard.sum())
    below = easy.sum() - np.cumsum(easy) + easy / 2  # easy samples ranked below a level, plus half of its own
    precision = np.cumsum(hits) / np.cumsum(size)
    left = np.clip(m - (np.cumsum(size) - size), 0, size)  # how many of a level still fit in the budget
    return Detection(
        float((hits * below).sum() / (m * easy.sum())),
        float((hits * precision).sum() / m),
        float(1 - (hits / size * left).sum() / m),
    )

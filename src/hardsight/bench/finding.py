"""How well a score finds the samples that are hard: AUROC, average precision, and what a budget misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Found:
    """How well hard samples are found.

    Attributes:
        auroc: the chance that a hard sample ranks before an easy one; 0.5 is a guess.
        average_precision: mean share of hard samples among those ranked first, taken where each hard sample stands.
        missed: share of the hard samples that are not among the first m, where m is how many of them there are.
    """

    auroc: float
    average_precision: float
    missed: float


def found(score: np.ndarray, hard: np.ndarray) -> Found:
    """How well a score that is high on hard samples finds them: (n,) numbers and (n,) bool.

    Samples without a score come last. Equal scores are in no order: what a budget misses of them is an expectation.

    Example:
        >>> found(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
        Found(auroc=0.75, average_precision=0.8333333333333333, missed=0.5)
    """
    from scipy.stats import rankdata
    from sklearn.metrics import average_precision_score, roc_auc_score

    score = rankdata(np.where(np.isnan(score), -np.inf, score), "min")  # only the order counts
    return Found(float(roc_auc_score(hard, score)), float(average_precision_score(hard, score)), missed(score, hard))


def missed(score: np.ndarray, hard: np.ndarray) -> float:
    """Share of the m hard samples that are not among the m with the highest scores."""
    m = int(hard.sum())
    least = np.partition(score, -m)[-m]  # the lowest score that the budget reaches
    above, tied = score > least, score == least
    hits = hard[above].sum() + hard[tied].mean() * (m - above.sum())
    return float(1 - hits / m)

"""Which class is labeled as which other: the structure of the noise, from out-of-sample probabilities.

A confident disagreement is a sample labeled y to which the model gives another class k with a probability of at least k's
usual one. Their counts (Northcutt et al., "Confident Learning", JAIR 2021) say which pairs of classes are mixed up. Single
counts are small, so each is drawn towards what even noise would give, by as much as the counts themselves vary
(empirical Bayes): even noise gives factors of 1, and pair flips give large factors for the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.threads import blocks, share

ROWS = 8192  # looked at together
SIGNIFICANT = 3.0  # standard errors: factors that vary less than that would only add noise
STRENGTH = 10.0  # the mistakes of the model are among the counts: factors are drawn further towards 1 than the counts alone ask


def confident_counts(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many samples labeled y are confidently of class k: (n, c), (n,) -> (c, c), row k, column y.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.9, 0.1]])
        >>> confident_counts(probs, np.array([0, 0, 1, 1]))  # the last is labeled 1, and confidently 0
        array([[1, 1],
               [0, 1]])
    """
    c = probs.shape[1]
    usual = usual_probability(probs, labels)  # (c,)
    best = np.full(len(labels), -1)

    def work(rows: slice) -> None:
        part = probs[rows]
        confident = np.where(part >= usual, part, -1.0)  # (b, c)
        best[rows] = np.where(confident.max(axis=1) >= 0, confident.argmax(axis=1), -1)

    share(work, blocks(len(labels), ROWS))
    known = best >= 0
    return np.bincount(best[known] * c + labels[known], minlength=c * c).reshape(c, c)


def usual_probability(probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(c,) mean probability of each class over the samples labeled so; infinite for a class without any."""
    c = probs.shape[1]
    own = probs[np.arange(len(labels)), labels].astype(np.float64)  # (n,)
    count = np.bincount(labels, minlength=c)
    total = np.bincount(labels, weights=own, minlength=c)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def noise_factors(counts: np.ndarray, strength: float = STRENGTH) -> np.ndarray:
    """How much more often class k is labeled y than under even noise: (c, c) counts -> (c, c) factors, 1 on the diagonal.

    With o disagreements counted in a cell and e expected, the factor is (a + o) / (a + e): the mean of a gamma-distributed
    factor given a Poisson count. The variance of the factors beyond that of the counts is
    strength / a; where it is not significant, all factors are 1.
    """
    c = len(counts)
    off = ~np.eye(c, dtype=bool)
    wrong = counts[off].sum()
    if wrong == 0 or c < 3:
        return np.ones((c, c))
    size = counts.sum(axis=1, keepdims=True)  # (c, 1)
    expected = np.where(off, size * (wrong / (c - 1) / size.sum()), 0.0)  # (c, c), sums to `wrong`
    squares = (expected**2).sum()
    beyond = (((counts - expected) ** 2 - expected) * off).sum() / squares  # variance of the factors
    by_chance = np.sqrt((2 * expected**2 + expected)[off].sum()) / squares  # its standard error under even noise
    if beyond <= SIGNIFICANT * by_chance:
        return np.ones((c, c))
    a = strength / beyond
    return np.where(off, (a + counts) / (a + expected), 1.0)


@dataclass(frozen=True)
class Noise:
    """How classes are mixed up: (c, c) factors each, row k, column y."""

    factors: np.ndarray  # for the ranking, drawn far towards 1
    chances: np.ndarray  # as the counts have them: how made-up errors are weighted

    @property
    def even(self) -> bool:
        """Whether every class is mislabeled as every other equally often, as far as the counts can tell."""
        return bool((self.factors == 1).all())


def estimated_noise(probs: np.ndarray, labels: np.ndarray) -> Noise:
    """From (n, c) probabilities and (n,) labels."""
    counts = confident_counts(probs, labels)
    return Noise(noise_factors(counts), noise_factors(counts, 1.0))

"""Which class is labeled as which other: the structure of the noise, from out-of-sample probabilities.

A confident disagreement is a sample labeled y to which the model gives another class k with a probability of at least k's
usual one. Their counts (Northcutt et al., "Confident Learning", JAIR 2021) say which pairs of classes are mixed up. Single
counts are small, and the mistakes of the model are among them: each is drawn towards what is expected (empirical Bayes).
Even noise gives factors of 1, and pair flips give large factors for the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.threads import blocks, share

ROWS = 8192  # looked at together
SIGNIFICANT = 3.0  # standard errors: factors that vary less than that would only add noise


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


def noise_factors(counts: np.ndarray) -> np.ndarray:
    """How much more often class k is labeled y than expected: (c, c) counts -> (c, c) factors, 1 on the diagonal.

    With o disagreements counted in a cell and e expected, the factor is (a + o) / (a + e): the mean of a gamma-distributed
    factor given a Poisson count, 1/a the variance of the factors. What a model mixes up, it mixes up both ways; what runs one
    way is noise. So e is that of even noise as far as the counts run one way, and their mean over both ways otherwise. Where
    they do not run one way more than by chance, all factors are 1.
    """
    c = len(counts)
    off = ~np.eye(c, dtype=bool)
    share = one_way(counts)
    if c < 3 or share == 0:
        return np.ones((c, c))
    size, wrong = counts.sum(axis=1, keepdims=True), counts[off].sum()
    even = np.where(off, size * (wrong / (len(counts) - 1) / size.sum()), 0.0)  # (c, c) under even noise, sums to `wrong`
    beyond = float(((counts - even) ** 2 - even)[off].sum() / (even**2).sum())  # variance of the factors beyond the counts'
    both_ways = np.where(off, (counts + counts.T) / 2, 0.0)
    expected = share * even + (1 - share) * both_ways
    a = 1 / max(beyond, 1e-9)
    return np.where(off, (a + counts) / (a + expected), 1.0)


def one_way(counts: np.ndarray) -> float:
    """Share of the squared (c, c) counts that runs from one class to another and not back: 0 (also by chance) to 1."""
    off = ~np.eye(len(counts), dtype=bool)
    mean, half = np.where(off, (counts + counts.T) / 2, 0.0), (counts - counts.T) / 2
    squares = (mean**2).sum()
    if squares == 0:
        return 0.0
    share = (half**2 - mean / 2)[off].sum() / squares  # mean / 2 is the variance of half the difference by chance
    by_chance = np.sqrt((mean**2 / 2 + mean / 8)[off].sum()) / squares
    return float(min(share, 1.0)) if share > SIGNIFICANT * by_chance else 0.0


@dataclass(frozen=True)
class Noise:
    """How classes are mixed up: (c, c) factors each, row k, column y."""

    factors: np.ndarray  # for the ranking
    one_way: float  # how far the counts run from one class to another and not back: 0 (also by chance) to 1


def estimated_noise(probs: np.ndarray, labels: np.ndarray) -> Noise:
    """From (n, c) probabilities and (n,) labels. A class that nothing is labeled as is no wrong label, either.

    Example:
        >>> estimated_noise(np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]]), np.array([0, 1])).factors.shape
        (3, 3)
    """
    c = probs.shape[1]
    given = np.unique(labels)
    counts = confident_counts(probs, labels)[np.ix_(given, given)]
    factors = np.ones((c, c))
    factors[np.ix_(given, given)] = noise_factors(counts)
    return Noise(factors, one_way(counts))

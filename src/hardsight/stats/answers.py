"""Human answers: how often people chose the given class, how much they disagreed, and how reliable that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.pandas_index import align, counted_by, in_class_order
from hardsight.stats.coefficients import COEFFICIENTS, Kind
from hardsight.stats.uncertainty import entropy_of

Measure = Literal["frequency", "entropy"]


MOST_ANSWERS = 10**9  # per sample: NumPy's limit for drawing halves


def check_counts(counts: Any) -> np.ndarray:
    """(n, c) whole, non-negative counts of answers; rows without answers are allowed and mean "unknown"."""
    array = to_numpy(counts)
    if array.ndim != 2:
        raise InputError(f"counts must be (n, c), one row per sample and one column per class, got shape {array.shape}.")
    if array.dtype.kind not in "fiu":
        raise InputError(f"counts must be whole numbers, got {array.dtype}.")
    array = array.astype(np.float64)
    bad = ~((array >= 0) & (array < MOST_ANSWERS) & (np.floor(array) == array))  # NaN, too
    if bad.any():
        row, column = (int(index[0]) for index in np.nonzero(bad))
        hint = " Pass relative frequencies as one column, that of the given class." if 0 < array[row, column] < 1 else ""
        raise InputError(
            f"counts must be whole, 0 or more and below 10^9, but row {row} has {array[row, column]:g} for class {column}.{hint}"
        )
    answers = array.sum(1)
    if (answers >= MOST_ANSWERS).any():
        row = int(answers.argmax())
        raise InputError(f"a sample must have fewer than 10^9 answers, but the counts of row {row} add up to {answers[row]:g}.")
    return array.astype(np.int64)


def selection_frequency(counts: Any, labels: Any) -> np.ndarray:
    """(n,) b / m: the share of the m people shown a sample who chose its given class. NaN without answers.

    Example:
        >>> selection_frequency([[3, 1], [0, 0]], [0, 1])
        array([0.75,  nan])
    """
    counts, labels = _counts_and_labels(counts, labels)
    chosen = counts[np.arange(len(counts)), np.maximum(labels, 0)].astype(np.float64)
    answers = counts.sum(1)
    return np.where((answers > 0) & (labels >= 0), chosen / np.maximum(answers, 1), np.nan)


def _counts_and_labels(counts: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n, c) counts, and (n,) labels that number their columns."""
    counts = in_class_order(counts)
    labels = counted_by(align(labels, "labels", counts, "counts"), counts, 1)
    counts = check_counts(counts)
    return counts, whole_labels(labels, len(counts), counts.shape[1])


def answer_entropy(counts: Any) -> np.ndarray:
    """(n,) entropy of the answers in nats: 0 if all agree, log c if they are spread evenly. NaN without answers.

    Example:
        >>> answer_entropy([[2, 2], [5, 0]]).round(4)
        array([0.6931, 0.    ])
    """
    counts = check_counts(counts)
    return np.where(counts.sum(1) > 0, _entropy(counts), np.nan)


def _entropy(counts: np.ndarray) -> np.ndarray:
    return entropy_of(counts / np.maximum(counts.sum(1, keepdims=True), 1))


@dataclass(frozen=True)
class Ceiling:
    """How well one half of the people predicts the other, which bounds what any score can reach."""

    kind: Kind
    split_half: float  # correlation of the two halves, averaged over the splits
    reliability: float  # of all answers combined (Spearman-Brown)
    ceiling: float  # highest correlation that a score can be expected to reach
    splits: int
    n: int  # samples with two answers or more


def noise_ceiling(
    counts: Any, labels: Any, *, kind: Kind = "spearman", of: Measure = "frequency", splits: int = 100, seed: int = 0
) -> Ceiling:
    """Split-half reliability of human data: each sample's answers are split at random, and the halves correlated.

    A half has half the answers, so the Spearman-Brown formula turns the correlation r of the halves into 2 r / (1 + r) for all
    answers. Its square root is the highest correlation that a perfect score can be expected to have with this data.
    For Pearson this is exact in expectation; for ranks it is an approximation.
    """
    return noise_ceilings(counts, labels, (kind,), of=of, splits=splits, seed=seed)[kind]


def noise_ceilings(
    counts: Any, labels: Any, kinds: Sequence[Kind], *, of: Measure = "frequency", splits: int = 100, seed: int = 0
) -> dict[Kind, Ceiling]:
    """`noise_ceiling` of several coefficients, from the same splits."""
    counts, labels = _counts_and_labels(counts, labels)
    usable = (counts.sum(1) >= 2) & (labels >= 0)
    if usable.sum() < 4:
        raise InputError(
            f"a split into halves needs at least 4 samples with two answers or more, got {usable.sum()} of {len(counts)}."
        )
    counts, labels = counts[usable], labels[usable]
    if of == "frequency":  # only the given class against all others counts
        chosen = counts[np.arange(len(counts)), labels]
        counts, labels = np.stack([chosen, counts.sum(1) - chosen], axis=1), np.zeros(len(chosen), dtype=np.int64)
    rng = np.random.default_rng(seed)
    coefficients: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    for _ in range(splits):
        half = _half(counts, rng)
        first, second = (_measure(part, labels, of) for part in (half, counts - half))
        for kind in kinds:
            coefficients[kind].append(COEFFICIENTS[kind](first, second))
    return {kind: _ceiling(kind, float(np.mean(values)), splits, len(counts)) for kind, values in coefficients.items()}


def _ceiling(kind: Kind, r: float, splits: int, n: int) -> Ceiling:
    if r <= 0:
        raise InputError(f"the two halves of the people do not agree (correlation {r:.3f}): there is nothing to reach.")
    reliability = 2 * r / (1 + r)
    return Ceiling(kind, r, reliability, float(np.sqrt(reliability)), splits, n)


def _measure(counts: np.ndarray, labels: np.ndarray, of: Measure) -> np.ndarray:
    if of == "entropy":
        return _entropy(counts)
    return counts[np.arange(len(counts)), labels] / counts.sum(1)


def _half(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n, c) half of each row's answers, drawn without replacement; if the number is odd, a coin decides which half gets more."""
    answers = counts.sum(1)
    wanted = (answers + rng.integers(0, 2, len(answers))) // 2
    left = answers.copy()
    half = np.zeros_like(counts)
    for k in range(counts.shape[1]):  # a multivariate hypergeometric, class by class
        left -= counts[:, k]
        chosen = np.flatnonzero(counts[:, k])
        half[chosen, k] = rng.hypergeometric(counts[chosen, k], left[chosen], wanted[chosen])
        wanted -= half[:, k]
    return half

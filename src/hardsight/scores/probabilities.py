"""Probabilities in place of logits: their logarithms are swept, and they themselves are reported as they were given.

Saved probabilities are rounded: many are exactly 0, and a row sums to 1 only nearly. Divided by their sum, equal ones
would differ in their last digits, and zeros would become many tiny numbers; ranks would then follow the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, to_numpy
from hardsight.errors import InputError
from hardsight.scores.sweep import Sweep, sweep_logits
from hardsight.scores.terms import EVERYTHING

TINY = float(np.finfo(np.float64).tiny)  # what a probability of zero counts as in a logarithm, so that losses stay finite


@dataclass(frozen=True)
class ProbabilitySweep(Sweep):
    """A sweep of probabilities, with those that were given: of the given class and the largest of another, (n,) each."""

    given_own: np.ndarray
    given_other: np.ndarray

    @property
    def own_probability(self) -> np.ndarray:
        """(n,) of the given class."""
        return self.given_own

    @property
    def largest_probability(self) -> np.ndarray:
        """(n,) of the predicted class."""
        return np.fmax(self.given_own, self.given_other)

    @property
    def probability_margin(self) -> np.ndarray:
        """(n,) of the given class minus the largest of another."""
        return self.given_own - self.given_other

    @property
    def own_loss(self) -> np.ndarray:
        """(n,) -log of the probability of the given class: one value for all zeros."""
        return np.where(self.given_own == 0, -np.log(TINY), super().own_loss)


def sweep_probs(probs: Any, labels: np.ndarray, terms: frozenset[str] = EVERYTHING) -> ProbabilitySweep:
    """`sweep_logits` of (n, c) probabilities and (n,) labels."""
    rows = sweep_logits(probs_to_logits(probs), labels, terms)
    given = to_numpy(probs).astype(np.float64)  # (n, c), a copy
    at, own = np.arange(len(given)), np.maximum(labels, 0)  # unlabeled rows stand in as class 0, as in the sweep
    own_probability = given[at, own]
    given[at, own] = np.nan
    other_probability = np.fmax.reduce(given, axis=1)  # NaN where there is no other class
    return ProbabilitySweep(**vars(rows), given_own=own_probability, given_other=other_probability)


def probs_to_logits(probs: Any) -> Any:
    """(n, c) probabilities -> their logarithms, which are logits up to a constant per row.

    A probability of zero counts as the smallest positive number. Rows with a NaN stay NaN; anything else that is not a
    distribution is refused.
    """
    host = to_numpy(as_matrix(probs, "probs")).astype(np.float64)
    check_distributions(host)
    return np.log(np.maximum(host, TINY))


def check_distributions(host: np.ndarray) -> None:
    """(n, c) rows that are probabilities, or hold a value that is not finite."""
    missing = ~np.isfinite(host).all(1)
    off = ~missing & ((host.min(1, initial=0) < 0) | (np.abs(host.sum(1) - 1) > 1e-2))
    if off.any():
        row, wrong = int(np.flatnonzero(off)[0]), host[off]
        percentages = wrong.min() >= 0 and (np.abs(wrong.sum(1) - 100) < 1).all()
        hint = "They look like percentages: divide by 100." if percentages else "If these are logits, pass them as logits."
        raise InputError(
            f"probs must be probabilities that sum to 1, but {off.sum()} of {len(host)} rows are not; "
            f"row {row} sums to {host[row].sum():.4g} with smallest value {host[row].min():.4g}. {hint}"
        )

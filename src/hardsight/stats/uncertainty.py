"""Uncertainty from several passes over the same samples: MC dropout, or the members of an ensemble.

The entropy of the mean prediction is the total uncertainty. The mean entropy of the passes is the part that remains if the
model is known (aleatoric); the rest is the disagreement between passes (epistemic).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import given_probs, to_numpy
from hardsight.errors import InputError


def pass_scores(probs: Any = None, *, pred_probs: Any = None) -> dict[str, np.ndarray]:
    """(passes, n, c) probabilities, under either name -> (n,) scores, all of them high if a sample is uncertain.

    `passes_entropy` is the entropy of the mean prediction, `passes_aleatoric` the mean entropy of a pass, and
    `passes_information` their difference: the mutual information, which is the epistemic part. `passes_variance` is the
    variance over passes, summed over classes.

    Example:
        >>> sure = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two passes, each sure of another class
        >>> {name: round(float(value[0]), 4) for name, value in pass_scores(sure).items()}
        {'passes_entropy': 0.6931, 'passes_aleatoric': 0.0, 'passes_information': 0.6931, 'passes_variance': 0.5}
    """
    given = given_probs(probs, pred_probs)
    if given is None:
        raise InputError("pass_scores needs probs: (passes, n, c) probabilities.")
    probs = np.asarray(to_numpy(given), dtype=np.float64)
    if probs.ndim != 3:
        raise InputError(f"passes must be (passes, n, c) probabilities, got shape {probs.shape}.")
    passes = Passes()
    for probs_of_pass in probs:
        passes.add(probs_of_pass)
    return passes.scores()


class Passes:
    """Uncertainty from passes that arrive one by one: only sums are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: np.ndarray = np.zeros(0)  # (n, c)
        self.squares: np.ndarray = np.zeros(0)  # (n,) squared deviations from the mean, summed over passes and classes
        self.within: np.ndarray = np.zeros(0)  # (n,) entropies of the passes, summed

    def add(self, probs: np.ndarray) -> None:
        """Add the (n, c) probabilities of another pass."""
        probs = np.asarray(probs, np.float64)
        if not np.isfinite(probs).all() or probs.min(initial=0) < 0 or np.abs(probs.sum(1) - 1).max(initial=0) > 1e-2:
            raise InputError("passes must hold probabilities that sum to 1 over classes. Take the softmax of logits first.")
        if self.count == 0:
            self.mean, self.squares, self.within = np.zeros_like(probs), np.zeros(len(probs)), np.zeros(len(probs))
        self.count += 1
        step = probs - self.mean  # Welford, 1962
        self.mean = self.mean + step / self.count
        self.squares = self.squares + (step * (probs - self.mean)).sum(1)
        self.within = self.within + entropy_of(probs)

    def scores(self) -> dict[str, np.ndarray]:
        """(n,) scores by name, as in `pass_scores`."""
        if self.count < 2:
            raise InputError(f"uncertainty from passes needs at least two, got {self.count}.")
        total, within = entropy_of(self.mean), self.within / self.count
        return {
            "passes_entropy": total,
            "passes_aleatoric": within,
            "passes_information": np.maximum(total - within, 0.0),
            "passes_variance": self.squares / self.count,
        }


def entropy_of(probs: np.ndarray) -> np.ndarray:
    """Entropy over the last axis, in nats; 0 log 0 is 0."""
    return -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(-1) + 0.0

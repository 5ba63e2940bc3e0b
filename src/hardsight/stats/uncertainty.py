"""Uncertainty from several passes over the same samples: MC-dropout, or the members of an ensemble.

The entropy of the mean prediction is all of the uncertainty. The mean entropy of the passes is the part that stays when
the model is known (aleatoric); what the passes disagree about is the rest (epistemic).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import given_probs, to_numpy
from hardsight.errors import InputError


def pass_scores(probs: Any = None, *, pred_probs: Any = None) -> dict[str, np.ndarray]:
    """(passes, n, c) probabilities, by either name -> (n,) scores, all of them high where a sample is uncertain.

    `passes_entropy` is the entropy of the mean prediction, `passes_information` that minus the mean entropy of a pass
    (mutual information), `passes_variance` the variance over passes, summed over classes.

    Example:
        >>> sure = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # two passes, each sure of another class
        >>> {name: round(float(value[0]), 4) for name, value in pass_scores(sure).items()}
        {'passes_entropy': 0.6931, 'passes_information': 0.6931, 'passes_variance': 0.5}
    """
    given = given_probs(probs, pred_probs)
    if given is None:
        raise InputError("pass_scores needs probs: (passes, n, c) probabilities.")
    probs = np.asarray(to_numpy(given), dtype=np.float64)
    if probs.ndim != 3:
        raise InputError(f"passes must be (passes, n, c) probabilities, got shape {probs.shape}.")
    if len(probs) < 2:
        raise InputError(f"uncertainty from passes needs at least two, got {len(probs)}.")
    if not np.isfinite(probs).all() or probs.min(initial=0) < 0 or np.abs(probs.sum(2) - 1).max(initial=0) > 1e-2:
        raise InputError("passes must hold probabilities that sum to 1 over classes. Take the softmax of logits first.")
    mean = probs.mean(0)  # (n, c)
    total = _entropy(mean)
    within = _entropy(probs).mean(0)
    return {
        "passes_entropy": total,
        "passes_information": np.maximum(total - within, 0.0),
        "passes_variance": ((probs - mean) ** 2).mean(0).sum(1),
    }


def _entropy(probs: np.ndarray) -> np.ndarray:
    return -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(-1) + 0.0

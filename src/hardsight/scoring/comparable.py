"""Two models on the same samples: which scores can be compared by value, and which only by rank.

A difference of values is meaningful only if both models share a scale: the same head, or probabilities over as many classes.
Angles, norms and logits of two heads do not share a scale (an AVH of 0.09 may be easy for one head and hard for another), so
there a sample's change is a change of rank among the same samples, within each model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.head import ARRAYS, Head
from hardsight.scores import SCORES
from hardsight.scores.terms import INPUT, SOFTMAX, TOP
from hardsight.snapshot import Snapshot

SAME = 1e-4  # relative tolerance: heads saved in another precision count as the same


def why_two_scales(first: Head | None, second: Head | None, names: tuple[str, str], tolerance: float = 0.0) -> str | None:
    """Why the values of two models do not share a scale; None if the heads are the same.

    Example:
        >>> why_two_scales(None, Head("linear", np.eye(2)), ("before", "after"))
        'before does not hold the head that its scores are from'
    """
    if first is None or second is None:
        return f"{names[0] if first is None else names[1]} does not hold the head that its scores are from"
    if first.kind != second.kind:
        return f"one head is {first.kind}, the other {second.kind}"
    if first.weight.shape != second.weight.shape:
        return (
            f"one head has {first.num_classes} classes and {first.num_features} features, "
            f"the other {second.num_classes} and {second.num_features}"
        )
    return None if same_head(first, second, tolerance) else "the two heads differ in their weights"


def same_head(first: Head, second: Head, tolerance: float = 0.0) -> bool:
    """Whether two heads are of one kind with the same numbers, up to a tolerance relative to the largest."""
    if first.kind != second.kind or (first.scale or 1.0) != (second.scale or 1.0):
        return False
    return all(_close(getattr(first, name), getattr(second, name), tolerance) for name in ARRAYS)


def check_reference(snapshot: Snapshot, reference: Snapshot) -> None:
    """Require features of the same model: a score fitted to another model's features would be meaningless."""
    name = reference.name or "the reference"
    if reference.source.evidence != "features":
        raise InputError(f"{name}: a reference needs features, but this one holds {reference.source.evidence}.")
    if snapshot.source.evidence != "features":
        return
    widths = reference.source.width, snapshot.source.width
    if widths[0] != widths[1]:
        raise InputError(f"{name} is of another model: its features have {widths[0]} dimensions, these have {widths[1]}.")
    if reference.head is None or snapshot.head is None:
        return
    if difference := why_two_scales(reference.head, snapshot.head, ("", ""), SAME):
        raise InputError(f"{name} is of another model: {difference}. Extract both with one model.")


def _close(first: Any, second: Any, tolerance: float) -> bool:
    if first is None or second is None:
        return first is second
    a, b = to_numpy(first), to_numpy(second)
    return a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance * float(np.abs(a).max(initial=0)))


def of_probabilities(name: str) -> bool:
    """Whether a score depends only on probabilities, or on right and wrong over the epochs, so that two heads share its scale."""
    score = SCORES[name]
    if score.scope == "dynamics":
        return all(part == "correct" or of_probabilities(part) for part in score.columns)
    if score.scope == "models":
        return True
    return score.scope == "row" and bool(score.terms & {SOFTMAX, TOP}) and INPUT not in score.terms and not score.needs_logits


def hardness_ranks(values: np.ndarray, hard: str) -> np.ndarray:
    """(n,) the share of samples that are easier than each, with ties counted half.

    Example:
        >>> hardness_ranks(np.array([0.1, 0.4, 0.2, 0.2]), "high")
        array([0.125, 0.875, 0.5  , 0.5  ])
    """
    from scipy.stats import rankdata  # takes a second to import

    return np.asarray((rankdata(values if hard == "high" else -values) - 0.5) / max(1, len(values)))

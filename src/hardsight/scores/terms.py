"""The terms that a score can take from the one pass over the classes, and the statuses of a row."""

from __future__ import annotations

ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS = "angles nearest logits softmax squares moment nobias".split()
EVERYTHING = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS})

# Further terms, which the pass does not leave (further.py): the length of the layer's input, and the sum of GEN.
INPUT, TOP = "input", "top"


def nearest_sum(k: int) -> str:
    """The further term with the sum of the angles to the k nearest other classes."""
    return f"{NEAREST}:{k}"


OK, NONFINITE, ZERO, NONFINITE_LOGIT = "ok", "nonfinite_feature", "zero_norm", "nonfinite_logit"
STATUSES = (OK, NONFINITE, ZERO, NONFINITE_LOGIT)

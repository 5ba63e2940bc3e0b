"""The terms that a score can take from the one pass over the classes, and the statuses of a row."""

from __future__ import annotations

ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS = "angles nearest logits softmax squares moment nobias".split()
EVERYTHING = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS})

OK, NONFINITE, ZERO, NONFINITE_LOGIT = "ok", "nonfinite_feature", "zero_norm", "nonfinite_logit"
STATUSES = (OK, NONFINITE, ZERO, NONFINITE_LOGIT)

"""What a score may need of the pass over the classes, and why a row may have no scores."""

from __future__ import annotations

ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS = "angles nearest logits softmax squares moment nobias".split()
EVERYTHING = frozenset({ANGLES, NEAREST, LOGITS, SOFTMAX, SQUARES, MOMENT, NOBIAS})

OK, NONFINITE, ZERO, NONFINITE_LOGIT = "ok", "nonfinite_feature", "zero_norm", "nonfinite_logit"
STATUSES = (OK, NONFINITE, ZERO, NONFINITE_LOGIT)

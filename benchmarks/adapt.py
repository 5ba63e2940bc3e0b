"""`python -m benchmarks adapt`: pseudo-label selection against the softmax and angles that it needs at least."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight.domains.adaptation.selection import select_pseudo_labels
from hardsight.head import Head
from hardsight.scores import avc_predicted

CLASSES, FEATURES = 12, 512
LIMIT = {"select cbst+avh": 1.5}
BASELINE = "softmax + angles"


def run(n: int, rounds: int) -> list[Measurement]:
    """Selection on n samples of 512 features and 12 classes."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    features = np.empty((n, FEATURES), np.float32)
    for start in range(0, n, 65536):  # after a ReLU, and closer to one class than to the others
        part = features[start : start + 65536]
        own = weight[rng.integers(0, CLASSES, len(part))]
        np.maximum(rng.standard_normal(part.shape, np.float32) + 0.3 * own, 0, out=part)
    head = Head("linear", 0.3 * weight)
    logits = head.logits(features)

    def needed() -> None:
        z = logits - logits.max(1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        avc_predicted(features, head)

    work: dict[str, Callable[[], object]] = {
        BASELINE: needed,
        "select cbst+avh": lambda: select_pseudo_labels(logits, features, head, 0.2, "cbst+avh"),
        "select cbst": lambda: select_pseudo_labels(logits, portion=0.2, method="cbst"),
        "select crst": lambda: select_pseudo_labels(logits, portion=0.2, method="crst"),
    }
    return compared(f"selection, {n} x {CLASSES}, d = {FEATURES}", work, rounds, BASELINE, LIMIT)

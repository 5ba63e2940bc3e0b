"""Pseudo-label selection against the softmax and angles that it needs at least."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Measurement, compared
from hardsight import Head
from hardsight.domains import select_pseudo_labels
from hardsight.scores import avc_predicted

CLASSES, FEATURES = 12, 512
LIMIT = {"select cbst+avh": 1.5}


def run(n: int = 1_000_000, rounds: int = 3) -> list[Measurement]:
    """Selection among n samples of 512 features and 12 classes: 2 GB for a million."""
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
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        avc_predicted(features, head)

    work = {
        "softmax + angles": needed,
        "select cbst+avh": lambda: select_pseudo_labels(logits, features, head, 0.2, "cbst+avh"),
        "select cbst": lambda: select_pseudo_labels(logits, portion=0.2, method="cbst"),
        "select crst": lambda: select_pseudo_labels(logits, portion=0.2, method="crst"),
    }
    return compared(f"selection, {n} x {CLASSES}, d = {FEATURES}", work, rounds, LIMIT)

"""What the model is least sure of, and so what to label next: margin, entropy, angular visual confidence.

margin    p_1 - p_2, the two largest probabilities; low where two classes are close
entropy   -sum_k p_k log p_k; high where many are
avc       angular visual confidence of the predicted class; low where it is not clearly the nearest by angle
"""

from __future__ import annotations

import numpy as np

from hardsight.checks import to_numpy, widened
from hardsight.errors import InputError
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.snapshot import Snapshot

BLOCK = 2**20  # probabilities at a time
COLUMN_OF = {"margin": "probability_margin", "entropy": "entropy", "avc": "avc_predicted"}  # the score of each method


def with_head(snapshot: Snapshot) -> Snapshot:
    """The snapshot; where it has features and no head, with one that is fitted to its labeled samples."""
    if snapshot.head is not None or snapshot.source.evidence != "features":
        return snapshot
    rows = snapshot.in_memory()
    features, labels = to_numpy(rows.values), rows.labels
    known = np.flatnonzero((labels >= 0) & np.isfinite(features).all(axis=1))
    if len(np.unique(labels[known])) < 2:
        raise InputError("there is no head, and no labels of two classes to fit one to: give a head.")
    with unconverged():
        head = fit_head(features[known], labels[known], int(labels.max()) + 1)
    return Snapshot(features, head, labels, ids=rows.ids, class_names=snapshot.class_names)


def margins(snapshot: Snapshot) -> np.ndarray:
    """(n,) margin between the two largest probabilities, NaN where there are none; low is hard."""
    parts = [_margins(snapshot, to_numpy(batch.values)) for batch in snapshot.batches(rows=_rows(snapshot))]
    return np.concatenate([np.empty(0), *parts])


def _rows(snapshot: Snapshot) -> int:
    return max(1, BLOCK // max(1, snapshot.num_classes or 1))


def _margins(snapshot: Snapshot, values: np.ndarray) -> np.ndarray:
    """(b, d) features, or (b, c) logits or probabilities -> (b,)"""
    from scipy.special import softmax

    evidence = snapshot.source.evidence
    with np.errstate(all="ignore"):
        if evidence == "features":
            assert snapshot.head is not None
            values = to_numpy(snapshot.head.logits(widened(values)))
        probs = values if evidence == "probs" else softmax(values.astype(np.float64), axis=1)  # (b, c)
    if probs.shape[1] < 2:
        raise InputError("a margin lies between two classes, and there is one.")
    top = np.partition(probs, -2, axis=1)[:, -2:]
    return np.where(np.isfinite(probs).all(axis=1), top[:, 1] - top[:, 0], np.nan)

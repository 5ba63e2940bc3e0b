"""What kind of samples a round of self-training selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.domains.adaptation.selection import PseudoLabels
from hardsight.head import Head
from hardsight.scores.sweep import sweep
from hardsight.scores.terms import ANGLES, LOGITS, SOFTMAX


def sample_columns(features: np.ndarray, head: Head, proposed: np.ndarray) -> dict[str, np.ndarray]:
    """(n,) confidence, AVC and AVH of the class each sample was considered for, and the norm of its feature."""
    rows = sweep(features, head, np.maximum(proposed, 0), frozenset({ANGLES, LOGITS, SOFTMAX}))
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "confidence": rows.own_exp / rows.partition,
            "avc": np.maximum(np.pi - rows.own_angle, 0) / (rows.num_classes * np.pi - rows.angle_sum),
            "avh": rows.own_angle / rows.angle_sum,
            "norm": rows.norm,
        }


def selection_statistics(chosen: PseudoLabels, columns: dict[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
    """Table 4: of the selected samples, the share with the right label, and means of their scores."""
    kept = chosen.kept
    known = kept & (labels >= 0)
    means = {name: _mean(values[kept]) for name, values in columns.items()}
    return {
        "selected": int(kept.sum()),
        "true_positive_rate": float((chosen.proposed == labels)[known].mean()) if known.any() else None,
        **means,
        "selected_per_class": chosen.counts.tolist(),
        "predicted_per_class": np.bincount(chosen.predicted[chosen.predicted >= 0], minlength=len(chosen.thresholds)).tolist(),
        "moved": int((chosen.kept & (chosen.proposed != chosen.predicted)).sum()),
    }


def _mean(values: np.ndarray) -> float | None:
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None

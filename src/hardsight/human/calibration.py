"""Calibration: is a model that says 80 % right in 80 % of cases, and how does a temperature change each correlation?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from hardsight.errors import InputError
from hardsight.human.comparisons import Agreement, Row, easy_by
from hardsight.human.models import all_logits
from hardsight.screen import brief, plain_json
from hardsight.snapshot import Snapshot
from hardsight.stats.calibration import Reliability, fit_temperature, reliability
from hardsight.stats.coefficients import KINDS, Kind, correlate_columns

FEWEST_LABELED = 8  # minimum samples to fit a temperature on one half and evaluate it on the other


@dataclass(frozen=True)
class Calibration:
    """Reliability before and after temperature scaling, both on the half it was not fitted to, and its effect on agreement."""

    __repr__ = brief

    model: str
    temperature: float
    before: Reliability
    after: Reliability
    fitted_to: int
    judged_on: int
    effects: list[Row]  # score, kind, before, after

    def to_dict(self) -> dict[str, Any]:
        """Everything for JSON; bins without samples have null."""
        known = {key: getattr(self, key) for key in ("model", "temperature", "fitted_to", "judged_on", "effects")}
        for key, curve in (("before", self.before), ("after", self.after)):
            known[key] = {name: plain_json(getattr(curve, name)) for name in ("ece", "edges", "count", "confidence", "accuracy")}
        return known


def calibration(model: Snapshot, agreement: Agreement, seed: int = 0) -> Calibration:
    """Fit a temperature on a random half of the labeled samples and evaluate it on the other half."""
    logits = all_logits(model, "calibration").astype(np.float64)  # (n, c)
    labels = model.labels
    usable = np.flatnonzero((labels >= 0) & np.isfinite(logits).all(1))
    if len(usable) < FEWEST_LABELED:
        raise InputError(f"{model.name}: calibration needs at least {FEWEST_LABELED} labeled samples, got {len(usable)}.")
    order = np.random.default_rng(seed).permutation(usable)
    fit, judge = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    temperature = fit_temperature(logits[fit], labels[fit])
    logs = (log_softmax(logits[judge] / t, axis=1) for t in (1.0, temperature))
    before, after = (reliability(np.exp(log.max(1)).clip(0, 1), log.argmax(1) == labels[judge]) for log in logs)
    effects = _effects(logits[agreement.rows], labels[agreement.rows], agreement, temperature)
    return Calibration(agreement.model, temperature, before, after, len(fit), len(judge), effects)


def _effects(logits: np.ndarray, labels: np.ndarray, agreement: Agreement, temperature: float) -> list[Row]:
    """Each correlation before and after; angles and the norm do not depend on the temperature."""
    target = agreement.easy_target
    before, after = (_softmax_scores(logits / t, labels) for t in (1.0, temperature))
    rows: list[Row] = []
    for name in (*before, *(name for name in agreement.scores if name not in before)):
        for kind in KINDS:
            if name in before:
                values = [_coefficient(kind, easy_by(name, scores[name]), target) for scores in (before, after)]
            else:
                values = [agreement.single(name, kind)["agreement"]] * 2
            rows.append({"model": agreement.model, "score": name, "kind": kind, "before": values[0], "after": values[1]})
    return rows


def _softmax_scores(logits: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    logs = log_softmax(logits, axis=1)
    own = np.where(labels >= 0, logs[np.arange(len(logs)), np.maximum(labels, 0)], np.nan)
    return {  # probabilities tie at 1 where float32 ones do, as in the scores table
        "confidence": np.exp(own).astype(np.float32).astype(np.float64),
        "loss": -own,
        "predicted_confidence": np.exp(logs.max(1)).astype(np.float32).astype(np.float64),
        "entropy": -(np.exp(logs) * logs).sum(1),
    }


def _coefficient(kind: Kind, x: np.ndarray, y: np.ndarray) -> float | None:
    try:
        return correlate_columns(kind, x, y).value
    except InputError:
        return None

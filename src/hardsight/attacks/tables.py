"""What an attack says: a row per input and attack, and a row per attack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.attacks.attack_result import MEDIANS
from hardsight.attacks.detection import attacks_of
from hardsight.attacks.verification import VerificationScore
from hardsight.scoring.score import score
from hardsight.stats import wilson

SCORES = ("avh", "own_angle", "nearest_angle", "norm", "confidence", "predicted_confidence", "avc_predicted", "max_logit")


def attack_table(samples: pa.Table, features: np.ndarray, verification: VerificationScore) -> pa.Table:
    """attack.parquet: id, label, method, epsilon, predicted, correct, and what the features say.

    Args:
        samples: id, base_id, label, degradation (the method, null for clean) and level (epsilon) of the rows.
        features: (n, d), one per row.
    """
    labels = samples.column("label").to_numpy().astype(np.int64)
    scored = score(features, verification.head, labels, scores=list(SCORES))
    predicted = scored.column("predicted").to_numpy().astype(np.int64)
    max_logit = scored.column("max_logit").to_numpy().astype(np.float64)
    columns: dict[str, Any] = {
        "id": samples.column("base_id"),
        "label": pa.array(labels),
        "method": pc.fill_null(samples.column("degradation"), "clean"),
        "epsilon": pc.fill_null(samples.column("level"), 0.0),
        "predicted": pa.array(predicted),
        "correct": pa.array(predicted == labels),
        **{name: scored.column(name) for name in SCORES if name != "max_logit"},
        "likelihood": pa.array(verification.likelihood(features, predicted)),
        "score": pa.array(verification.score(features, predicted, max_logit)),
    }
    table = pa.table(columns)
    method, epsilon = table.column("method").to_numpy().astype(str), table.column("epsilon").to_numpy()
    order = np.lexsort((epsilon, method, method != "clean"))  # clean inputs first, then the attacks; each as it was read
    return table.take(order).combine_chunks()


def epsilon_table(table: pa.Table) -> pa.Table:
    """One row per attack, clean first: error with a 95 % interval, and the medians of the scores: likelihoods have long tails."""
    clean = table.filter(pc.equal(table.column("method"), "clean"))
    first = {name: clean.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    rows = [_row("clean", 0.0, first)]
    rows += [_row(attack.method, attack.epsilon, attack.attacked) for attack in attacks_of(table)]
    return pa.Table.from_pylist(rows)


def _row(method: str, epsilon: float, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    wrong, n = int((~columns["correct"].astype(bool)).sum()), len(columns["correct"])
    low, high = wilson(wrong, n)
    row: dict[str, Any] = {"method": method, "epsilon": epsilon, "n": n, "error": wrong / n, "low": low, "high": high}
    for name in MEDIANS:
        values = columns[name].astype(np.float64)
        row[name] = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else None
    return row

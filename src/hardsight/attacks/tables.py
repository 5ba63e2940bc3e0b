"""What an attack says: a row per input and attack, a row per attack, and how well attacked inputs are told from clean ones.

Detectors are scores that need no label; ROC curves and AUROC say how well they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.attacks.verification import VerificationScore
from hardsight.scoring.score import score
from hardsight.stats import wilson
from hardsight.stats.open_set import Auroc, auroc

MEDIANS = ("avh", "norm", "confidence", "likelihood", "score")
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


# ---- attacked inputs beside clean ones ----

DETECTORS = ("score", "likelihood", "predicted_confidence", "avc_predicted", "norm")  # low is taken for attacked
MOST_POINTS = 400  # of a curve


class Attacked(NamedTuple):
    """The rows of one attack beside those of the clean inputs, in the same order."""

    method: str
    epsilon: float
    clean: dict[str, np.ndarray]
    attacked: dict[str, np.ndarray]


def attacks_of(table: pa.Table) -> Iterator[Attacked]:
    """Each method and epsilon of attack.parquet, with the clean rows. All have the same inputs in the same order."""
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    clean = columns["method"] == "clean"
    pairs = dict.fromkeys(zip(columns["method"][~clean].tolist(), columns["epsilon"][~clean].tolist(), strict=True))
    for method, epsilon in pairs:
        rows = (columns["method"] == method) & (columns["epsilon"] == epsilon)
        yield Attacked(
            method, epsilon, {name: x[clean] for name, x in columns.items()}, {name: x[rows] for name, x in columns.items()}
        )


def detection_table(table: pa.Table) -> pa.Table:
    """One row per attack, kind of attacked inputs and detector: AUROC with an interval that counts each image once.

    `inputs` is "all", or "fooled" for those that were classified rightly before the attack and wrongly after it.
    """
    rows = []
    for attack in attacks_of(table):
        fooled = attack.clean["correct"].astype(bool) & ~attack.attacked["correct"].astype(bool)
        for inputs, chosen in (("all", np.ones(len(fooled), bool)), ("fooled", fooled)):
            for name in DETECTORS:
                area = detected(attack.clean[name], attack.attacked[name], chosen)
                values = (None, None, None) if area is None else (area.value, area.low, area.high)
                rows.append((attack.method, attack.epsilon, inputs, name, *values, 0 if area is None else area.unseen))
    names = ("method", "epsilon", "inputs", "detector", "auroc", "low", "high", "attacked")
    kinds: list[Any] = [pa.string(), pa.float64(), pa.string(), pa.string(), *[pa.float64()] * 3, pa.int64()]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def detected(clean: np.ndarray, attacked: np.ndarray, chosen: np.ndarray) -> Auroc | None:
    """How well low values mark attacked inputs, (n,) in pairs, among the chosen ones; None with fewer than two of them."""
    finite = np.isfinite(clean)
    rows = np.flatnonzero(chosen & finite & np.isfinite(attacked))
    if len(rows) < 2:
        return None
    place = np.cumsum(finite) - 1  # of each input among those whose clean value is finite
    return auroc(-clean[finite], -attacked[rows], made_from=place[rows])


def roc_curve(clean: np.ndarray, attacked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of clean inputs that are rejected and share of attacked ones that are, as a threshold on the score rises.

    Example:
        >>> [share.round(2).tolist() for share in roc_curve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.5]))]
        [[0.0, 0.0, 0.33, 0.33, 0.67, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0, 1.0]]
    """
    clean, attacked = (np.sort(x[np.isfinite(x)]) for x in (clean, attacked))
    thresholds = np.unique(np.concatenate([clean, attacked]))
    if len(thresholds) > MOST_POINTS:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, MOST_POINTS).astype(int)]
    shares = [np.searchsorted(x, thresholds, side="right") / max(1, len(x)) for x in (clean, attacked)]
    rejected_clean, rejected_attacked = (np.concatenate([[0.0], share]) for share in shares)
    return rejected_clean, rejected_attacked

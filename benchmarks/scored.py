"""Every score of some samples, oriented so that high is hard, by evidence and name.

epochs                the dynamics of a sample: in training, or as a held-out sample
final model           the trained network, and for dataset scores the other samples
out-of-sample heads   heads on that network's features, each fitted without the samples it scores
reference             the training set, for held-out samples
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import peers
from hardsight import clean, score
from hardsight.scores import SCORES
from hardsight.scores.duplicates import find_repeats
from hardsight.scoring.fitted_head import FOLDS, head_probs, unseen_heads
from hardsight.snapshot import Snapshot

Scores = dict[tuple[str, str], np.ndarray]  # (evidence, name) -> (n,) high is hard

EPOCHS, FINAL, UNSEEN, REFERENCE = "epochs", "final model", "out-of-sample heads", "reference"


def as_hardness(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of a scores table that have values, oriented so that high is hard."""
    columns = {}
    for name in table.column_names[4:]:
        values = np.asarray(table.column(name).to_numpy(), dtype=np.float64)
        if np.isfinite(values).any():
            columns[name] = values if SCORES[name].hard == "high" else -values
    return columns


def of_training_samples(run: Path, labels: np.ndarray) -> Scores:
    """Scores of a network's training samples, some of them mislabeled: ours, and those of other libraries.

    `clean` is the ranking of `hardsight.clean`, for the run and for the out-of-sample probabilities.
    """
    table = score(run, scores="all")
    row_of = np.argsort(np.asarray(table.column("id").to_pylist(), dtype=np.int64))
    scores = {(_evidence(name), name): values[row_of] for name, values in as_hardness(table).items()}
    features = np.asarray(Snapshot.load(run).in_memory().values)[row_of]  # (n, d)
    unseen, probs = by_unseen_heads(features, labels)
    theirs = peers.label_rankings(probs, labels)
    scores |= {(UNSEEN, name): values for name, values in {**unseen, **theirs}.items()}
    scores[EPOCHS, "clean"] = error_score(suspects(run))[row_of]
    scores[UNSEEN, "clean"] = error_score(suspects(probs=probs, labels=labels))
    return scores | {(EPOCHS, name): values for name, values in peers.area_under_margin(run, len(labels)).items()}


def _evidence(name: str) -> str:
    return EPOCHS if SCORES[name].scope == "dynamics" else FINAL


def by_unseen_heads(features: np.ndarray, labels: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Row scores and (n, c) probabilities from heads fitted without the samples: from (n, d) and (n,)."""
    names = [name for name, entry in SCORES.items() if entry.scope == "row"]
    columns: dict[str, np.ndarray] = {}
    probs = np.full((len(labels), int(labels.max()) + 1), np.nan)
    for rows, head in unseen_heads(features, labels, find_repeats(features).originals(labels, FOLDS)):
        probs[rows] = head_probs(head, features[rows])
        table = score(features[rows], head, labels[rows], scores=names)
        for name, values in as_hardness(table).items():
            columns.setdefault(name, np.full(len(labels), np.nan))[rows] = values
    return columns, probs


def error_score(table: pa.Table) -> np.ndarray:
    """(n,) the error score by which `hardsight.clean` ranks labels."""
    return np.asarray(table.column("error_score").to_numpy(), dtype=np.float64)


def suspects(*source: Any, **options: Any) -> pa.Table:
    """The table of `hardsight.clean`, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clean(*source, **options)

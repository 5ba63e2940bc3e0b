"""Every score of some samples, oriented so that high is hard, by evidence and name.

epochs                the dynamics of a sample: in training, or as a held-out sample
final model           the trained network, and for dataset scores the other samples
out-of-sample heads   heads on that network's features, each fitted without the samples it scores
reference             the training set, for held-out samples
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from benchmarks import peers
from hardsight import SCORES, Head, Snapshot, clean, score
from hardsight.quality import out_of_sample

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
    _, features, ids = opened(run)
    row_of = np.argsort(ids)
    evidence = {name: EPOCHS if entry.scope == "dynamics" else FINAL for name, entry in SCORES.items()}
    scores = {(evidence[name], name): values[row_of] for name, values in as_hardness(table).items()}
    unseen, probs = by_unseen_heads(features[row_of], labels)
    theirs = peers.label_rankings(probs, labels)
    scores |= {(UNSEEN, name): values for name, values in {**unseen, **theirs}.items()}
    scores[EPOCHS, "clean"] = error_score(suspects(run))[row_of]
    scores[UNSEEN, "clean"] = error_score(suspects(probs=probs, labels=labels))
    return scores | {(EPOCHS, name): values for name, values in peers.area_under_margin(run, len(labels)).items()}


def by_unseen_heads(features: np.ndarray, labels: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Row scores and (n, c) probabilities from heads fitted without the samples: from (n, d) and (n,)."""
    names = [name for name, entry in SCORES.items() if entry.scope == "row"]
    return as_hardness(score(features, labels=labels, scores=names)), out_of_sample(features, labels)


def opened(run: Path) -> tuple[Snapshot, np.ndarray, np.ndarray]:
    """A run, its (n, d) features, and its (n,) ids, which are numbers of images."""
    snapshot = Snapshot.load(run)
    ids = np.asarray(snapshot.columns(["id"]).column("id").to_pylist(), dtype=np.int64)
    return snapshot, np.asarray(snapshot.in_memory().values), ids


def probabilities(head: Head | None, features: np.ndarray) -> np.ndarray:
    """(n, c) softmax of a head's logits, in float64."""
    assert head is not None
    return np.asarray(softmax(np.asarray(head.logits(features), dtype=np.float64), axis=1))


def error_score(table: pa.Table) -> np.ndarray:
    """(n,) the error score by which `hardsight.clean` ranks labels."""
    return np.asarray(table.column("error_score").to_numpy(), dtype=np.float64)


def notes_of(table: pa.Table) -> dict[str, Any]:
    """What `hardsight.clean` says of all labels: the expected number of errors, and how sure that is."""
    notes: dict[str, Any] = json.loads(table.schema.metadata[b"hardsight"])
    return notes


def suspects(*source: Any, **options: Any) -> pa.Table:
    """The table of `hardsight.clean`, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clean(*source, **options)

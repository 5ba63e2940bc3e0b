"""How alike two samples are as far as people are concerned: by their scores, what they look like, and their classes.

    k(a, b) = s_a . s_b / s  +  10 h_a h_b  +  exp(-|x_a - x_b|^2 / m) (1 + q_ab)  +  q_ab

s are scores, h the hardness that is known without people, x features; all are standardized. m is the median of the squared
distances. q is the similarity of the two given classes, by the head's class vectors: people's doubts about one terrier tell
something about the next, and with a thousand classes hardly any has answers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.scores import SCORES
from hardsight.scoring.score import score
from hardsight.snapshot import Snapshot

KNOWN_HARDNESS = ("angular_gap", "logit_margin", "avh_nearest")  # without answers their mean is as good as any score
USED = (
    *KNOWN_HARDNESS, "avh", "own_angle", "nearest_angle", "confidence", "probability_margin", "loss", "entropy",
    "predicted_confidence", "max_logit", "energy", "el2n", "norm",
)  # fmt: skip
WITH_REFERENCE = ("human_hardness", "qda_confidence", "angular_confidence")
KNOWN_HARDNESS_WEIGHT = 10.0  # close to no penalty: few answers must not unlearn it


@dataclass(frozen=True)
class Known:
    """What is known of n samples without asking anybody."""

    features: np.ndarray  # (n, d) float32, standardized
    scores: np.ndarray  # (n, s), standardized, high is hard
    hardness: np.ndarray  # (n,), standardized, high is hard
    labels: np.ndarray  # (n,)
    similarity: np.ndarray  # (c, c) of classes
    correct: np.ndarray  # (n,) whether the first model predicts the given class
    complete: np.ndarray  # (n,) whether everything is known of a sample

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray | slice) -> Known:
        """The same of some samples."""
        each = (self.features, self.scores, self.hardness, self.labels)
        features, scores, hardness, labels = (array[rows] for array in each)
        return Known(features, scores, hardness, labels, self.similarity, self.correct[rows], self.complete[rows])


def kernel(a: Known, b: Known, median: float) -> np.ndarray:
    """(n, m) similarity of the samples."""
    alike = a.similarity[np.ix_(a.labels, b.labels)]  # (n, m)
    near = np.exp(-squared_distances(a.features, b.features) / median)
    known = KNOWN_HARDNESS_WEIGHT * np.outer(a.hardness, b.hardness)
    return np.asarray(a.scores @ b.scores.T / a.scores.shape[1] + known + near * (1 + alike) + alike)


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, d), (m, d) -> (n, m)."""
    return np.maximum(np.vecdot(x, x)[:, None] + np.vecdot(y, y) - 2 * x @ y.T, 0)


# ---- from snapshots ----


def known_of(models: Sequence[Snapshot], references: Sequence[Snapshot]) -> Known:
    """What one or several models know of the same samples; their features and scores lie side by side."""
    labels = models[0].labels
    if not (labels >= 0).any():
        raise InputError(f"{models[0].where} has no labels: people are asked about the label of a sample.")
    each = [_of_model(model, references[number] if references else None) for number, model in enumerate(models)]
    features, scores, hardness, similarity, correct = zip(*each, strict=True)
    complete = np.isfinite(np.concatenate([*features, *scores], axis=1)).all(1) & (labels >= 0)
    if not complete.any():
        raise InputError(f"{models[0].where}: no sample has a label, features and finite scores.")
    hard = np.mean([_standardized(values, complete) for values in hardness], axis=0)  # (n,)
    return Known(
        _standardized(np.concatenate(features, axis=1), complete).astype(np.float32),
        _standardized(np.concatenate(scores, axis=1), complete),
        _standardized(hard, complete), np.maximum(labels, 0), np.mean(similarity, axis=0), correct[0], complete,
    )  # fmt: skip


def _standardized(values: np.ndarray, complete: np.ndarray) -> np.ndarray:
    """Values with mean 0 and deviation 1 over the complete samples; 0 for the others."""
    of = values[complete]
    scale = of.std(0, dtype=np.float64)
    standard = (values - of.mean(0, dtype=np.float64)) / np.where(scale > 0, scale, 1.0)
    return np.where(complete.reshape(-1, *[1] * (values.ndim - 1)), standard, 0.0)


def _of_model(model: Snapshot, reference: Snapshot | None) -> tuple[np.ndarray, ...]:
    """Features (n, d), scores (n, s), hardness (n,), class similarity (c, c), correct (n,); the mean over the flip pass too."""
    if model.source.evidence != "features" or model.head is None:
        raise InputError(f"{model.where}: people needs features and a head; it holds {model.source.evidence} without one.")
    views = [model, *_flipped(model)]
    tables = [_scored(view, reference) for view in views]
    features = np.mean([np.asarray(view.features) for view in views], axis=0)  # (n, d)
    names = [name for name in tables[0].column_names if name in SCORES]
    columns = {name: np.mean([_hard(table, name) for table in tables], axis=0) for name in names}
    complete = np.isfinite(np.stack(list(columns.values()))).all(0)
    best = ("human_hardness",) if reference is not None else KNOWN_HARDNESS
    hardness = np.mean([_standardized(columns[name], complete) for name in best], axis=0)
    right = to_numpy(tables[0].column("predicted").fill_null(-2)) == model.labels
    return features, np.stack(list(columns.values()), axis=1), hardness, class_similarity(model), right


def _flipped(model: Snapshot) -> list[Snapshot]:
    """What the model saw of the mirrored images, if `extract --passes flip` stored it."""
    path = None if model.run is None else model.run / "passes" / "flip"
    if path is None or not path.is_dir():
        return []
    flipped = Snapshot.load(path)
    rows = {name: row for row, name in enumerate(flipped.ids.tolist())}
    wanted = [rows.get(name) for name in model.ids.tolist()]
    return [] if None in wanted else [flipped.take(np.array(wanted))]


def _scored(view: Snapshot, reference: Snapshot | None) -> pa.Table:
    if reference is None:
        return view.scores(USED)
    return score(view, scores=[*USED, *WITH_REFERENCE], reference=reference).table


def _hard(table: pa.Table, name: str) -> np.ndarray:
    """(n,) a score, turned so that high is hard; NaN for null."""
    return SCORES.harder(name, np.asarray(table.column(name).to_numpy(), dtype=np.float64))


def class_similarity(model: Snapshot) -> np.ndarray:
    """(c, c) half the cosine of two class vectors around their mean, half whether they are the same class."""
    assert model.head is not None
    vectors = to_numpy(model.head.weight).astype(np.float64)
    vectors = vectors - vectors.mean(0)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1.0)
    return np.asarray((unit @ unit.T + np.eye(len(unit))) / 2)

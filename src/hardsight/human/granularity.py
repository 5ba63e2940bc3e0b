"""Coarser classes (Figure 19): a mapping class -> superclass, applied to both sides.

For people, the answers for all members of a superclass are added. For the model, the angle to a superclass is the smallest
angle to one of its members, and its probability is the sum over them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.human import People
from hardsight.files.table_files import read_columns
from hardsight.human.comparisons import Agreement, Row, check_varied, easy_by
from hardsight.human.models import words_of
from hardsight.scores import SCORES
from hardsight.scores.probabilities import sweep_probs
from hardsight.scores.registry import values
from hardsight.scores.sweep import Sweep
from hardsight.snapshot import Snapshot
from hardsight.stats.coefficients import spearman

COARSE_SCORES = ("avh", "angular_gap", "confidence", "loss", "entropy", "norm")


@dataclass(frozen=True)
class Superclasses:
    """Which superclass each class belongs to."""

    of_class: np.ndarray  # (c,) index of the superclass
    names: list[str]  # (s,)


def read_superclasses(source: Any, class_names: Sequence[str] | None, num_classes: int) -> Superclasses:
    """From a CSV with the columns `class` (index or name) and `superclass`, or a dict of the same."""
    where, pairs = _pairs(source)
    index_of = {class_name: k for k, class_name in enumerate(class_names or [])}
    superclass_of: dict[int, str] = {}
    for key, superclass in pairs:
        try:
            k = index_of[key] if isinstance(key, str) and key in index_of else int(key)
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: {key!r} is not a class: give an index or a class name of the model.") from error
        if not 0 <= k < num_classes:
            raise InputError(f"{where}: class {k} is not among 0 to {num_classes - 1}.")
        if superclass_of.setdefault(k, str(superclass)) != str(superclass):
            raise InputError(f"{where}: class {k} has two superclasses, {superclass_of[k]!r} and {superclass!r}.")
    missing = [k for k in range(num_classes) if k not in superclass_of]
    if missing:
        raise InputError(f"{where}: every class needs a superclass; {len(missing)} have none, the first is class {missing[0]}.")
    names = list(dict.fromkeys(superclass_of[k] for k in range(num_classes)))
    return Superclasses(np.array([names.index(superclass_of[k]) for k in range(num_classes)]), names)


def _pairs(source: Any) -> tuple[str, list[tuple[Any, Any]]]:
    """What to call the mapping in a message, and its classes with their superclasses."""
    if not isinstance(source, (str, os.PathLike)):
        return "superclasses", list(dict(source).items())
    columns = read_columns(Path(source))
    if not {"class", "superclass"} <= set(columns):
        raise InputError(f"{source}: needs the columns class and superclass, got {', '.join(columns)}.")
    return str(source), list(zip(columns["class"], columns["superclass"], strict=True))


def coarse_people(people: People, superclasses: Superclasses) -> People:
    """Human answers per superclass."""
    if people.counts is None:
        raise InputError(
            f"{people.name}: superclasses need counts per class. "
            "A frequency b/m does not say how many people chose another class of the same superclass."
        )
    counts = people.counts
    if counts.shape[1] > len(superclasses.of_class):
        raise InputError(f"{people.name}: {counts.shape[1]} classes have answers, the mapping has {len(superclasses.of_class)}.")
    together = np.zeros((len(counts), len(superclasses.names)), dtype=np.int64)
    for k in range(counts.shape[1]):
        together[:, superclasses.of_class[k]] += counts[:, k]
    return replace(people, counts=together)


def coarse_model(model: Snapshot, superclasses: Superclasses) -> Snapshot:
    """Scores of the superclass of each label, using the formulas of `SCORES`."""
    if model.source.evidence != "features" or model.head is None:
        raise InputError(
            f"{model.name}: superclasses need angles to every class: give a run or a snapshot with features and a head."
        )
    members = [np.flatnonzero(superclasses.of_class == k) for k in range(len(superclasses.names))]
    batches = []
    for batch in model.batches():
        features = to_numpy(batch.values)
        theta = model.head.angles(features)  # (b, c)
        probs = softmax(to_numpy(model.head.logits(batch.values)).astype(np.float64), axis=1)  # (b, c)
        rows = _swept(
            np.stack([theta[:, which].min(1) for which in members], axis=1),  # (b, s)
            np.stack([probs[:, which].sum(1) for which in members], axis=1),  # (b, s)
            np.where(batch.labels >= 0, superclasses.of_class[np.maximum(batch.labels, 0)], -1),
            np.linalg.norm(features.astype(np.float64), axis=1),
        )
        scores = {name: values(SCORES[name], rows) for name in COARSE_SCORES}
        label = pa.array(rows.labels, mask=rows.labels < 0)
        batches.append(pa.table({"label": label, "predicted": rows.predicted, **scores}))
    table = pa.concat_tables(batches)
    for name in ("base_id", "id"):
        if name in model.column_names:
            table = table.add_column(0, name, model.columns([name]).column(0))
    return Snapshot.open(table, class_names=superclasses.names, allow_duplicates=True).with_columns({}, model.name)


def _swept(theta: np.ndarray, probs: np.ndarray, labels: np.ndarray, norm: np.ndarray) -> Sweep:
    """The input of scores, from (n, s) angles and probabilities of superclasses."""
    at, own = np.arange(len(labels)), np.maximum(labels, 0)
    others = theta.copy()
    others[at, own] = np.inf
    rows = sweep_probs(probs, labels)
    angular = {"own_angle": theta[at, own], "nearest_angle": others.min(1), "angle_sum": theta.sum(1)}
    return replace(rows, norm=norm, **angular)


def groups_of(agreement: Agreement, model: Snapshot, column: str) -> dict[str, np.ndarray]:
    """The samples of an agreement that share a value of a column, by that value as text."""
    words = words_of(model, column)
    groups = np.array([str(words[row]) for row in agreement.rows], dtype=object)  # (n,)
    return {group: np.flatnonzero(groups == group) for group in dict.fromkeys(groups.tolist())}


def within_groups(agreement: Agreement, model: Snapshot, column: str) -> list[Row]:
    """Spearman of each score within each group of samples that share a value of a column; null, with the reason, if undefined."""
    rows: list[Row] = []
    for group, inside in groups_of(agreement, model, column).items():
        target = agreement.easy_target[inside]
        for name, column_of_score in agreement.scores.items():
            score = column_of_score[inside]
            row: Row = {"model": agreement.model, "group": group, "score": name, "n": len(target), "agreement": None}
            row |= {"mean": float(score.mean()), "reason": None}
            try:
                check_varied(name, score)
                check_varied(agreement.target.words, target)
                row["agreement"] = spearman(easy_by(name, score), target)
            except InputError as error:
                row["reason"] = str(error)
            rows.append(row)
    return rows

"""Coarser classes (Figure 19): a mapping class -> superclass, applied to both sides.

People: the answers for all members of a superclass count together. The model: the angle to a superclass is the smallest
angle to one of its members, its probability is theirs together.
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

from hardsight.agreement.comparing import Agreement, Row
from hardsight.agreement.models import Model
from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.columns import read_columns
from hardsight.files.human import People
from hardsight.geometry import angles
from hardsight.stats.coefficients import spearman


@dataclass(frozen=True)
class Superclasses:
    """Which superclass each class belongs to."""

    of_class: np.ndarray  # (c,) index of the superclass
    names: list[str]  # (s,)

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.of_class, minlength=len(self.names))


def read_superclasses(source: Any, class_names: Sequence[str] | None, num_classes: int) -> Superclasses:
    """From a CSV with the columns `class` (index or name) and `superclass`, or a dict of the same."""
    name = "superclasses"
    if isinstance(source, (str, os.PathLike)):
        name = str(source)
        columns = read_columns(Path(source))
        if not {"class", "superclass"} <= set(columns):
            raise InputError(f"{name}: needs the columns class and superclass, got {', '.join(columns)}.")
        pairs = list(zip(columns["class"], columns["superclass"], strict=True))
    else:
        pairs = list(dict(source).items())
    place = {one: k for k, one in enumerate(class_names or [])}
    found: dict[int, str] = {}
    for key, above in pairs:
        k = place.get(key, None) if isinstance(key, str) else None
        if k is None:
            try:
                k = int(key)
            except (TypeError, ValueError) as error:
                raise InputError(f"{name}: {key!r} is no class: give an index or a name of the model's.") from error
        if not 0 <= k < num_classes:
            raise InputError(f"{name}: class {k} is not among 0 to {num_classes - 1}.")
        if found.setdefault(k, str(above)) != str(above):
            raise InputError(f"{name}: class {k} has two superclasses, {found[k]!r} and {above!r}.")
    missing = [k for k in range(num_classes) if k not in found]
    if missing:
        raise InputError(f"{name}: every class needs a superclass; {len(missing)} have none, the first is class {missing[0]}.")
    names = list(dict.fromkeys(found[k] for k in range(num_classes)))
    return Superclasses(np.array([names.index(found[k]) for k in range(num_classes)]), names)


def coarse_people(people: People, superclasses: Superclasses) -> People:
    """Answers per superclass."""
    if people.counts is None:
        raise InputError(
            f"{people.name}: superclasses need counts per class. "
            "A frequency b/m does not tell how many chose another class of the same superclass."
        )
    counts = people.counts
    if counts.shape[1] > len(superclasses.of_class):
        raise InputError(f"{people.name}: {counts.shape[1]} classes have answers, the mapping has {len(superclasses.of_class)}.")
    together = np.zeros((len(counts), len(superclasses.names)), dtype=np.int64)
    for k in range(counts.shape[1]):
        together[:, superclasses.of_class[k]] += counts[:, k]
    return replace(people, counts=together)


def coarse_model(model: Model, superclasses: Superclasses) -> Model:
    """Scores of the superclass of each label."""
    snapshot = model.snapshot
    if snapshot is None or snapshot.source.evidence != "features" or snapshot.head is None:
        raise InputError(
            f"{model.name}: superclasses need angles to every class: give a run or a snapshot with features and a head."
        )
    s = len(superclasses.names)
    members = [np.flatnonzero(superclasses.of_class == k) for k in range(s)]
    columns: dict[str, list[np.ndarray]] = {}
    for batch in snapshot.batches():
        theta = angles(to_numpy(batch.values), to_numpy(snapshot.head.weight))  # (b, c)
        probs = softmax(to_numpy(snapshot.head.logits(batch.values)).astype(np.float64), axis=1)
        coarse_theta = np.stack([theta[:, which].min(1) for which in members], axis=1)  # (b, s)
        coarse_probs = np.stack([probs[:, which].sum(1) for which in members], axis=1)
        labels = np.where(batch.labels >= 0, superclasses.of_class[np.maximum(batch.labels, 0)], -1)
        for name, values in _scores(coarse_theta, coarse_probs, labels).items():
            columns.setdefault(name, []).append(values)
        columns.setdefault("norm", []).append(np.linalg.norm(to_numpy(batch.values).astype(np.float64), axis=1))
        columns.setdefault("label", []).append(labels)
        columns.setdefault("predicted", []).append(coarse_probs.argmax(1))
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    kept = {"id": model.table.column("id")} | {k: model.table.column(k) for k in ("base_id",) if model.has(k)}
    given = joined.pop("label")
    label = pa.array(given, mask=given < 0)
    table = pa.table({**kept, "label": label, **{k: pa.array(v) for k, v in joined.items()}})
    return Model(model.name, table, None, superclasses.names)


def _scores(theta: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    rows, own = np.arange(len(labels)), np.maximum(labels, 0)
    others = theta.copy()
    others[rows, own] = np.inf
    nearest = others.min(1)
    p = probs[rows, own]
    logs = np.log(np.where(probs > 0, probs, 1.0))
    found = {
        "avh": theta[rows, own] / theta.sum(1),
        "angular_gap": np.where(np.isfinite(nearest), theta[rows, own] - nearest, np.nan),
        "confidence": p,
        "loss": -np.log(np.maximum(p, np.finfo(np.float64).tiny)),
    }
    found = {name: np.where(labels >= 0, values, np.nan) for name, values in found.items()}
    return {**found, "entropy": -(probs * logs).sum(1)}


def within_groups(one: Agreement, groups: np.ndarray, name: str) -> list[Row]:
    """Spearman of each score inside each group of (n,) samples; null, with the reason, where it does not exist."""
    rows: list[Row] = []
    for group in dict.fromkeys(groups.tolist()):
        inside = groups == group
        for score in one.scores:
            x, y = one.easy(score)[inside], one.values[inside] * (1 if one.target.hard == "low" else -1)
            row: Row = {
                "model": one.model,
                name: group,
                "score": score,
                "n": int(inside.sum()),
                "agreement": None,
                "reason": None,
            }
            row["mean"] = float(one.scores[score][inside].mean())
            try:
                if inside.sum() < 4:
                    raise InputError(f"{inside.sum()} samples; at least 4 are needed")
                row["agreement"] = spearman(x, y)
            except InputError as error:
                said = str(error).replace("x is constant", f"{score} is constant")
                row["reason"] = said.replace("y is constant", f"{one.target.words} is constant")
            rows.append(row)
    return rows

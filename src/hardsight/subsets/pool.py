"""`Pool`: the samples to choose among, with what the method needs to know of each, in the order of their ids.

So rows in another order give the same subset.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.epochs import has_dynamics
from hardsight.files.kinds import kind_of
from hardsight.files.places import Place, place
from hardsight.scores import SCORES
from hardsight.scoring.hardness import Hardness, check_columns, given_table, hardness_of, ids_and_labels, of_table
from hardsight.scoring.samples import check_unique_ids, path_of, rows_of_split
from hardsight.snapshot import Snapshot
from hardsight.subsets.settings import UNCERTAIN, SelectSettings
from hardsight.subsets.uncertainty import uncertainty, with_head
from hardsight.table import SCORE_IT, read_scores

BY_SCORE = ("hardest", "easiest", "coverage", "d2", *UNCERTAIN)
BY_FEATURES = ("kcenter", "d2")
COLUMN_OF = {"entropy": "entropy", "avc": "avc_predicted"}  # what a table of scores says of them


@dataclass(frozen=True)
class Pool:
    """n samples to choose among."""

    ids: np.ndarray  # (n,) strings or integers
    labels: np.ndarray  # (n,) int64, -1 unlabeled
    rows: np.ndarray  # (n,) where each is in the input
    by: str = ""  # the score
    values: np.ndarray | None = None  # (n,) of it
    harder: np.ndarray | None = None  # (n,) the same with the hard end up
    unit: np.ndarray | None = None  # (n, d) directions of the features
    centers: np.ndarray | None = None  # (m, d) directions of the labeled samples, where unlabeled ones are chosen
    class_names: list[str] | None = None
    num_classes: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: np.ndarray) -> Pool:
        """The pool with only these rows."""
        own = replace(self, ids=self.ids[rows], labels=self.labels[rows], rows=self.rows[rows])
        return replace(own, values=_some(self.values, rows), harder=_some(self.harder, rows), unit=_some(self.unit, rows))

    def name_of(self, label: int) -> str:
        """A class by its number and, if known, its name."""
        return f"{label}" if self.class_names is None else f"{label} ({self.class_names[label]})"


def _some(x: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if x is None else x[rows]


def open_pool(source: Any, settings: SelectSettings) -> Pool:
    """The samples of a path, a `Snapshot` or a table of scores that a method can choose among."""
    where = "the table"
    if isinstance(source, (str, os.PathLike)):
        path = place(source)
        where = str(path)
        source = read_scores(path) if is_scores(path) else Snapshot.load(path)
    if isinstance(source, Snapshot):
        return _of_snapshot(source, settings)
    return _of_table(given_table(source), where, settings)


def is_scores(path: Place, settings: Any = None) -> bool:
    """Whether a file is read as a table of scores. A CSV is, unless the options name its columns or bring a head or labels."""
    if any(getattr(settings, name, None) is not None for name in ("features", "label", "head", "labels")):
        return False
    return isinstance(path, Path) and path.is_file() and (path.suffix.lower() in (".csv", ".tsv") or kind_of(path) == "scores")


def _of_table(table: pa.Table, where: str, settings: SelectSettings) -> Pool:
    """A table of scores has no features and no probabilities."""
    method = settings.method
    if method in BY_FEATURES or method == "margin":
        what = "features" if method in BY_FEATURES else "a head, logits or probs"
        raise InputError(f"{method} needs {what}, and a table of scores has none: give the run or the snapshot.")
    columns = table.column_names
    usual = next((name for name in ("aum", "avh", "loss") if name in columns), "avh")
    by = COLUMN_OF.get(method) or settings.by or usual
    others = set(columns) - {"id", "label", "split", "path"}  # of a wide table, these are features
    wide = method in BY_SCORE and settings.by is None and others and not others & {*SCORES, "predicted", by}
    if wide or not {"id", "label", "predicted"} & set(columns):
        has = ", ".join(columns[:20])
        way = f"Score it first ({SCORE_IT}), or name its columns: --features 'f*' --label NAME"
        raise InputError(f"{where} is not a table of scores: it has {has}. {way}.")
    check_columns(table, ("id",), where)
    ids, labels = ids_and_labels(table)
    rows, notes = _rows(labels, table.column("split").to_pylist() if "split" in columns else None, settings)
    pool = Pool(ids, labels, np.arange(len(table)), notes=notes)
    if method in BY_SCORE:
        pool = _scored(pool, of_table(table, by, where))
    return _usable(pool.take(rows), settings, int(labels.max(initial=-1)) + 1)


def _of_snapshot(snapshot: Snapshot, settings: SelectSettings) -> Pool:
    method = settings.method
    names = [name for name in ("id", "label", "split") if name in snapshot.column_names]
    columns = snapshot.columns(names)
    labels = np.asarray(columns.column("label").fill_null(-1).to_numpy(), np.int64)
    rows, notes = _rows(labels, columns.column("split").to_pylist() if "split" in names else None, settings)
    pool = Pool(columns.column("id").to_numpy(), labels, np.arange(len(labels)), class_names=snapshot.class_names, notes=notes)
    num_classes = snapshot.num_classes or int(labels.max(initial=-1)) + 1
    needed = pool.ids if method in BY_SCORE else pool.ids[rows]
    check_unique_ids(needed.tolist(), "the samples")  # before a head is fitted, which takes long
    by = settings.by or usual_score(snapshot, labels[rows])
    needs_labels = method in BY_SCORE and method not in UNCERTAIN and by in SCORES and SCORES[by].labels
    scorable = rows[labels[rows] >= 0] if needs_labels else rows
    if len(scorable):
        _check_budget(replace(pool.take(scorable), num_classes=num_classes), settings)
    if method in UNCERTAIN:
        snapshot = with_head(snapshot)
        pool = _scored(pool, uncertainty(snapshot, method))
    elif method in BY_SCORE:
        pool = _scored(pool, hardness_of(snapshot, by))
    if method in BY_FEATURES:
        if snapshot.source.evidence != "features":
            raise InputError(f"{method} needs features, and there are only {snapshot.source.evidence}.")
        unit = directions(to_numpy(snapshot.in_memory().values))
        among_unlabeled = bool(len(rows)) and (labels[rows] < 0).all() and (labels >= 0).any()
        centers = unit[(labels >= 0) & np.isfinite(unit[:, 0])] if method == "kcenter" and among_unlabeled else None
        pool = replace(pool, unit=unit, centers=centers)
    return _usable(pool.take(rows), settings, num_classes)


def usual_score(snapshot: Snapshot, labels: np.ndarray) -> str:
    """The default score: aum if the run recorded its epochs, else avh, else loss; entropy for unlabeled samples."""
    if not (labels >= 0).any():
        return "entropy"
    if snapshot.source.evidence != "features":
        return "loss"
    return "aum" if has_dynamics(path_of(snapshot)) else "avh"


def _scored(pool: Pool, hardness: Hardness) -> Pool:
    return replace(pool, by=hardness.score, values=hardness.values, harder=hardness.harder)


def directions(features: np.ndarray) -> np.ndarray:
    """(n, d) unit vectors in float32; NaN where a row has no direction."""
    with np.errstate(all="ignore"):
        wide = features if features.dtype == np.float64 else features.astype(np.float32)  # no float32 holds 1e200
        scaled = (wide / np.abs(wide).max(axis=1, keepdims=True, initial=0.0)).astype(np.float32)
        unit: np.ndarray = scaled / np.sqrt(np.vecdot(scaled, scaled))[:, None]
    unit[~np.isfinite(unit).all(axis=1)] = np.nan
    return unit


def _rows(labels: np.ndarray, splits: list[Any] | None, settings: SelectSettings) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of the split asked for, labeled or unlabeled, and what was decided automatically."""
    mine, notes = np.ones(len(labels), bool), []
    present = sorted({name for name in splits or () if name is not None})
    split = settings.split
    if split is None and "train" in present and len(present) > 1:
        split = "train"
        notes.append(f"using only the split train, not {', '.join(name for name in present if name != 'train')}")
    if split is not None:
        mine[:] = False
        mine[rows_of_split(splits, split, "the samples")] = True
    unlabeled = mine & (labels < 0)
    wanted = settings.unlabeled
    if wanted is None and settings.method in UNCERTAIN:
        wanted = bool(unlabeled.any()) or None
        if wanted is None:
            notes.append("every sample is labeled: choosing among all of them")
    if wanted and not unlabeled.any():
        raise InputError("there are no unlabeled samples to choose from: every sample has a label.")
    if wanted is not None:
        mine &= (labels < 0) if wanted else (labels >= 0)
    if not mine.any():
        raise InputError("there are no samples to choose from.")
    _check_size(settings, int(mine.sum()))  # before anything is scored
    return np.flatnonzero(mine), tuple(notes)


def _usable(pool: Pool, settings: SelectSettings, num_classes: int) -> Pool:
    """Without the samples of which the method knows nothing, in the order of the ids; budget and classes are checked."""
    n = len(pool)
    fine, missing = np.ones(n, bool), ""
    if pool.harder is not None:
        fine, missing = np.isfinite(pool.harder), f"have no {pool.by}"
    if pool.unit is not None:
        fine, missing = fine & np.isfinite(pool.unit[:, 0]), missing or "have no direction"
    if not fine.any():
        unlabeled = pool.by in SCORES and SCORES[pool.by].labels and (pool.labels < 0).all()
        hint = f": {pool.by} needs labels, and there are none; try --by entropy, or --method kcenter" if unlabeled else ""
        raise InputError(f"none of the {n} samples can be used{hint or f': they {missing}'}.")
    if not fine.all():
        pool = replace(pool, notes=(*pool.notes, f"{n - fine.sum()} of {n} samples {missing} and are left out"))
    ids, pool = pool.ids, replace(pool, num_classes=num_classes)
    rows = np.flatnonzero(fine)
    pool = pool.take(rows[np.argsort(ids[rows], kind="stable")])
    check_unique_ids(pool.ids.tolist(), "the samples")
    _check_budget(pool, settings)
    return pool


def _check_size(settings: SelectSettings, n: int) -> int:
    """The budget, if there are as many samples."""
    assert settings.budget is not None  # checked with the options
    if settings.budget > n:
        raise InputError(f"a budget of {settings.budget} is more than the {n} samples to choose from: give at most {n}.")
    return settings.budget


def _check_budget(pool: Pool, settings: SelectSettings) -> None:
    n = len(pool)
    budget = _check_size(settings, n)
    if not (settings.per_class or settings.method == "balanced"):
        return
    by = "balanced" if settings.method == "balanced" else "--per-class"
    if (pool.labels < 0).any():
        missing, way = (pool.labels < 0).sum(), "add --labeled, or use another method such as kcenter"
        raise InputError(f"{by} needs a label for every sample, and {missing} of {n} have none: {way}.")
    counts = np.bincount(pool.labels, minlength=pool.num_classes)
    if counts.min() == 0:
        name, way = pool.name_of(int(counts.argmin())), "use another method" if by == "balanced" else "leave it out"
        raise InputError(f"class {name} has no samples to choose from, and {by} needs some of every class: {way}.")
    if budget < len(counts):
        raise InputError(f"a budget of {budget} is too small for {by}: there are {len(counts)} classes, give at least as many.")

"""The candidates of a selection: rows of a snapshot in the order of their ids, with what the method needs to know of each.

So rows in another order give the same subset. What to label next is what the model is least sure of:

    margin    p_1 - p_2, the two largest probabilities; low where two classes are close
    entropy   -sum_k p_k log p_k; high where many are
    avc       angular visual confidence of the predicted class; low where it is not clearly the nearest by angle
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardsight.checks import to_numpy, widened
from hardsight.errors import InputError
from hardsight.files.epochs import has_dynamics
from hardsight.scores import SCORES
from hardsight.scoring.fitted_head import fit_head, unconverged
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.subsets.settings import UNCERTAIN, SelectSettings

BY_SCORE = ("hardest", "easiest", "coverage", "d2", *UNCERTAIN)
BY_FEATURES = ("kcenter", "d2")
BLOCK = 2**20  # probabilities at a time
COLUMN_OF = {"margin": "probability_margin", "entropy": "entropy", "avc": "avc_predicted"}  # the score of each method
USUAL = ("aum", "avh", "loss")  # of a table of scores, the first that it has


@dataclass(frozen=True)
class EligibleRows:
    """n rows of a snapshot to choose among, and what is known of them."""

    samples: Snapshot
    rows: np.ndarray  # (n,) of the snapshot
    labels: np.ndarray  # (n,) int64, -1 unlabeled
    num_classes: int
    by: str = ""  # the score
    values: np.ndarray | None = None  # (n,) of it
    unit: np.ndarray | None = None  # (n, d) directions of the features
    centers: np.ndarray | None = None  # (m, d) directions of the labeled samples, where unlabeled ones are chosen
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def harder(self) -> np.ndarray:
        """(n,) the score turned so that high is hard."""
        assert self.values is not None
        return SCORES.harder(self.by, self.values)

    @property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers."""
        return np.asarray(self.samples.ids[self.rows])

    def take(self, rows: np.ndarray) -> EligibleRows:
        """Only these of the candidates."""
        values, unit = (None if array is None else array[rows] for array in (self.values, self.unit))
        return replace(self, rows=self.rows[rows], labels=self.labels[rows], values=values, unit=unit)

    def name_of(self, label: int) -> str:
        """A class by its number and, if known, its name."""
        names = self.samples.class_names
        return f"{label}" if names is None else f"{label} ({names[label]})"


def eligible_rows(samples: Snapshot, settings: SelectSettings) -> EligibleRows:
    """The samples that a method can choose among; what can be refused before anything is scored is refused first."""
    labels = samples.labels
    rows, notes = _rows(samples, labels, settings)
    num_classes = samples.num_classes or int(labels.max(initial=-1)) + 1
    found = EligibleRows(samples, np.arange(len(samples)), labels, num_classes, notes=notes)
    by = _score(samples, labels[rows], settings)
    needs_labels = settings.method not in UNCERTAIN and by in SCORES and SCORES[by].labels
    scorable = rows[labels[rows] >= 0] if needs_labels else rows
    if len(scorable):
        _check_budget(found.take(scorable), settings)
    if by:
        found = replace(found, by=by, values=_values(samples, settings.method, by))
    if settings.method in BY_FEATURES:
        found = _with_directions(found, rows, settings.method)
    found = found.take(rows[np.argsort(samples.ids[rows], kind="stable")])
    return _usable(found, settings)


def _score(samples: Snapshot, labels: np.ndarray, settings: SelectSettings) -> str:
    """The score to choose by; "" for a method that goes by none."""
    method = settings.method
    if samples.source.evidence == SCORES_ALONE and method in (*BY_FEATURES, "margin"):
        what = "features" if method in BY_FEATURES else "a head, logits or probs"
        raise InputError(f"{method} needs {what}, and a table of scores has none: give the run or the snapshot.")
    if method not in BY_SCORE:
        return ""
    return COLUMN_OF.get(method) or settings.by or usual_score(samples, labels)


def usual_score(samples: Snapshot, labels: np.ndarray) -> str:
    """The default score: aum if the run recorded its epochs, else avh, else loss; entropy for unlabeled samples."""
    if samples.source.evidence == SCORES_ALONE:
        return next((name for name in USUAL if name in samples.column_names), "avh")
    if not (labels >= 0).any():
        return "entropy"
    if samples.source.evidence != "features":
        return "loss"
    return "aum" if has_dynamics(samples.path) else "avh"


def _values(samples: Snapshot, method: str, by: str) -> np.ndarray:
    """(n,) the score of every sample, NaN where it has none."""
    if method in UNCERTAIN and samples.source.evidence != SCORES_ALONE:
        samples = with_head(samples)
        if method == "margin":
            return margins(samples)
    values = np.asarray(samples.scores([by]).column(by).to_numpy(), np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def with_head(snapshot: Snapshot) -> Snapshot:
    """The snapshot; where it has features and no head, with one that is fitted to its labeled samples."""
    if snapshot.head is not None or snapshot.source.evidence != "features":
        return snapshot
    rows = snapshot.in_memory()
    features, labels = to_numpy(rows.values), rows.labels
    known = np.flatnonzero((labels >= 0) & np.isfinite(features).all(axis=1))
    if len(np.unique(labels[known])) < 2:
        raise InputError("there is no head, and no labels of two classes to fit one to: give a head.")
    with unconverged():
        head = fit_head(features[known], labels[known], int(labels.max()) + 1)
    return Snapshot(features, head, labels, ids=rows.ids, class_names=snapshot.class_names)


def margins(snapshot: Snapshot) -> np.ndarray:
    """(n,) margin between the two largest probabilities, NaN where there are none; low is hard."""
    rows = max(1, BLOCK // max(1, snapshot.num_classes or 1))
    return np.concatenate([np.empty(0), *(_margins(snapshot, to_numpy(batch.values)) for batch in snapshot.batches(rows=rows))])


def _margins(snapshot: Snapshot, values: np.ndarray) -> np.ndarray:
    """(b, d) features, or (b, c) logits or probabilities -> (b,)"""
    from scipy.special import softmax

    evidence = snapshot.source.evidence
    with np.errstate(all="ignore"):
        if evidence == "features":
            assert snapshot.head is not None
            values = to_numpy(snapshot.head.logits(widened(values)))
        probs = values if evidence == "probs" else softmax(values.astype(np.float64), axis=1)  # (b, c)
    if probs.shape[1] < 2:
        raise InputError("a margin lies between two classes, and there is one.")
    top = np.partition(probs, -2, axis=1)[:, -2:]
    return np.where(np.isfinite(probs).all(axis=1), top[:, 1] - top[:, 0], np.nan)


def _with_directions(found: EligibleRows, rows: np.ndarray, method: str) -> EligibleRows:
    """With the directions of all features, and those of the labeled ones as centers where unlabeled ones are chosen."""
    features = found.samples.features
    if features is None:
        raise InputError(f"{method} needs features, and there are only {found.samples.source.evidence}.")
    unit = directions(features)
    labeled = found.labels >= 0
    among_unlabeled = bool(len(rows)) and not labeled[rows].any() and labeled.any()
    centers = unit[labeled & np.isfinite(unit[:, 0])] if method == "kcenter" and among_unlabeled else None
    return replace(found, unit=unit, centers=centers)


def directions(features: np.ndarray) -> np.ndarray:
    """(n, d) unit vectors in float32; NaN where a row has no direction."""
    with np.errstate(all="ignore"):
        wide = features if features.dtype == np.float64 else features.astype(np.float32)  # no float32 holds 1e200
        scaled = (wide / np.abs(wide).max(axis=1, keepdims=True, initial=0.0)).astype(np.float32)
        unit: np.ndarray = scaled / np.sqrt(np.vecdot(scaled, scaled))[:, None]
    unit[~np.isfinite(unit).all(axis=1)] = np.nan
    return unit


def _rows(samples: Snapshot, labels: np.ndarray, settings: SelectSettings) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of the requested split, labeled or unlabeled, and what was decided automatically."""
    mine, notes = _in_split(samples, settings.split)
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
    _check_size(settings, int(mine.sum()))
    return np.flatnonzero(mine), tuple(notes)


def _in_split(samples: Snapshot, split: str | None) -> tuple[np.ndarray, list[str]]:
    """(n,) whether each sample is of the split, and a note if train was chosen among several."""
    notes = []
    present = sorted({str(name) for name in samples.splits if name is not None}) if samples.splits is not None else []
    if split is None and "train" in present and len(present) > 1:
        split = "train"
        notes.append(f"using only the split train, not {', '.join(name for name in present if name != 'train')}")
    rows = np.arange(len(samples))
    return np.isin(rows, samples.rows_of_split(split)) if split is not None else np.ones(len(samples), bool), notes


def _usable(found: EligibleRows, settings: SelectSettings) -> EligibleRows:
    """Without the samples of which the method knows nothing; budget and classes are checked again."""
    n = len(found)
    fine, missing = np.ones(n, bool), ""
    if found.values is not None:
        fine, missing = np.isfinite(found.values), f"have no {found.by}"
    if found.unit is not None:
        fine, missing = fine & np.isfinite(found.unit[:, 0]), missing or "have no direction"
    if not fine.any():
        unlabeled = found.by in SCORES and SCORES[found.by].labels and (found.labels < 0).all()
        hint = f": {found.by} needs labels, and there are none; try --by entropy, or --method kcenter" if unlabeled else ""
        raise InputError(f"none of the {n} samples can be used{hint or f': they {missing}'}.")
    if not fine.all():
        found = replace(found, notes=(*found.notes, f"{n - fine.sum()} of {n} samples {missing} and are left out"))
    found = found.take(np.flatnonzero(fine))
    _check_budget(found, settings)
    return found


def _check_size(settings: SelectSettings, n: int) -> int:
    """The budget, if there are as many samples."""
    assert settings.budget is not None  # checked with the options
    if settings.budget > n:
        raise InputError(f"a budget of {settings.budget} is more than the {n} samples to choose from: give at most {n}.")
    return settings.budget


def _check_budget(found: EligibleRows, settings: SelectSettings) -> None:
    n = len(found)
    budget = _check_size(settings, n)
    if not (settings.per_class or settings.method == "balanced"):
        return
    by = "balanced" if settings.method == "balanced" else "--per-class"
    if (found.labels < 0).any():
        missing, way = (found.labels < 0).sum(), "add --labeled, or use another method such as kcenter"
        raise InputError(f"{by} needs a label for every sample, and {missing} of {n} have none: {way}.")
    counts = np.bincount(found.labels, minlength=found.num_classes)
    if counts.min() == 0:
        name, way = found.name_of(int(counts.argmin())), "use another method" if by == "balanced" else "leave it out"
        raise InputError(f"class {name} has no samples to choose from, and {by} needs some of every class: {way}.")
    if budget < len(counts):
        raise InputError(f"a budget of {budget} is too small for {by}: there are {len(counts)} classes, give at least as many.")

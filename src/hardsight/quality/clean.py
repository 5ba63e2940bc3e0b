"""`clean`: from anything a snapshot opens to the suspects among its samples. Every step is a call, in order:

the samples, opened and checked         here
near duplicates, neighbors              neighbors.py
what labels are judged by               evidence.py
which labels are flagged, and why       flagged_labels.py
one verdict per sample, in words        verdicts.py
the table, and what is printed of it    suspects.py
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_unique
from hardsight.data.run_images import pictures_of
from hardsight.errors import InputError
from hardsight.files.epochs import has_dynamics
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.reading import naming
from hardsight.options import takes
from hardsight.quality.evidence import best_evidence
from hardsight.quality.flagged_labels import judge
from hardsight.quality.neighbors import Neighborhood, find_nearby, find_neighborhood
from hardsight.quality.settings import CleanSettings
from hardsight.quality.suspects import Suspects, suspects_table
from hardsight.quality.verdicts import explained_verdicts, facts_of
from hardsight.result import table_target
from hardsight.scores.duplicates import find_repeats
from hardsight.scores.probabilities import check_distributions
from hardsight.scoring.comparable import check_reference
from hardsight.scoring.fitted_head import NONE_FINITE, fewest_of_class, usable_rows
from hardsight.screen import Progress, warn_in_python
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE

if TYPE_CHECKING:
    from hardsight.option_types import CleanOptions

STEPS = 4


@takes(CleanSettings)
def clean(
    x: Any = None, labels: Any = None, *, output: str | os.PathLike[str] | None = None,
    settings: CleanSettings | None = None, progress: Progress | None = None, **options: Unpack[CleanOptions],
) -> Suspects:  # fmt: skip
    """Find wrong labels, ambiguous and hard samples, outliers and near duplicates: one row per sample.

    Args:
        x: a run directory, a file (.npz, .npy, .parquet, .csv) or a `Snapshot`; a wide table, such as a pandas frame; (n, d)
            features; or nothing, and arrays by keyword.
        labels: (n,) given class; -1 or null for unlabeled. Of a table, the name of a column; of a file, also a .npy file.
        output: .parquet, .csv or .json to write the table to. `hardsight clean` writes suspects.parquet in a run, and
            photo.suspects.parquet next to photo.npz: `explore` and `report` look there.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the steps done, the steps in all, and what is going on.

    Returns:
        `Suspects`, used as a `pyarrow.Table`: id, given_label, suggested_label, suggested_probability, error_score,
        verdict, explanation, is_label_issue, label_quality and predicted_label. Warnings are raised as `UserWarning`.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.98, 0.02]])
        >>> table = clean(probs=probs, labels=[0, 0, 1, 1])
        >>> int(np.argmax(table["error_score"])), table["predicted_label"].to_pylist()
        (3, [0, 0, 1, 0])
    """
    settings = CleanSettings.given(settings, options, labels=labels)
    inputs = (x, settings.head, settings.labels, settings.probs, settings.class_names, settings.reference)
    table_target(output, "suspects", inputs)
    samples = _opened(x, settings)
    reference = _opened_reference(samples, settings)
    # Folds and subsamples are drawn in the order of the ids: rows in another order give each sample the same result.
    order = np.asarray(pc.array_sort_indices(pa.array(samples.ids, samples.source.id_type))).astype(np.int64)
    ordered = samples.take(order)
    _check_samples(ordered)
    report = progress or (lambda done, total, words: None)
    near = None
    if settings.neighbors and ordered.features is not None:
        near = find_neighborhood(ordered.features, ordered.labels, settings.folds, lambda done, words: report(done, STEPS, words))
    report(2, STEPS, "judging labels")
    run = samples.path if has_dynamics(samples.path) else None
    evidence = best_evidence(ordered, run, settings, near, lambda done, total: report(2, STEPS, f"fold {done} of {total}"))
    evidence, judgment = judge(evidence)
    unscored = judgment.unscored(evidence.labels, ordered.features)
    report(3, STEPS, "giving verdicts")
    back = np.argsort(order)
    near = None if near is None else _put_back(near, order, samples, reference)
    evidence, judgment = evidence.take(back), judgment.take(back)
    verdicts = explained_verdicts(samples, evidence, facts_of(evidence, judgment.flagged), near)
    table = suspects_table(samples, evidence, judgment, verdicts, near, settings.named_columns)
    suspects = Suspects(table, settings.top, unscored)
    warnings = list(suspects.notes)  # those of the samples were given when they were opened
    suspects.set_samples(samples, pictures_of(samples))
    if output is not None:
        suspects.save(output)
    warn_in_python(warnings)
    report(STEPS, STEPS, "done")
    return suspects


def _opened(x: Any, settings: CleanSettings) -> Snapshot:
    """The labeled samples that the options select, and what labels can be judged by."""
    keywords = settings.keywords()
    if isinstance(keywords.get("probs"), (str, os.PathLike)):
        keywords["probs"] = _read_probs(keywords["probs"])
    samples = Snapshot.open(x, **keywords).selected(settings.split, settings.first, settings.limit)
    if samples.source.evidence == SCORES_ALONE:
        raise InputError(f"{samples.where}: this is a table of scores: pass the features, logits or probs that they are of.")
    if (samples.labels < 0).all():
        what = "no labels to check: give labels." if len(samples) else "there are 0 samples."
        raise InputError(f"{samples.where}: {what}")
    check_unique(samples.ids, samples.where)  # also where a snapshot allows duplicates: verdicts are joined by id
    if (probs := samples.probs) is not None:
        check_distributions(probs)
    return samples


def _check_samples(samples: Snapshot) -> None:
    """Labels of two classes at least, and features that labels can be judged by. Refused before anything takes time."""
    labels, features, where = samples.labels, samples.features, samples.where
    labeled = labels >= 0
    present = np.unique(labels[labeled])
    if len(present) < 2:
        raise InputError(f"{where}: wrong labels are found among two classes or more, but every label is class {present[0]}.")
    if features is None or samples.probs is not None or samples.logits is not None:
        return
    if len(features) > 1 and np.array_equal(features[0], features[1]) and (features == features[0]).all():
        raise InputError(f"{where}: all rows of features are equal, so they say nothing of single samples: give other features.")
    usable = labeled & usable_rows(features)
    if not usable.any():
        raise InputError(f"{where}: {NONE_FINITE}")
    if samples.head is None:  # heads will be fitted
        with naming(where):
            fewest_of_class(labels[usable])


def _read_probs(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of a .npy file; of a .npz, its probs or pred_probs, or the only array."""
    if Path(path).suffix != ".npz":
        return np.asarray(open_npy(path))
    arrays = open_npz(path)
    names = [name for name in arrays if name in ("probs", "pred_probs")] or list(arrays)
    if len(names) != 1:
        there = ", ".join(sorted(arrays)) or "none"
        raise InputError(f"{path}: probabilities must be the array probs or pred_probs, or the only one; arrays: {there}.")
    return np.asarray(arrays[names[0]])


def _opened_reference(samples: Snapshot, settings: CleanSettings) -> Snapshot | None:
    """Another snapshot of the same model."""
    if settings.reference is None:
        return None
    if not settings.neighbors:
        raise InputError("a reference is searched for neighbors: leave out --no-neighbors, or the reference.")
    if samples.source.evidence != "features":
        raise InputError("a reference is compared by features, and there are only probabilities here.")
    reference = Snapshot.open(settings.reference)
    check_reference(samples, reference)
    features = reference.features
    if features is None or not np.isfinite(features).all(axis=1).any():
        raise InputError(f"{reference.name or 'the reference'}: no sample of the reference has finite features.")
    return reference


def _put_back(near: Neighborhood, order: np.ndarray, samples: Snapshot, reference: Snapshot | None) -> Neighborhood:
    """What was found in the order of the ids, in that of the samples; and what they are to the reference."""
    near = replace(near, nearby=near.nearby.take(np.argsort(order)), repeats=near.repeats.put_back(order))
    if reference is None:
        return near
    features, others = samples.features, reference.features
    assert features is not None and others is not None
    ids = [str(id) for id in reference.columns(["id"]).column(0).to_pylist()]
    return replace(near, nearby=find_nearby(features, others), leaked=find_repeats(features, others), reference_ids=ids)

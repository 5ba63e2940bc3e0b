"""`clean`: the table of suspects, one row per sample, in the order of the samples.

    id
    given_label             class index; null for unlabeled
    suggested_label         the most likely class, if the label is likely wrong; else the given one
    suggested_probability   of it
    error_score             higher = more likely wrong (ranking.py); null where a sample could not be scored
    verdict, explanation    verdicts.py; null for an ordinary sample
    is_label_issue          whether the score is among the expected number of errors
    label_quality           1 / (1 + e^(error_score - threshold)): one half at the threshold, less for likelier errors
    predicted_label         the most likely class

The schema's metadata, under `hardsight`, says which evidence was used and how many errors are expected.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.act.error_count import ErrorCount, count_by_votes, count_from_shares, count_of_lost, leaky, score_all
from hardsight.act.evidence import ASSUMED, Evidence, Samples, best_evidence, check_samples, order_of_ids, samples_of
from hardsight.act.neighbourhood import Neighbourhood, enough_voters, find_nearby, find_repeats, votes_by_probs
from hardsight.act.noise import estimated_noise
from hardsight.act.ranking import BY_PROBS, by_epochs, posterior
from hardsight.act.settings import CleanSettings
from hardsight.act.verdicts import VERDICTS, Explainer, judged, verdict_codes
from hardsight.checks import given_probs, to_numpy
from hardsight.errors import InputError
from hardsight.files.suspects import SUSPECTS
from hardsight.files.wide_tables import is_table
from hardsight.options import takes
from hardsight.scores_table import ResultTable
from hardsight.scoring.beside import check_reference
from hardsight.scoring.job import of_table
from hardsight.scoring.pictures import pictures_of
from hardsight.screen import brief
from hardsight.snapshot import Snapshot
from hardsight.version import VERSION

ProgressCallback = Callable[[int, int, str], None]  # steps done, steps in all, what is going on
STEPS = 4


@dataclass(frozen=True)
class Suspects:
    """The table, with what it was made from."""

    __repr__ = brief

    table: pa.Table
    evidence: Evidence
    count: ErrorCount
    samples: Samples


@takes(CleanSettings)
def clean(
    source: Any = None, labels: Any = None, *, features: Any = None, probs: Any = None, pred_probs: Any = None,
    logits: Any = None, head: Any = None, ids: Any = None, settings: CleanSettings, progress: ProgressCallback | None = None,
) -> ResultTable:  # fmt: skip
    """Find wrong labels, ambiguous and hard samples, outliers and near duplicates: one row per sample.

    Args:
        source: a run directory, a file (.npz, .npy, .parquet, .csv) or a `Snapshot`; a wide table, such as a pandas frame; (n, d)
            features; or nothing, and arrays by keyword.
        features: (n, d) inputs of the last linear layer; of a table, names or patterns of columns: "f*".
        labels: (n,) given class; -1 or null for unlabeled. Of a table, the name of a column.
        probs: (n, c) out-of-sample probabilities, alone or beside features; `pred_probs` is another name of them.
        logits: (n, c) instead of probabilities.
        head: a `Head`, or the (c, d) weight of a linear one. Without it, heads are fitted by folds.
        ids: (n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the steps done, the steps in all, and what is going on.

    Returns:
        A `ResultTable`, used as a `pyarrow.Table`: id, given_label, suggested_label, suggested_probability, error_score,
        verdict, explanation, is_label_issue, label_quality and predicted_label. Warnings are raised as `UserWarning`.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.98, 0.02]])
        >>> table = clean(probs=probs, labels=[0, 0, 1, 1])
        >>> int(np.argmax(table["error_score"])), table["predicted_label"].to_pylist()
        (3, [0, 0, 1, 0])
    """
    import warnings

    probs = given_probs(probs, pred_probs)
    arrays = {"features": features, "labels": labels, "probs": probs, "logits": logits, "head": head, "ids": ids}
    snapshot, beside = _opened(source, arrays)
    suspects = find_suspects(samples_of(snapshot, beside), settings, progress)
    for sentence in suspects.evidence.warnings:
        warnings.warn(sentence, stacklevel=3)
    shown = ("id", "given_label", "suggested_label", "error_score", "verdict")
    return ResultTable(suspects.table, "error_score", "verdict", shown).of(snapshot, pictures_of(snapshot))


def _opened(source: Any, arrays: dict[str, Any]) -> tuple[Snapshot, Any]:
    """The samples of a snapshot, a path or arrays, and the probabilities beside their features."""
    given = {name: value for name, value in arrays.items() if value is not None}
    if is_table(source):
        beside = given.pop("probs", None)
        return of_table(source, given.pop("features", None), given), beside
    if source is not None and not isinstance(source, (Snapshot, str, os.PathLike)) and "features" not in given:
        source, given = None, {"features": source, **given}
    if source is not None:
        allowed = {"probs"} if isinstance(source, Snapshot) else {"probs", "head", "labels"}
        extra = [name for name in given if name not in allowed]
        if extra:
            raise InputError(f"{extra[0]} goes with arrays; a snapshot holds its own.")
        if not isinstance(source, (Snapshot, str, os.PathLike)):
            raise InputError(
                f"clean takes a run, a file, a Snapshot or a table, or arrays by keyword, got {type(source).__name__}."
            )
        files = {name: given[name] for name in ("head", "labels") if name in given}
        snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source, **files)
        return snapshot, given.get("probs")
    if not given.keys() & {"features", "probs", "logits"}:
        raise InputError(
            "clean needs samples: a run, a file, a Snapshot or a table; or labels= with features=, probs= or logits=."
        )
    if "features" in given and "probs" in given:
        from hardsight.pandas_index import align

        beside = align(given.pop("probs"), "probs", given["features"], "features", given.get("ids"))
        return Snapshot(**given), beside
    return Snapshot(**given), None


def find_suspects(samples: Samples, settings: CleanSettings, progress: ProgressCallback | None = None) -> Suspects:
    """The whole of `clean`, of samples that are open."""
    say = progress or (lambda done, total, words: None)
    samples = _of_split(samples, settings.split)
    check_samples(samples)
    reference = _reference(samples, settings)
    judged_samples = samples.without_gaps()
    # Folds and subsamples are drawn in the order of the ids: rows in another order give each sample the same result.
    order = order_of_ids(samples)
    ordered = judged_samples.take(order)
    near: Neighbourhood | None = None
    originals: np.ndarray | None = None
    if settings.neighbours and ordered.features is not None:
        say(0, STEPS, "searching duplicates")
        repeats = find_repeats(ordered.features)
        originals = repeats.originals(ordered.labels, settings.folds)
        say(1, STEPS, "searching neighbours")
        near = Neighbourhood(find_nearby(ordered.features, originals=originals), repeats)
    say(2, STEPS, "judging labels")
    nearby = None if near is None else near.nearby
    evidence = best_evidence(ordered, settings, nearby, originals, lambda done, total: say(2, STEPS, f"fold {done} of {total}"))
    scores, count = _scores(ordered.labels, evidence, settings.seed, originals)
    say(3, STEPS, "giving verdicts")
    back = np.argsort(order)
    evidence, scores = evidence.take(back), scores[back]
    if near is not None:
        near = _put_back(near, order, samples, reference)
    table = _table(judged_samples, evidence, scores, count, near, reference)
    say(4, STEPS, "done")
    return Suspects(table, evidence, count, samples)


def _put_back(near: Neighbourhood, order: np.ndarray, samples: Samples, reference: Snapshot | None) -> Neighbourhood:
    """What was found in the order of the ids, in that of the samples; and what they are to the reference."""
    repeats = near.repeats.put_back(order)
    if reference is None or samples.features is None:
        return Neighbourhood(near.nearby.take(np.argsort(order)), repeats)
    others = to_numpy(reference.in_memory().values)
    return Neighbourhood(find_nearby(samples.features, others), repeats, find_repeats(samples.features, others))


def _of_split(samples: Samples, split: str | None) -> Samples:
    if split is None:
        return samples
    held = [] if samples.splits is None else samples.splits
    rows = np.flatnonzero(np.array([name == split for name in held], dtype=bool))
    if len(rows) == 0:
        there = ", ".join(sorted({name for name in held if name is not None})) or "none"
        raise InputError(f"{samples.name or 'the samples'}: there is no split {split!r}; splits: {there}.")
    return samples.take(rows)


def _reference(samples: Samples, settings: CleanSettings) -> Snapshot | None:
    """Another snapshot of the same model."""
    reference = settings.reference
    if reference is None:
        return None
    if not settings.neighbours:
        raise InputError("a reference is searched for neighbours: leave out --no-neighbours, or the reference.")
    if samples.features is None:
        raise InputError("a reference is compared by features, and there are only probabilities here.")
    other = reference
    if not isinstance(reference, Snapshot):
        other = Snapshot.load(reference) if isinstance(reference, (str, os.PathLike)) else Snapshot(reference)
    check_reference(Snapshot(samples.features, samples.head), other)
    if not np.isfinite(to_numpy(other.in_memory().values)).all(axis=1).any():
        raise InputError(f"{other.name or 'the reference'}: no sample of the reference has finite features.")
    return other


def _scores(labels: np.ndarray, evidence: Evidence, seed: int, originals: np.ndarray | None) -> tuple[np.ndarray, ErrorCount]:
    """(n,) error scores, NaN where there is none, and how many labels are wrong."""
    scores = np.full(len(labels), np.nan)
    known = (labels >= 0) & np.isfinite(evidence.probs).all(axis=1)
    if evidence.kind == "epochs":
        known &= np.isfinite(evidence.epochs["aum" if evidence.by == "epochs" else evidence.by])
    own_labels, probs = _without_empty(labels[known], evidence.probs[known])
    noise = estimated_noise(probs, own_labels)
    scores[known], observed, made_up = score_all(probs, own_labels, BY_PROBS.get(evidence.by, posterior), noise)
    copies = None if originals is None else originals[known]
    if leaky(observed, made_up) and enough_voters(own_labels, copies):
        count = count_by_votes(votes_by_probs(probs, own_labels, copies), own_labels, seed)
    else:
        count = count_from_shares(observed, made_up, seed)
    if evidence.kind == "epochs":
        columns = {name: column[known] for name, column in evidence.epochs.items()}
        scores[known] = by_epochs(columns, evidence.by, scores[known], noise.one_way)
        lost = count_of_lost(columns["cartography_correctness"], seed)
        count = min(lost, count, key=lambda one: one.errors)  # a network that has learned little also loses right labels
    return scores, count


def _without_empty(labels: np.ndarray, probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) labels and (n, c) probabilities without the classes that have neither: indices may have large gaps."""
    there = np.asarray(probs.any(axis=0))  # (c,)
    there[labels] = True
    return (labels, probs) if there.all() else (np.cumsum(there)[labels] - 1, probs[:, there])


def _table(
    samples: Samples, evidence: Evidence, scores: np.ndarray, count: ErrorCount, near: Neighbourhood | None,
    reference: Snapshot | None,
) -> pa.Table:  # fmt: skip
    threshold = score_threshold(scores, count.errors)
    facts = judged(evidence, samples.labels, scores >= threshold)
    predicted = np.where(np.isfinite(evidence.probs), evidence.probs, -1.0).argmax(axis=1)
    scored = np.isfinite(evidence.probs).all(axis=1)
    # A model that has memorised a wrong label still predicts it: then the next class is what it should be.
    suggested = np.where(facts.issue, facts.rival, np.where(samples.labels >= 0, samples.labels, predicted))
    probability = evidence.probs[np.arange(len(suggested)), suggested]
    codes = verdict_codes(facts, near)
    names = None if reference is None else [str(id) for id in reference.columns(["id"]).column("id").to_pylist()]
    explain = Explainer(samples, facts, near, names)
    classes = np.arange(evidence.probs.shape[1]) if samples.classes is None else samples.classes  # (c,)
    rows = np.flatnonzero(codes >= 0)
    texts = np.full(len(codes), None, dtype=object)
    texts[rows] = [explain(int(row), int(codes[row])) for row in rows]
    verdict = np.array([*VERDICTS, None], dtype=object)[codes]  # -1 is the last
    with np.errstate(over="ignore", invalid="ignore"):
        quality = 1 / (1 + np.exp(scores - threshold))
    hidden = functools.partial(pa.array, mask=~np.isfinite(scores))
    arrays = [
        samples.ids,
        pa.array(classes[samples.labels], mask=samples.labels < 0),
        pa.array(classes[suggested], mask=~scored),
        pa.array(probability.astype(np.float64), mask=~scored),
        hidden(scores),
        pa.array(verdict, pa.string()),
        pa.array(texts, pa.string()),
        pa.array(facts.issue),
        hidden(quality),
        pa.array(classes[predicted], mask=~scored),
    ]
    schema = pa.schema(
        [("id", samples.ids.type), *SUSPECTS], metadata={"hardsight": json.dumps(_notes(evidence, count, threshold))}
    )
    return pa.Table.from_arrays(arrays, schema=schema)


def score_threshold(scores: np.ndarray, errors: float) -> float:
    """The score of the last of so many expected errors; beyond all scores if none is expected.

    Example:
        >>> score_threshold(np.array([3.0, 1.0, 2.0, np.nan]), 2.2)
        2.0
    """
    known = np.sort(scores[np.isfinite(scores)])
    count = min(round(errors), len(known))
    if count == 0:
        return float(known[-1]) + 1.0 if len(known) else 0.0
    return float(known[-count])


def _notes(evidence: Evidence, count: ErrorCount, threshold: float) -> dict[str, Any]:
    return {
        "version": VERSION,
        "evidence": evidence.kind,
        "by": evidence.by,
        "expected_errors": count.errors,
        "expected_errors_low": count.low,
        "expected_errors_high": count.high,
        "samples": count.num_samples,
        "threshold": threshold,
        "assumed": ASSUMED.get(evidence.kind),
        "warnings": list(evidence.warnings),
    }

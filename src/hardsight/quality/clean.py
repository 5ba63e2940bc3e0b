"""`clean`: the table of suspects, one row per sample, in the order of the samples.

    id
    given_label             class index; null for unlabeled
    suggested_label         the most likely class, if the label is likely wrong; else the given one
    suggested_probability   of it
    error_score             higher = more likely wrong (ranking.py); null where a sample could not be scored
    verdict, explanation    verdicts.py; null for an ordinary sample
    is_label_issue          whether the label is more likely wrong than right
    label_quality           probability that the label is right (error_model.py)
    predicted_label         the most likely class
    duplicate_of            id of the earlier sample, or of the one in the reference, that it repeats; null for none

The schema's metadata, under `hardsight`, says which evidence was used and how many errors are expected.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.checks import given_probs, to_numpy
from hardsight.errors import InputError
from hardsight.files.suspects import DUPLICATE_OF, SUSPECTS
from hardsight.files.wide_tables import is_table
from hardsight.options import takes
from hardsight.quality.error_model import (
    ErrorCount,
    ErrorModel,
    count_errors,
    fit_error_model,
    flagged,
    learned_by_heart,
    seen_in_training,
)
from hardsight.quality.evidence import Evidence, Samples, best_evidence, check_samples, order_of_ids, rests_on, samples_of
from hardsight.quality.neighbors import Neighborhood, find_nearby
from hardsight.quality.noise import estimated_noise
from hardsight.quality.ranking import BY_PROBS, by_epochs, posterior, scores_of_labels
from hardsight.quality.settings import CleanSettings
from hardsight.quality.verdicts import VERDICTS, Explainer, judged, verdict_codes
from hardsight.result import Result
from hardsight.scores.duplicates import find_repeats, first_rows
from hardsight.scoring.extra_inputs import check_reference
from hardsight.scoring.run_images import pictures_of
from hardsight.scoring.samples import rows_of_split
from hardsight.scoring.score import of_table
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.threads import thread_pool
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import CleanOptions


STEPS = 4
WON = 0.25  # share of epochs: wrong labels win in fewer, as long as they are not memorized


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
    logits: Any = None, head: Any = None, ids: Any = None,
    settings: CleanSettings | None = None, progress: Progress | None = None, **options: Unpack[CleanOptions],
) -> Result:  # fmt: skip
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
        A `Result`, used as a `pyarrow.Table`: id, given_label, suggested_label, suggested_probability, error_score,
        verdict, explanation, is_label_issue, label_quality and predicted_label. Warnings are raised as `UserWarning`.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.98, 0.02]])
        >>> table = clean(probs=probs, labels=[0, 0, 1, 1])
        >>> int(np.argmax(table["error_score"])), table["predicted_label"].to_pylist()
        (3, [0, 0, 1, 0])
    """
    settings = CleanSettings.given(settings, options)
    import warnings

    probs = given_probs(probs, pred_probs)
    arrays = {"features": features, "labels": labels, "probs": probs, "logits": logits, "head": head, "ids": ids}
    snapshot, beside = _opened(source, arrays)
    suspects = find_suspects(samples_of(snapshot, beside), settings, progress)
    for sentence in suspects.evidence.warnings:
        warnings.warn(sentence, stacklevel=3)
    result = Result(suspects.table).of(snapshot, pictures_of(snapshot))
    result.by, result.counted = "error_score", "verdict"
    result.shown = ("id", "given_label", "suggested_label", "error_score", "verdict")
    return result


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


def find_suspects(samples: Samples, settings: CleanSettings, progress: Progress | None = None) -> Suspects:
    """Judge the labels of opened samples, and find duplicates and outliers: what `clean` computes."""
    say = progress or (lambda done, total, words: None)
    samples = _of_split(samples, settings.split)
    check_samples(samples)
    reference = _reference(samples, settings)
    judged_samples = samples.without_gaps()
    # Folds and subsamples are drawn in the order of the ids: rows in another order give each sample the same result.
    order = order_of_ids(samples)
    ordered = judged_samples.take(order)
    near: Neighborhood | None = None
    originals: np.ndarray | None = None
    if settings.neighbors and ordered.features is not None:
        say(0, STEPS, "searching duplicates")
        repeats = find_repeats(ordered.features)
        originals = repeats.originals(ordered.labels, settings.folds)
        say(1, STEPS, "searching neighbors")
        near = Neighborhood(find_nearby(ordered.features, originals=originals), repeats)
    say(2, STEPS, "judging labels")
    nearby = None if near is None else near.nearby
    evidence = best_evidence(ordered, settings, nearby, originals, lambda done, total: say(2, STEPS, f"fold {done} of {total}"))
    evidence, judgment = _judgment(ordered.labels, evidence)
    say(3, STEPS, "giving verdicts")
    back = np.argsort(order)
    evidence, judgment = evidence.take(back), judgment.take(back)
    if near is not None:
        near = _put_back(near, order, samples, reference)
    table = _table(judged_samples, evidence, judgment, near, reference)
    say(4, STEPS, "done")
    return Suspects(table, evidence, judgment.count, samples)


def _put_back(near: Neighborhood, order: np.ndarray, samples: Samples, reference: Snapshot | None) -> Neighborhood:
    """What was found in the order of the ids, in that of the samples; and what they are to the reference."""
    repeats = near.repeats.put_back(order)
    if reference is None or samples.features is None:
        return Neighborhood(near.nearby.take(np.argsort(order)), repeats)
    others = to_numpy(reference.in_memory().values)
    return Neighborhood(find_nearby(samples.features, others), repeats, find_repeats(samples.features, others))


def _of_split(samples: Samples, split: str | None) -> Samples:
    if split is None:
        return samples
    return samples.take(rows_of_split(samples.splits, split, samples.name or "the samples"))


def _reference(samples: Samples, settings: CleanSettings) -> Snapshot | None:
    """Another snapshot of the same model."""
    reference = settings.reference
    if reference is None:
        return None
    if not settings.neighbors:
        raise InputError("a reference is searched for neighbors: leave out --no-neighbors, or the reference.")
    if samples.features is None:
        raise InputError("a reference is compared by features, and there are only probabilities here.")
    other = reference
    if not isinstance(reference, Snapshot):
        other = Snapshot.load(reference) if isinstance(reference, (str, os.PathLike)) else Snapshot(reference)
    check_reference(Snapshot(samples.features, samples.head), other)
    if not np.isfinite(to_numpy(other.in_memory().values)).all(axis=1).any():
        raise InputError(f"{other.name or 'the reference'}: no sample of the reference has finite features.")
    return other


@dataclass(frozen=True)
class Judgment:
    """What is said of the labels of n samples, NaN where nothing can be."""

    scores: np.ndarray  # (n,) the ranking
    wrong: np.ndarray  # (n,) probability that the label is wrong
    count: ErrorCount

    def take(self, rows: np.ndarray) -> Judgment:
        """The same of some samples, or of all in another order."""
        return Judgment(self.scores[rows], self.wrong[rows], self.count)


def _judgment(labels: np.ndarray, evidence: Evidence) -> tuple[Evidence, Judgment]:
    """What is said of the (n,) labels; and the evidence, which is that of the neighbors where the heads know wrong labels."""
    scores, wrong = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    known = (labels >= 0) & np.isfinite(evidence.heads).all(axis=1)
    if evidence.kind == "epochs":
        known &= np.isfinite(evidence.epochs["aum" if evidence.by == "epochs" else evidence.by])
    if len(np.unique(labels[known])) < 2:
        raise InputError(
            f"wrong labels are found among two classes or more, but only {known.sum()} samples of one can be scored."
        )
    # A class that is neither a label nor predicted is no true class, either: a head may know thousands.
    classes = np.union1d(labels[known], evidence.heads[known].argmax(axis=1))
    own = np.searchsorted(classes, labels[known])
    noise = estimated_noise(evidence.probs[known], labels[known])
    scores[known] = scores_of_labels(evidence.probs[known], labels[known], BY_PROBS.get(evidence.by, posterior), noise.factors)
    heads, votes = (None if values is None else values[known][:, classes] for values in (evidence.heads, evidence.votes))
    assert heads is not None
    model, predictions = _fitted(evidence, heads, votes, own)
    wrong[known] = model.wrong(predictions, own)
    if predictions[0] is votes:
        evidence = replace(evidence, seen=True)
        if evidence.kind not in ("probs", "head"):  # what was given is shown as it is
            beliefs = evidence.probs.copy()
            beliefs[known] = 0.0
            beliefs[np.ix_(known, classes)] = model.beliefs(predictions)
            evidence = replace(evidence, probs=beliefs)
    if evidence.kind == "epochs":
        columns = {name: column[known] for name, column in evidence.epochs.items()}
        scores[known] = by_epochs(columns, evidence.by, scores[known], noise.one_way)
        right = columns["cartography_correctness"]
        if predictions[0] is votes:  # the epochs are a second witness
            wrong[known] = seen_in_training(wrong[known], right)
        count = count_errors(model, wrong[known])
        lost = float((right < WON).sum())  # of right labels, too, where the network has learned little: the other end
        return evidence, Judgment(scores, wrong, replace(count, high=max(count.high, lost)))
    return evidence, Judgment(scores, wrong, count_errors(model, wrong[known]))


def _fitted(
    evidence: Evidence, heads: np.ndarray, votes: np.ndarray | None, labels: np.ndarray
) -> tuple[ErrorModel, list[np.ndarray]]:
    """The model of errors by the heads and the neighbors, or by the neighbors alone where the heads know the labels."""
    if votes is not None and evidence.seen:
        return fit_error_model([votes], labels), [votes]
    both = [heads] if votes is None or evidence.kind != "out-of-sample" else [heads, votes]
    if votes is None:
        return fit_error_model(both, labels), both
    with thread_pool() as pool:
        model, neighbors = pool.map(lambda predictions: fit_error_model(predictions, labels), (both, [votes]))
    return (neighbors, [votes]) if learned_by_heart(model, neighbors) else (model, both)


def _table(
    samples: Samples, evidence: Evidence, judgment: Judgment, near: Neighborhood | None, reference: Snapshot | None
) -> pa.Table:
    scores, wrong, count = judgment.scores, judgment.wrong, judgment.count
    known = np.isfinite(wrong)
    issue = np.zeros(len(wrong), dtype=bool)
    issue[known] = flagged(wrong[known], count)
    facts = judged(evidence, samples.labels, issue)
    predicted = np.where(np.isfinite(evidence.probs), evidence.probs, -1.0).argmax(axis=1)
    scored = np.isfinite(evidence.probs).all(axis=1)
    # A model that has memorized a wrong label still predicts it: then the next class is what it should be.
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
        hidden(1 - wrong),
        pa.array(classes[predicted], mask=~scored),
        pa.array(_originals(samples, near, names), pa.string()),
    ]
    notes = _notes(evidence, count, wrong[issue], _agreement(evidence, samples.labels))
    columns = [("id", samples.ids.type), *SUSPECTS, (DUPLICATE_OF, pa.string())]
    schema = pa.schema(columns, metadata={"hardsight": json.dumps(notes)})
    return pa.Table.from_arrays(arrays, schema=schema)


def _originals(samples: Samples, near: Neighborhood | None, reference_ids: list[str] | None) -> np.ndarray:
    """(n,) id of what a sample repeats: the first of its near duplicates, or the one in the reference; None for none."""
    result = np.full(len(samples.labels), None, dtype=object)
    if near is None:
        return result
    if near.leaked is not None and reference_ids is not None:
        for row in np.flatnonzero(near.leaked.repeated):
            result[row] = reference_ids[int(near.leaked.nearest[row])]
    first = first_rows(near.repeats.group)  # -1, no group, is never repeated
    for row in np.flatnonzero(near.repeats.repeated):
        result[row] = str(samples.ids[int(first[row])].as_py())
    return result


def _agreement(evidence: Evidence, labels: np.ndarray) -> float:
    """Share of the labels that are the most likely class by the heads."""
    known = (labels >= 0) & np.isfinite(evidence.heads).all(axis=1)
    return float((evidence.heads[known].argmax(axis=1) == labels[known]).mean()) if known.any() else 0.0


def _notes(evidence: Evidence, count: ErrorCount, wrong_of_flagged: np.ndarray, agreement: float) -> dict[str, Any]:
    return {
        "version": VERSION,
        "evidence": evidence.kind,
        "by": evidence.by,
        "expected_errors": count.errors,
        "expected_errors_low": count.low,
        "expected_errors_high": count.high,
        "certainty": count.certainty,
        "samples": count.num_samples,
        "flagged": len(wrong_of_flagged),
        "precision": float(wrong_of_flagged.mean()) if len(wrong_of_flagged) and count.certainty == "estimated" else None,
        "agreement": agreement,
        "rests_on": rests_on(evidence, count, agreement),
        "warnings": list(evidence.warnings),
    }

"""`Suspects`, what `clean` found: the table, one row per sample in the order of the samples, and what is printed of it.

    id
    given_label             class index; null for unlabeled
    suggested_label         the most likely class, if the label is likely wrong; else the given one
    suggested_probability   of it
    error_score             higher = more likely wrong (ranking.py); null where a sample could not be scored
    verdict, explanation    verdicts.py; null for an ordinary sample
    is_label_issue          whether the label is flagged: more likely wrong than right (flagged_labels.py)
    label_quality           probability that the label is right (error_model.py)
    predicted_label         the most likely class
    duplicate_of            id of the earlier sample, or of the one in the reference, that it repeats; null for none

The schema's metadata, under `hardsight`, says which evidence was used and how many errors are expected.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.files.suspects import CANNOT_TELL, DUPLICATE_OF, SUSPECTS, noted_warnings, precision_in_words, suspects_notes
from hardsight.quality.error_model import ErrorCount
from hardsight.quality.evidence import MANY, Evidence
from hardsight.quality.flagged_labels import Judgment
from hardsight.quality.neighbors import Neighborhood, find_neighborhood
from hardsight.quality.verdicts import PRECEDENCE, Verdicts, class_name, explained_verdicts, facts_of
from hardsight.result import Result
from hardsight.scores.duplicates import first_rows
from hardsight.screen import Sentence, ShownTable, line, number
from hardsight.snapshot import Snapshot
from hardsight.version import VERSION

JUDGES = {  # by kind of evidence: what the count rests on
    "out-of-sample": "Linear heads that were fitted without each sample agree with {share} of the labels",
    "probs": "The given probabilities agree with {share} of the labels and are taken for out-of-sample ones",
    "head": "The model agrees with {share} of the labels and is taken not to have seen them",
    "epochs": "What the network said in training agrees with {share} of the labels",
}
BY_NEIGHBORS = "since the model may know these labels, those of similar samples decide"
ENDS = "The low end counts errors spread evenly over the samples, the high end also some that look like mistakes of the model."
UNSURE = "The model is unsure of too many samples to tell wrong labels from its own mistakes: give a better model."
TOO_FEW = "There are too few samples to tell how many labels are wrong."


class Suspects(Result):
    """One row per sample: what its label should be, how likely it is wrong, and its verdict; see `hardsight.quality.suspects`.

    Args:
        table: the table.
        top: how many of the worst suspects are printed.
        unscored: how many samples have no error score, by why.
    """

    by, counted = "error_score", "verdict"
    shown = ("id", "given_label", "suggested_label", "error_score", "verdict")

    def __init__(self, table: pa.Table, top: int = 10, unscored: Mapping[str, int] | None = None) -> None:
        super().__init__(table, noted_warnings(suspects_notes(table)))
        self.top, self.unscored = top, dict(unscored or {})

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """The expected errors, the verdicts and the worst suspects."""
        table, notes = self.table, suspects_notes(self.table)
        kind, by = notes["evidence"], notes["by"]
        yield line(f"n = {len(table)}   evidence: {kind}   ranked by {by}", samples=len(table), evidence=kind, by=by)
        yield _expected(notes)
        yield line(notes["rests_on"], rests_on=notes["rests_on"])
        if notes["flagged"]:
            flagged, precision = notes["flagged"], notes["precision"]
            yield line(f"flagged: {flagged}{precision_in_words(precision)}", flagged=flagged, precision=precision)
        yield from map(functools.partial(line, unscored=sum(self.unscored.values())), self._left_out())
        counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(table.column("verdict")).to_pylist()}
        yield ShownTable("verdicts", ("verdict", "samples"), [(name, number(counts.get(name, 0))) for name in PRECEDENCE])
        repeated = len(table) - table.column(DUPLICATE_OF).null_count
        yield line(f"duplicates, whatever their verdict: {repeated}", duplicates=repeated)
        issues = table.filter(table.column("is_label_issue")).sort_by([("error_score", "descending")])
        rows = [self._row(suspect) for suspect in issues.slice(0, self.top).to_pylist()]
        if rows:
            yield ShownTable("worst", ("id", "label", "suggested", "error_score"), rows, f"worst {len(rows)}", words=3)

    def _left_out(self) -> list[str]:
        """How many samples have no error score, and why."""
        counted = ", ".join(f"{count} {words}" for words, count in self.unscored.items())
        return [f"samples without an error score: {counted}"] if counted else []

    def _sentences(self) -> list[str]:
        return [*super()._sentences(), *self._left_out()]

    def _row(self, suspect: Mapping[str, Any]) -> tuple[str, ...]:
        labels = [suspect["given_label"], suspect["suggested_label"]]
        names = [number(label) if self.class_names is None else class_name(label, self.class_names) for label in labels]
        return number(suspect["id"]), *names, number(suspect["error_score"])


def _expected(notes: Mapping[str, Any]) -> Sentence:
    """How many labels are expected to be wrong."""
    errors, low, high = (notes[f"expected_errors{end}"] for end in ("", "_low", "_high"))
    rate, certainty = errors / max(1, notes["samples"]), notes["certainty"]
    words = f"{errors:.0f} ({100 * rate:.1f} %), 95 % interval {low:.0f} to {high:.0f}"
    if certainty == CANNOT_TELL:
        words = f"cannot tell, between {low:.0f} and {high:.0f}"
    facts = {"rate": rate, "errors": errors, "errors_low": low, "errors_high": high, "certainty": certainty}
    return line(f"expected label errors: {words}", **facts)


def suspects_table(
    samples: Snapshot, evidence: Evidence, judgment: Judgment, verdicts: Verdicts, near: Neighborhood | None,
    columns: Mapping[str, Any] | None = None,
) -> pa.Table:  # fmt: skip
    """The table of all samples; its notes hold the `columns` of a wide table that were read, for `explore` and `report`."""
    classes, labels, probs = evidence.classes, evidence.labels, evidence.probs
    facts, ids = verdicts.facts, samples.ids
    predicted = np.where(np.isfinite(probs), probs, -1.0).argmax(axis=1)
    # A model that has memorized a wrong label still predicts it: then the next class is what it should be.
    suggested = np.where(facts.issue, facts.rival, np.where(labels >= 0, labels, predicted))
    by_probs = functools.partial(pa.array, mask=~np.isfinite(probs).all(axis=1))
    by_ranking = functools.partial(pa.array, mask=~np.isfinite(judgment.scores))
    arrays = [
        pa.array(ids, samples.source.id_type),
        pa.array(classes[labels], mask=labels < 0),
        by_probs(classes[suggested]),
        by_probs(probs[np.arange(len(suggested)), suggested].astype(np.float64)),
        by_ranking(judgment.scores),
        pa.array(verdicts.names, pa.string()),
        pa.array(verdicts.explanations, pa.string()),
        pa.array(facts.issue),
        by_ranking(1 - judgment.wrong),
        by_probs(classes[predicted]),
        pa.array(originals_of(ids, near), pa.string()),
    ]
    notes: dict[str, Any] = {"version": VERSION, "class_names": samples.class_names}
    if columns is not None:  # there are labels
        notes |= {"columns": columns, **_notes(evidence, judgment)}
    fields = [("id", samples.source.id_type), *SUSPECTS, (DUPLICATE_OF, pa.string())]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={"hardsight": json.dumps(notes)}))


def originals_of(ids: np.ndarray, near: Neighborhood | None) -> np.ndarray:
    """(n,) id of what a sample repeats: the first of its near duplicates, or the one in the reference; None for none."""
    result = np.full(len(ids), None, dtype=object)
    if near is None:
        return result
    if near.leaked is not None:
        for row in np.flatnonzero(near.leaked.repeated):
            result[row] = near.reference_ids[near.leaked.nearest[row]]
    first = first_rows(near.repeats.group)  # -1, no group, is never repeated
    for row in np.flatnonzero(near.repeats.repeated):
        result[row] = str(ids[first[row]])
    return result


def _notes(evidence: Evidence, judgment: Judgment) -> dict[str, Any]:
    """What holds for all samples."""
    count, wrong = judgment.count, judgment.wrong[judgment.flagged]
    return {
        "evidence": evidence.kind,
        "by": evidence.by,
        "expected_errors": count.errors,
        "expected_errors_low": count.low,
        "expected_errors_high": count.high,
        "certainty": count.certainty,
        "samples": count.num_samples,
        "flagged": len(wrong),
        "precision": float(wrong.mean()) if len(wrong) and count.certainty == "estimated" else None,
        "agreement": evidence.agreement,
        "rests_on": _rests_on(evidence, count),
        "warnings": list(evidence.warnings),
    }


def _rests_on(evidence: Evidence, count: ErrorCount) -> str:
    """What the expected number of errors rests on, and what its ends mean."""
    judge = JUDGES[evidence.kind].format(share=f"{100 * evidence.agreement:.0f} %")
    if evidence.neighbors_decide and evidence.votes is not None:
        judge = f"{judge}; {BY_NEIGHBORS}"
    unsure = UNSURE if count.num_samples >= MANY else TOO_FEW
    return f"{judge}. {unsure if count.certainty == CANNOT_TELL else ENDS}"


def unlabeled_suspects(samples: Snapshot) -> pa.Table:
    """A table like that of `clean`, whose columns about labels are null."""
    features, n = samples.features, len(samples)
    if features is None:
        raise InputError(f"{samples.where}: without labels, only features tell duplicates and outliers, and there are none.")
    nobody, no, unknown = np.full(n, -1), np.zeros(n, bool), np.full((n, 1), np.nan)
    near = find_neighborhood(features, nobody, 2, lambda done, words: None)
    evidence = Evidence("none", "none", np.arange(1), nobody, unknown, unknown)
    judgment = Judgment(unknown[:, 0], unknown[:, 0], no, ErrorCount(0.0, 0.0, 0.0, 0))
    verdicts = explained_verdicts(samples, evidence, facts_of(evidence, no), near)
    return suspects_table(samples, evidence, judgment, verdicts, near)

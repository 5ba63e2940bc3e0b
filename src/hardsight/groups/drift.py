"""`drift`: what got harder between two models on the same samples, or between two dates. One row per sample:

    id
    harder                      whether it got harder; null where that is not known
    change                      how much harder: positive is harder, in values of the score or in ranks
    label
    before, after               the score
    predicted_before, predicted_after, outcome      such as "right, then wrong"
    feature_angle               degrees between its two features, where both are of one model

A sample that was right and is wrong now got harder, whatever its score, and vice versa. All others are judged by the change of
the score, if it is more than rounding. Values are compared where both are on one scale, else ranks within each snapshot:
`scoring/comparable.py`. Copies of one image (degraded versions) count by their design effect in the classes, and the first alone
in the test of the features.

Unpaired, of different samples of one model: `change` is the share of the first snapshot's samples of the same class that are
easier, minus one half, and `harder` whether that share is above 0.95 (one sample in twenty, where nothing changed); null where
the first has fewer than twenty samples of the class.

The metadata of the schema, under `hardsight`, has the classes and whether the features moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.files.parquet import table_notes
from hardsight.files.places import place
from hardsight.groups.changes import Changes, Pair, paired_changes, unpaired_changes
from hardsight.groups.comparing import Measures, Row, check_labeled, null_for_nan
from hardsight.groups.feature_shift import features_in_words
from hardsight.groups.outputs import checked_output, save_second
from hardsight.groups.settings import DriftSettings
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scores import SCORES
from hardsight.scoring.comparable import of_probabilities, why_two_scales
from hardsight.scoring.job import CROSS_VALIDATED, FoldHeads, Job
from hardsight.screen import Cell, Progress, Sentence, ShownTable, interval, line, number, warn_in_python
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import TableSource
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import DriftOptions

Sides = tuple[Snapshot, ...]  # the first, and the second
TWO_MODELS = "If the features are of two models, give each its own head."


class Drift(Result):
    """One row per sample; `classes` has a row for all samples and for every class, `feature_shift` whether the features moved."""

    by, counted = "change", "harder"

    def __init__(self, pair: Pair, changes: Changes, notes: list[str]) -> None:
        classes = [null_for_nan(row) for row in changes.classes]
        super().__init__(_table(pair, changes, classes), notes, pair.second.samples.run)
        self.pair, self.feature_shift, self.easier = pair, changes.features, changes.easier
        kinds = {"class": pa.string(), "label": pa.int64(), "n": pa.int64(), "verdict": pa.string()}
        self.classes = pa.Table.from_pylist(classes, pa.schema([(name, kinds.get(name, pa.float64())) for name in classes[0]]))

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many samples got harder, which classes and which samples most, and whether the features moved."""
        top = self.pair.settings.top
        yield line(self.in_words, **self._counts)
        rows = [
            (
                number(row["class"]),
                number(row["n"]),
                _before_and_after(row["accuracy_before"], row["accuracy_after"]),
                number(row["mean_change"]),
                interval(row["change_low"], row["change_high"], 4),
                row["verdict"],
            )
            for row in self.classes.to_pylist()[: top + 1]  # all samples, then the classes
        ]
        yield ShownTable("classes", ("class", "n", "accuracy", "mean change", Cell("interval", "change"), "verdict"), rows)
        yield from self._hardest(top)
        yield line(features_in_words(self.feature_shift, self.pair.settings.level))

    @property
    def _counts(self) -> dict[str, Any]:
        """How many samples were compared, and how many got harder or, of the same samples, easier."""
        harder = self["harder"]
        counts = {"samples": len(harder) - harder.null_count, "harder": pc.sum(harder).as_py() or 0}
        return counts if self.easier is None else {**counts, "easier": self.easier}

    @property
    def in_words(self) -> str:
        """How many samples got harder, by what, in one sentence."""
        score, known, count = self.pair.second.hardness, self._counts["samples"], self._counts["harder"]
        share = f"{count} of {known} samples got harder ({100 * count / max(known, 1):.1f} %)"
        if self.easier is None:
            return f"{share}: harder than 95 % of the first snapshot's samples of their class by {score}, where 5 % are expected."
        outcomes = self["outcome"].to_pylist()
        wrong, right = outcomes.count("right, then wrong"), outcomes.count("wrong, then right")
        how = f"rank of {score}, because {self.pair.why_ranks}" if self.pair.why_ranks else score
        share += f", {self.easier} easier ({100 * self.easier / max(known, 1):.1f} %)"
        return f"{share}: {wrong} turned wrong, {right} turned right; the others are compared by {how}."

    def _hardest(self, top: int) -> Iterator[ShownTable]:
        """The samples that got harder the most, with their predictions."""
        second = self.pair.second
        score_end = "ascending" if SCORES[second.hardness].hard == "low" else "descending"
        order = [("change", "descending"), ("after", score_end)]  # many unpaired samples share the largest change
        hardest = self.table.filter(self["harder"]).sort_by(order).slice(0, top)
        shown = [name for name in ("label", "predicted_before", "predicted_after") if name in hardest.column_names]
        rows = [
            (str(row["id"]), *(second.class_name(row[name]) for name in shown), number(row["change"]))
            for row in hardest.to_pylist()
        ]
        header = ("id", *("class" if name == "label" else name.replace("_", " ") for name in shown), "change")
        if rows:
            yield ShownTable("samples", header, rows, f"{len(rows)} largest increases in hardness", words=len(header) - 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As a `Result`; with a table also the classes: drift.classes.parquet next to drift.parquet."""
        super().save(path)
        save_second(self.classes, path, "classes")


@takes(DriftSettings)
def drift(
    a: Any, b: Any, *, output: str | os.PathLike[str] | None = None, settings: DriftSettings | None = None,
    progress: Progress | None = None, **options: Unpack[DriftOptions],
) -> Drift:  # fmt: skip
    """Say which samples got harder between two models or two dates: one row per sample that both have.

    Args:
        a, b: before and after: a run directory, a file, a frame, a `Snapshot` or a table of scores each; joined by id.
        output: .parquet, .csv or .json to write the samples to; the classes are written next to it.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the rows scored and the rows in all.

    Returns:
        A `Result`, used as a `pyarrow.Table`: id, harder, change and more; see `hardsight.groups`. Its metadata has the
        classes that got harder and whether the features moved. Warnings are raised as `UserWarning`.

    Example:
        >>> import numpy as np
        >>> from hardsight import Snapshot
        >>> before = Snapshot(probs=np.array([[0.9, 0.1], [0.8, 0.2]]), labels=[0, 0], ids=["a", "b"])
        >>> after = Snapshot(probs=np.array([[0.7, 0.3], [0.4, 0.6]]), labels=[0, 0], ids=["b", "a"])
        >>> drift(before, after).select(["id", "harder", "outcome"]).to_pylist()
        [{'id': 'a', 'harder': True, 'outcome': 'right, then wrong'}, {'id': 'b', 'harder': True, 'outcome': 'right in both'}]
    """
    settings = DriftSettings.given(settings, options)
    if all(isinstance(x, (str, os.PathLike)) for x in (a, b)) and place(a).resolve() == place(b).resolve():
        raise InputError(f"{a} is given twice: drift compares two runs or files.")
    target = checked_output(output, "what drifted", "classes", (a, b, settings.head, settings.class_names))
    first, second = (Snapshot.open(x, by=settings.by, **settings.keywords()) for x in (a, b))
    drifted = _compared((first, second.numbered_as(first)), settings, progress)
    warn_in_python(drifted.notes)
    drifted.notes[:0] = dict.fromkeys((*first.notes, *second.notes))  # warned of when they were opened
    if target is not None:
        drifted.save(target)
    return drifted


def _compared(sides: Sides, settings: DriftSettings, progress: Progress | None) -> Drift:
    for side in sides:
        check_labeled(side, "store them with the samples")
    own_heads = [_scored_by_own_head(side) for side in sides]
    parts = tuple(side.selected(settings.split, settings.first, settings.limit) for side in sides)
    sides = parts if settings.split is None else sides  # what is fitted sees the samples of all splits
    joined_parts = parts
    if not settings.unpaired:  # what shares no id is refused before anything is scored
        both = parts[0].joined(parts[1])
        joined_parts = both.first, both.second
    heads = shared_heads(*sides, paired=not settings.unpaired)
    measures = _measures(sides, heads, settings.by, progress)
    first, second = (side.at(part) for side, part in zip(measures, joined_parts, strict=True))
    one_head = heads[0] is not None
    pair = Pair(first, second, _why_ranks(first, second, one_head), settings)
    notes = [f"neither has a head: one is fitted to {first.name}, by cross-validation, and scores both. {TWO_MODELS}"] * one_head
    if settings.unpaired:
        _check_one_model(pair, [] if one_head else own_heads)
        changes = unpaired_changes(pair)
    else:
        changes = paired_changes(pair)
        notes += _left_out(parts, pair)
    return Drift(pair, changes, [*notes, *(first.notes or second.notes)])


def _left_out(parts: Sides, pair: Pair) -> list[str]:
    """Sentences on samples that only one side has, and on labels that differ."""
    first, second, sizes, sentences = pair.first, pair.second, [len(part) for part in parts], []
    if len(first) < max(sizes):
        sentences.append(f"{len(first)} samples are in both; {sizes[0]} are in {first.name} and {sizes[1]} in {second.name}.")
    differing = int(((first.labels != second.labels) & (second.labels >= 0)).sum())
    if differing:
        sentences.append(f"{differing} labels differ between the two; outcomes and scores are of each one's own label.")
    return sentences


def _measures(sides: Sides, heads: tuple[Any, Any], by: str, progress: Progress | None) -> list[Measures]:
    """The measures of both by one score: the loss where one of them has no features."""
    measures = [Measures.of(side, by, head, progress) for side, head in zip(sides, heads, strict=True)]
    if measures[0].hardness != measures[1].hardness:
        measures = [Measures.of(side, "loss", head, progress) for side, head in zip(sides, heads, strict=True)]
    for side in measures:
        side.check()
    if measures[0].name == measures[1].name:
        names = ("the first snapshot", "the second snapshot")
        measures = [replace(side, name=name) for side, name in zip(measures, names, strict=True)]
    return measures


def _why_ranks(first: Measures, second: Measures, one_head: bool) -> str | None:
    """Why ranks are compared; None where the values of the two are on one scale."""
    if one_head or (of_probabilities(first.hardness) and first.num_classes == second.num_classes):
        return None
    return why_two_scales(first.samples.head, second.samples.head, (first.name, second.name))


def _scored_by_own_head(samples: Snapshot) -> bool:
    """Whether the scores are by heads fitted to these very samples."""
    if isinstance(samples.source, TableSource):
        return bool(table_notes(samples.source.table.schema).get("head") == CROSS_VALIDATED)
    return Job(samples).headless


def _check_one_model(pair: Pair, own_heads: list[bool]) -> None:
    """Refuse different samples by different heads: each of two heads finds its own samples easier or harder."""
    sides = pair.first, pair.second
    why = None if all(side.samples.head is None for side in sides) else pair.why_ranks
    for side, own in zip(sides, own_heads, strict=False):
        if why is None and own:
            why = f"{side.name} was scored by a head fitted to its own samples"
    if why is not None:
        raise InputError(f"different samples are compared by one model, but {why}: leave out --unpaired, or give one head.")


def _table(pair: Pair, changes: Changes, classes: list[Row]) -> pa.Table:
    features = changes.features
    notes = {
        "version": VERSION,
        "first": pair.first.name,
        "second": pair.second.name,
        "by": pair.first.hardness,
        "compared": "ranks" if pair.why_ranks else "values",
        "why_ranks": pair.why_ranks,
        "unpaired": pair.settings.unpaired,
        "level": pair.settings.level,
        "correction": "Holm, over all tests of the classes",
        "features_moved": None if features.moved is None else asdict(features.moved),
        "neighbors_kept": None if features.kept is None else asdict(features.kept),
        "features_not_compared": features.why_not,
        "classes": classes,
    }
    return pa.table(changes.columns).replace_schema_metadata({"hardsight": json.dumps(notes)})


def _before_and_after(before: float | None, after: float | None) -> Cell:
    shares = ["–" if share is None else f"{100 * share:.1f} %" for share in (before, after)]
    return Cell(" → ".join(shares), {"before": before, "after": after})


def shared_heads(first: Snapshot, second: Snapshot, *, paired: bool) -> tuple[FoldHeads | None, FoldHeads | None]:
    """Heads fitted to the first snapshot, and which of them scores each sample of both; None where one has its own head.

    Paired, a sample is scored by the same head in both. Unpaired, every class of the second is spread evenly over the folds.
    """
    widths = first.source.width, second.source.width
    if not (Job(first).headless and Job(second).headless) or (paired and widths[0] != widths[1]):
        return None, None
    if widths[0] != widths[1]:
        raise InputError(
            f"different samples are compared by one model, but one has {widths[0]} features, the other {widths[1]}: "
            "leave out --unpaired."
        )
    _check_classes(first, second)
    fitted = Job(first).fit_heads()
    fold_of = _folds_by_id(first, second, fitted) if paired else _folds_by_class(first, second, fitted)
    return fitted, FoldHeads(fitted.heads, fold_of)


def _check_classes(first: Snapshot, second: Snapshot) -> None:
    """Refuse a class of the second snapshot that the first has not."""
    most = int(second.labels.max(initial=-1))
    if most > int(first.labels.max(initial=-1)):
        names = first.name or "the first snapshot", second.name or "the second snapshot"
        raise InputError(
            f"neither {names[0]} nor {names[1]} has a head, and one fitted to the first does not know class {most} of the second"
            ": give --head."
        )


def _folds_by_id(first: Snapshot, second: Snapshot, fitted: FoldHeads) -> np.ndarray:
    """(m,) the fold of each sample of the second in the first; any for one that is missing there, which is left out later."""
    ids = [pa.array(side.ids).cast(pa.string()) for side in (second, first)]
    return np.asarray(fitted.fold_of[pc.fill_null(pc.index_in(ids[0], value_set=ids[1]), 0).to_numpy()])


def _folds_by_class(first: Snapshot, second: Snapshot, fitted: FoldHeads) -> np.ndarray:
    """(m,) the samples of each class of the second in turn."""
    features = first.features
    assert features is not None
    known = (first.labels >= 0) & np.isfinite(features).all(axis=1)
    folds = int(fitted.fold_of[known].max()) + 1  # the head of all other rows was fitted to every known one
    fold_of = np.empty(len(second), np.int64)
    fold_of[np.argsort(second.labels, kind="stable")] = np.arange(len(second)) % folds
    return fold_of

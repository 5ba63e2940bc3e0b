"""`Measures` of samples, and one group against others: accuracy, hardness, norm and calibration with intervals and tests.

    accuracy         Wilson's interval; its difference by Newcombe's, its p by Fisher's exact test
    mean score       Student's interval; its difference and p by Welch's t
    overconfidence   mean of (confidence - right): positive where the model is surer than it is right; as a mean score
    ece              expected calibration error, and beside it what a calibrated model of as many samples would show in 19
                     of 20 cases: an ECE below it says nothing

Samples that are copies of one image (degraded versions) are no independent evidence: intervals and tests use the design effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import check_labels, check_unique
from hardsight.errors import InputError
from hardsight.scores import SCORES
from hardsight.scoring.job import FoldHeads, Job
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.stats.calibration import ece_by_chance, reliability
from hardsight.stats.coefficients import holm
from hardsight.stats.small_samples import design_effect, fisher_exact, mean_interval, share_difference, welch, wilson

NORM, CONFIDENCE, OVERCONFIDENCE = "norm", "predicted_confidence", "overconfidence"


@dataclass(frozen=True)
class Measures:
    """What is compared of n samples, (n,) each; NaN where a sample has no value."""

    samples: Snapshot
    hardness: str  # the score that measures it
    table: pa.Table  # what `Snapshot.scores` gives
    name: str  # of the samples, in sentences

    @staticmethod
    def of(samples: Snapshot, by: str, heads: FoldHeads | None = None, progress: Progress | None = None) -> Measures:
        """The measures of samples, with the score `by`, or the loss where AVH cannot be computed; `heads`: fitted already."""
        if by not in SCORES:
            raise InputError(SCORES.refusal(by))
        possible = _possible_scores(samples)
        hardness = "loss" if by == "avh" and by not in possible and "loss" in possible else by
        names = list(dict.fromkeys([hardness, *(name for name in (NORM, CONFIDENCE) if name in possible)]))
        if heads is None:
            return Measures(samples, hardness, samples.scores(names, progress), samples.where)
        table = pa.concat_tables(Job(samples, names, fold_heads=heads).tables(progress))
        return Measures(samples, hardness, table, samples.where)

    def __len__(self) -> int:
        return len(self.table)

    def at(self, part: Snapshot) -> Measures:
        """The measures of some of the samples, found by id."""
        if part is self.samples:
            return self
        check_unique(self.ids, self.name)
        rows = pc.index_in(pa.array(part.ids), value_set=pa.array(self.ids))
        return replace(self, samples=part, table=self.table.take(rows))

    def score(self, name: str) -> np.ndarray | None:
        """A score, or None where it was not measured."""
        return np.asarray(self.table.column(name).to_numpy(), np.float64) if name in self.table.column_names else None

    @cached_property
    def ids(self) -> np.ndarray:
        """(n,) strings or integers."""
        return self.samples.ids

    @cached_property
    def labels(self) -> np.ndarray:
        """(n,) -1 unlabeled."""
        return self.samples.labels

    @cached_property
    def predicted(self) -> np.ndarray:
        """(n,) -1 for none."""
        return check_labels(self.table.column("predicted"), len(self), None)

    @cached_property
    def correct(self) -> np.ndarray:
        """(n,) 1 for right, 0 for wrong, NaN where the label or the prediction is not known."""
        known = (self.labels >= 0) & (self.predicted >= 0)
        return np.where(known, self.labels == self.predicted, np.nan)

    @cached_property
    def confidence(self) -> np.ndarray | None:
        """(n,) of the prediction."""
        return self.score(CONFIDENCE)

    @cached_property
    def means(self) -> dict[str, np.ndarray]:
        """(n,) each, whose means are compared: hardness, norm and overconfidence, those that there are."""
        values = {name: self.score(name) for name in (self.hardness, NORM)}
        if self.confidence is not None:
            values[OVERCONFIDENCE] = self.confidence - self.correct
        return {name: column for name, column in values.items() if column is not None}

    @property
    def hard(self) -> np.ndarray:
        """(n,) the hardness as measured; `harder` turns it."""
        return self.means[self.hardness]

    @cached_property
    def harder(self) -> np.ndarray:
        """(n,) the hardness turned so that high is hard."""
        return SCORES.harder(self.hardness, self.hard)

    @cached_property
    def units(self) -> np.ndarray | None:
        """(n,) which samples are copies of one image; None where each stands alone."""
        if "base_id" not in self.samples.column_names:
            return None
        columns = self.samples.columns(["base_id", "id"])
        base = pc.coalesce(*(columns.column(name).cast(pa.string()) for name in ("base_id", "id")))
        codes = base.combine_chunks().dictionary_encode()
        return None if len(codes.dictionary) == len(self) else codes.indices.to_numpy()

    @property
    def notes(self) -> list[str]:
        """What a person should know of the samples."""
        return [] if self.units is None else [COPIES]

    @property
    def features(self) -> np.ndarray | None:
        """(n, d) in float64, or None where there are none."""
        features = self.samples.features
        return None if features is None else np.asarray(features, np.float64)

    @property
    def num_classes(self) -> int:
        """Of the snapshot, or as many as labels and predictions name."""
        named = int(max(self.labels.max(initial=-1), self.predicted.max(initial=-1))) + 1
        return self.samples.num_classes or named

    def class_name(self, label: int | None) -> str:
        """The name of a class, or its number; a dash for none."""
        names = self.samples.class_names or []
        return "–" if label is None else names[label] if label < len(names) else str(label)

    def check(self) -> None:
        """Refuse samples of which none has a value of the score, or none with a label has a prediction."""
        if not np.isfinite(self.hard).any():
            there = ", ".join(sorted(_possible_scores(self.samples)))
            raise InputError(f"{self.name}: no sample has a value of {self.hardness}" + (f"; it has {there}." if there else "."))
        if np.isnan(self.correct).all():
            raise InputError(f"{self.name}: no labeled sample has a prediction: give features and a head, logits or probs.")


def check_labeled(samples: Snapshot, way: str = "give --labels FILE, or a column label") -> None:
    """Refuse samples without labels, or with labels that no class name is for, before anything is scored."""
    if len(samples) == 0:
        raise InputError(f"{samples.where} holds no samples.")
    most, names = int(samples.labels.max()), samples.class_names
    if most < 0:
        raise InputError(f"{samples.where}: there are no labels, so there is no accuracy or hardness to compare: {way}.")
    if names is not None and most >= len(names):
        raise InputError(f"{samples.where}: class_names must name every class, got {len(names)}, and there is a label {most}.")


def _possible_scores(samples: Snapshot) -> set[str]:
    """Names of the scores that a table has, or that can be computed."""
    if samples.source.evidence != SCORES_ALONE:
        return {score.name for score in Job(samples).chosen}
    columns = samples.columns([name for name in samples.column_names if name in SCORES])
    arrays = {name: columns.column(name).to_numpy() for name in columns.column_names}
    return {name for name, values in arrays.items() if values.dtype.kind in "iuf" and np.isfinite(values).any()}


TOO_FEW, NO_DIFFERENCE = "too few to say", "no difference found"
COPIES = "some samples are copies of one image (base_id): intervals and tests count them by their design effect."

Row = dict[str, Any]


def compare(measures: Measures, group: np.ndarray, rest: np.ndarray, *, least: int, level: float) -> Row:
    """One row of the audit: a group against the rest, both (n,) bool. p values are not corrected yet."""
    labeled = int(np.isfinite(measures.correct[group]).sum())
    tested = labeled >= least and int(np.isfinite(measures.correct[rest]).sum()) >= least
    row: Row = {"n": int(group.sum()), "labeled": labeled}
    row |= _accuracy(measures, group, rest, level, tested)
    for name, values in measures.means.items():
        row |= _mean(name, measures, values, (group, rest), level, tested)
    row |= _calibration(measures, group)
    expected = _of_the_same_classes(measures, group, rest)
    return row | expected | {"verdict": NO_DIFFERENCE if tested else TOO_FEW}


def _accuracy(measures: Measures, group: np.ndarray, rest: np.ndarray, level: float, tested: bool) -> Row:
    mine, others = (counted(measures.correct, measures.units, rows) for rows in (group, rest))
    if mine[1] == 0:
        return dict.fromkeys(_names("accuracy", "accuracy"))
    low, high = wilson(*mine, level)
    row: Row = {"accuracy": mine[0] / mine[1], "accuracy_low": low, "accuracy_high": high}
    difference = share_difference(mine, others, level) if others[1] else (math.nan,) * 3
    row |= dict(zip(_names("accuracy", "accuracy")[3:6], difference, strict=True))
    return row | {"accuracy_p": fisher_exact(mine, others) if tested else math.nan}


def counted(correct: np.ndarray, units: np.ndarray | None, rows: np.ndarray) -> tuple[float, float]:
    """Right and labeled samples among some rows, in independent samples: copies of one image count less."""
    labeled = rows & np.isfinite(correct)
    design = design_of(units, labeled, correct[labeled])
    return float(correct[labeled].sum()) / design, int(labeled.sum()) / design


def design_of(units: np.ndarray | None, rows: np.ndarray, values: np.ndarray) -> float:
    """The design effect of the values of some rows: 1 if no two of them are copies of one image."""
    return 1.0 if units is None or len(values) == 0 else design_effect(values, units[rows])


def _mean(
    name: str, measures: Measures, values: np.ndarray, sides: tuple[np.ndarray, np.ndarray], level: float, tested: bool
) -> Row:
    column = f"mean_{name}" if name != OVERCONFIDENCE else name
    mine, others = (side & np.isfinite(values) for side in sides)
    designs = design_of(measures.units, mine, values[mine]), design_of(measures.units, others, values[others])
    mean = mean_interval(values[mine], level, designs[0])
    difference = welch(values[mine], values[others], level, designs)
    numbers = (mean.value, mean.low, mean.high, difference.value, difference.low, difference.high)
    return dict(zip(_names(name, column), (*numbers, difference.p if tested else math.nan), strict=True))


def _names(name: str, column: str) -> tuple[str, ...]:
    ends = ("low", "high", "difference", "difference_low", "difference_high", "p")
    return (column, *(f"{name}_{end}" for end in ends))


def _calibration(measures: Measures, group: np.ndarray) -> Row:
    if measures.confidence is None:
        return {}
    known = group & np.isfinite(measures.confidence) & np.isfinite(measures.correct)
    confidence = np.clip(measures.confidence[known], 0, 1)
    if not len(confidence):
        return {"ece": math.nan, "ece_by_chance": math.nan}
    return {"ece": reliability(confidence, measures.correct[known]).ece, "ece_by_chance": ece_by_chance(confidence)}


def _of_the_same_classes(measures: Measures, group: np.ndarray, rest: np.ndarray) -> Row:
    """What the rest reaches with the group's mix of classes; NaN where it lacks one of them."""
    classes = int(measures.labels.max(initial=-1)) + 1
    row: Row = {}
    for name, values in (("accuracy", measures.correct), (measures.hardness, measures.hard)):
        known = np.isfinite(values) & (measures.labels >= 0)
        mine, others = known & group, known & rest
        mix = np.bincount(measures.labels[mine], minlength=classes)
        count = np.bincount(measures.labels[others], minlength=classes)
        total = np.bincount(measures.labels[others], weights=values[others], minlength=classes)
        there = mix > 0
        complete = there.any() and (count[there] > 0).all()
        row[f"{name}_same_classes"] = float(mix[there] @ (total[there] / count[there]) / mix.sum()) if complete else math.nan
    return row


def corrected(rows: list[Row], hardness: str, level: float) -> tuple[list[Row], int]:
    """The rows with p values after Holm's correction, a verdict in words, and null for NaN; and how many tests it is for."""
    tested = [name for name in (rows[0] if rows else ()) if name.endswith("_p")]  # of the accuracy, and of each mean
    tests = sum(row[name] is not None and math.isfinite(row[name]) for row in rows for name in tested)
    judged = with_holm(rows, tested)
    return [null_for_nan(row | {"verdict": _verdict(row, hardness, 1 - level)}) for row in judged], tests


def with_holm(rows: list[Row], names: list[str]) -> list[Row]:
    """The rows with these p values after Holm's correction for all of them together."""
    p = np.array([[row[name] for name in names] for row in rows], dtype=np.float64).reshape(len(rows), len(names))
    after = holm(p.reshape(-1)).reshape(p.shape).tolist()
    return [row | dict(zip(names, values, strict=True)) for row, values in zip(rows, after, strict=True)]


def _verdict(row: Row, hardness: str, alpha: float) -> str:
    if row["verdict"] == TOO_FEW:
        return TOO_FEW
    higher_is_harder = SCORES[hardness].hard == "high"
    words = []
    for name, below, above in (
        ("accuracy", "less accurate", "more accurate"),
        (hardness, "easier" if higher_is_harder else "harder", "harder" if higher_is_harder else "easier"),
        (OVERCONFIDENCE, "less overconfident", "more overconfident"),
    ):
        if row.get(f"{name}_p", math.nan) <= alpha:
            words.append(below if row[f"{name}_difference"] < 0 else above)
    return ", ".join(words) or NO_DIFFERENCE


def direction(verdict: str) -> float:
    """1 for worse than the rest, -1 for better, 0 for no difference found, NaN for too few samples."""
    if verdict == TOO_FEW:
        return math.nan
    if "less accurate" in verdict or "harder" in verdict:
        return 1.0
    return -1.0 if "accurate" in verdict or "easier" in verdict else 0.0


def null_for_nan(row: Row) -> Row:
    """A row for Arrow and JSON."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}

"""What changed between two sets of measures: sample by sample, class by class, and in the features.

paired      the same samples twice, row by row
unpaired    different samples of one model
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.groups.comparing import TOO_FEW, Measures, Row, counted, design_of, with_holm
from hardsight.groups.feature_shift import ComparedFeatures, compare_features
from hardsight.groups.settings import DriftSettings
from hardsight.scoring.comparable import hardness_ranks
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.stats.small_samples import Difference, fisher_exact, mean_interval, share_difference, sign_test, welch

OUTCOMES = np.array(["right in both", "right, then wrong", "wrong, then right", "wrong in both", None], dtype=object)
FEWEST = 10  # samples of a class that is tested
BEYOND = 0.45  # unpaired: a rank this far above the middle is among the hardest twentieth
TWENTY = 20  # samples of a class that have a hardest twentieth
ALL = "all"


@dataclass(frozen=True)
class Pair:
    """Two sets of measures by the same score, and how they are compared."""

    first: Measures
    second: Measures
    why_ranks: str | None  # None where values are compared
    settings: DriftSettings


@dataclass(frozen=True)
class Changes:
    """What was found: columns of the samples, a row for all and for every class, and whether the features moved."""

    columns: dict[str, Any]
    classes: list[Row]
    features: ComparedFeatures
    easier: int | None = None  # samples that got easier; not counted unpaired


# The same samples twice


def paired_changes(pair: Pair) -> Changes:
    """Compare the same samples, in the same order."""
    first, second = pair.first, pair.second
    change, outcome = _change(pair), _outcome(first, second)
    beyond = np.zeros(len(first)) if pair.why_ranks else _rounding(pair)  # (n,)
    side = np.where(np.isnan(change), np.nan, np.sign(change) * (np.abs(change) > beyond))  # 1 harder, -1 easier, 0 the same
    side = np.select([outcome == 1, outcome == 2], [1.0, -1.0], side)
    features = compare_features(first, second, pair.settings)
    columns = {
        "id": first.samples.columns(["id"]).column(0),
        "harder": pa.array(side == 1, mask=np.isnan(side)),
        "change": _nulled(change),
        "label": _classes(first.labels),
        "before": _nulled(first.hard),
        "after": _nulled(second.hard),
        "predicted_before": _classes(first.predicted),
        "predicted_after": _classes(second.predicted),
        "outcome": pa.array(OUTCOMES[outcome], pa.string()),
        "feature_angle": _nulled(np.full(len(first), np.nan) if features.angle is None else features.angle),
    }
    rows = [_paired_row(pair, change, label) for label in _labels(first)]
    return Changes(columns, _corrected(rows, pair), features, int((side == -1).sum()))


def _rounding(pair: Pair) -> np.ndarray:
    """(n,) change of a score that rounding of the features alone may cause: a few units of the coarser of the two."""
    sides = pair.first, pair.second
    kinds = [np.dtype(np.float32)]
    for side in sides:
        if side.samples.source.evidence != SCORES_ALONE:
            kinds.append(np.asarray(to_numpy(side.samples.in_memory(0, 1).values)).dtype)
    unit = max(float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f")
    return 4 * unit * np.maximum(*(np.abs(side.hard) for side in sides))


def _change(pair: Pair) -> np.ndarray:
    """(n,) how much harder: of values, or of ranks among the samples that have both."""
    if pair.why_ranks is None:
        return pair.second.harder - pair.first.harder
    return rank_change(pair.first.harder, pair.second.harder, "high")


def rank_change(before: np.ndarray, after: np.ndarray, hard: str) -> np.ndarray:
    """(n,) how much harder by rank, among the samples that have both values; NaN for the others."""
    both = np.isfinite(before) & np.isfinite(after)
    change = np.full(len(both), np.nan)
    change[both] = hardness_ranks(after[both], hard) - hardness_ranks(before[both], hard)
    return change


def _outcome(first: Measures, second: Measures) -> np.ndarray:
    """(n,) place in OUTCOMES."""
    known = np.isfinite(first.correct) & np.isfinite(second.correct)
    return np.where(known, 2 * (first.correct == 0) + (second.correct == 0), 4).astype(np.int64)


def _paired_row(pair: Pair, change: np.ndarray, label: int | None) -> Row:
    """One class, or all: accuracy before and after with the exact sign test of those that turned, and the mean change."""
    first, second, level = pair.first, pair.second, pair.settings.level
    mine = np.ones(len(first), bool) if label is None else first.labels == label
    known = mine & np.isfinite(first.correct) & np.isfinite(second.correct)
    gain = second.correct[known] - first.correct[known]
    changed = mine & np.isfinite(change)
    values = change[changed]
    designs = design_of(first.units, known, gain), design_of(first.units, changed, values)
    turned, mean = mean_interval(gain, level, designs[0]), mean_interval(values, level, designs[1])
    tested = len(gain) >= FEWEST
    better, worse = (float((sign * gain > 0).sum()) / designs[0] for sign in (1, -1))
    accuracies = _mean(first.correct[known]), _mean(second.correct[known])
    difference = Difference(turned.value, turned.low, turned.high, sign_test(better, worse) if tested else math.nan)
    p = _one_sample_p(values, designs[1]) if tested and len(values) > 1 else math.nan
    return _class_row(first, label, int(mine.sum()), accuracies, difference, Difference(mean.value, mean.low, mean.high, p))


def _one_sample_p(values: np.ndarray, design: float) -> float:
    """Student's t test that the mean is 0."""
    from scipy.special import stdtr

    n = len(values) / design
    error = values.std(ddof=1) / math.sqrt(n)
    if error == 0:
        return 1.0 if values.mean() == 0 else 0.0
    return float(2 * stdtr(max(n - 1, 1e-9), -abs(values.mean()) / error))


# Different samples of one model


def unpaired_changes(pair: Pair) -> Changes:
    """Compare different samples, class by class."""
    first, second = pair.first, pair.second
    before, after = first.harder, second.harder
    change, enough = np.full(len(second), np.nan), np.zeros(len(second), bool)
    for label in np.unique(second.labels[second.labels >= 0]):
        known = np.sort(before[(first.labels == label) & np.isfinite(before)])
        mine = (second.labels == label) & np.isfinite(after)
        if len(known):
            easier = (np.searchsorted(known, after[mine], "left") + np.searchsorted(known, after[mine], "right")) / 2
            change[mine] = easier / len(known) - 0.5
            enough[mine] = len(known) >= TWENTY
    columns = {
        "id": second.samples.columns(["id"]).column(0),
        "harder": pa.array(change > BEYOND, mask=~enough),
        "change": _nulled(change),
        "label": _classes(second.labels),
        "after": _nulled(second.hard),
        "predicted_after": _classes(second.predicted),
    }
    rows = [_unpaired_row(pair, label) for label in _labels(second)]
    return Changes(columns, _corrected(rows, pair), compare_features(first, second, pair.settings))


def _unpaired_row(pair: Pair, label: int | None) -> Row:
    counts, values, designs = list[tuple[float, float]](), list[np.ndarray](), list[float]()
    for side in (pair.first, pair.second):
        mine = np.ones(len(side), bool) if label is None else side.labels == label
        scored = mine & np.isfinite(side.harder)
        counts.append(counted(side.correct, side.units, mine))
        values.append(side.harder[scored])
        designs.append(design_of(side.units, scored, values[-1]))
    second, level = pair.second, pair.settings.level
    tested = min(counts[0][1], counts[1][1]) >= FEWEST
    there = min(counts[0][1], counts[1][1]) > 0
    ends = share_difference(counts[1], counts[0], level) if there else (math.nan,) * 3
    difference = Difference(*ends, fisher_exact(counts[0], counts[1]) if tested else math.nan)
    mean = welch(values[1], values[0], level, (designs[1], designs[0]))
    accuracies = [right / labeled if labeled else math.nan for right, labeled in counts]
    n = len(second) if label is None else int((second.labels == label).sum())
    return _class_row(second, label, n, accuracies, difference, mean if tested else replace(mean, p=math.nan))


# Both


def _labels(measures: Measures) -> list[int | None]:
    """All samples first, then every class."""
    return [None, *np.unique(measures.labels[measures.labels >= 0]).tolist()]


def _class_row(
    measures: Measures, label: int | None, n: int, accuracies: Sequence[float], accuracy: Difference, change: Difference
) -> Row:
    """One class, or all: its accuracies before and after, their difference, and the mean change of the score."""
    return {
        "class": ALL if label is None else measures.class_name(label),
        "label": label,
        "n": n,
        "accuracy_before": accuracies[0],
        "accuracy_after": accuracies[1],
        "accuracy_difference": accuracy.value,
        "accuracy_difference_low": accuracy.low,
        "accuracy_difference_high": accuracy.high,
        "accuracy_p": accuracy.p,
        "mean_change": change.value,
        "change_low": change.low,
        "change_high": change.high,
        "change_p": change.p,
    }


def _corrected(rows: list[Row], pair: Pair) -> list[Row]:
    """p values after Holm's correction for all tests of the table, and a verdict by those up to alpha."""
    alpha, ranked = 1 - pair.settings.level, pair.why_ranks is not None and not pair.settings.unpaired
    judged = []
    for row in with_holm(rows, ["accuracy_p", "change_p"]):
        accuracy_p, change_p, words = row["accuracy_p"], row["change_p"], []
        if accuracy_p <= alpha:
            words.append("less accurate" if row["accuracy_difference"] < 0 else "more accurate")
        if change_p <= alpha:
            words.append(("ranked " if ranked else "") + ("harder" if row["mean_change"] > 0 else "easier"))
        if ranked:  # the mean change of all ranks is 0 but for rounding
            row = row | {"mean_change": round(row["mean_change"], 12) + 0.0}  # and not -0
        few = math.isnan(accuracy_p) and math.isnan(change_p)
        judged.append(row | {"verdict": TOO_FEW if few else ", ".join(words) or "no change found"})
    return judged


def _nulled(values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _classes(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers, mask=numbers < 0)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan

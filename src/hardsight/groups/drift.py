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
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.groups.comparing import COPIES, TOO_FEW, counted, design_of, with_holm
from hardsight.groups.feature_shift import ComparedFeatures, compare_features
from hardsight.groups.opening import (
    Measured,
    check_labeled,
    check_labels_of,
    loaded,
    measured_by,
    no_head_of,
    of_split,
    open_measured,
    shared_heads,
    with_class_names,
)
from hardsight.groups.settings import DriftFileSettings, DriftSettings
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scores import SCORES
from hardsight.scoring.comparable import hardness_ranks, of_probabilities, why_two_scales
from hardsight.scoring.job import FoldHeads
from hardsight.scoring.samples import check_unique_ids
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.stats.means import Difference, mean_interval, welch
from hardsight.stats.proportions import fisher_exact, share_difference, sign_test
from hardsight.threads import sample_rows
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import DriftOptions


OUTCOMES = np.array(["right in both", "right, then wrong", "wrong, then right", "wrong in both", None], dtype=object)
FEWEST = 10  # samples of a class that is tested
BEYOND = 0.45  # unpaired: a rank this far above the middle is among the hardest twentieth
TWENTY = 20  # samples of a class that have a hardest twentieth
ALL = "all"
TWO_MODELS = "If the features are of two models, give each its own head."

Row = dict[str, Any]


@dataclass(frozen=True)
class Drift:
    """The table of samples, with the classes and the test of the features."""

    __repr__ = brief

    table: pa.Table
    classes: pa.Table
    by: str  # the score
    why_ranks: str | None  # None where values are compared
    features: ComparedFeatures  # whether they moved
    sides: tuple[Measured, Measured]
    warnings: tuple[str, ...]
    settings: DriftSettings
    easier: int | None = None  # samples that got easier; not counted unpaired


@takes(DriftSettings)
def drift(
    first: Any,
    second: Any,
    *,
    settings: DriftSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[DriftOptions],
) -> Result:
    """Say which samples got harder between two models or two dates: one row per sample that both have.

    Args:
        first, second: a run directory, a file (a snapshot or a scores table), a `Snapshot` or a table of scores; joined by id.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the rows scored and the rows in all.

    Returns:
        A `Result`, used as a `pyarrow.Table`: id, harder, change and more; see `hardsight.groups`. Its metadata has the
        classes that got harder and whether the features moved. Warnings are raised as `UserWarning`.

    Example:
        >>> from hardsight import Snapshot
        >>> before = Snapshot(probs=np.array([[0.9, 0.1], [0.8, 0.2]]), labels=[0, 0], ids=["a", "b"])
        >>> after = Snapshot(probs=np.array([[0.7, 0.3], [0.4, 0.6]]), labels=[0, 0], ids=["b", "a"])
        >>> drift(before, after).select(["id", "harder", "outcome"]).to_pylist()
        [{'id': 'a', 'harder': True, 'outcome': 'right, then wrong'}, {'id': 'b', 'harder': True, 'outcome': 'right in both'}]
    """
    settings = DriftSettings.given(settings, options)
    result = find_drift(*opened(first, second, settings, progress), settings)
    for sentence in result.warnings:
        warnings.warn(sentence, stacklevel=3)
    drifted = Result(result.table)
    drifted.by, drifted.counted = "change", "harder"
    return drifted


def opened(first: Any, second: Any, settings: DriftSettings, progress: Progress | None = None) -> tuple[Measured, Measured, str]:
    """Both, and the score that they are compared by: the loss where one of them has no features."""
    more: dict[str, Any] = {}
    head = class_names = None
    if isinstance(settings, DriftFileSettings):
        more, head, class_names = {"sampling": settings}, settings.head, settings.class_names
    first, second = (loaded(source, head) for source in (first, second))
    for source in (first, second):
        if isinstance(source, Snapshot):
            check_labels_of(source, "store them with the samples")
    if not settings.unpaired:
        _check_shared(first, second)  # before they are scored, which may take long
    sources = [first, second]
    if isinstance(settings, DriftFileSettings):  # rows of a scores table are chosen when it is opened
        sources = [x.of_rows(sample_rows(settings, len(x))) if isinstance(x, Snapshot) else x for x in sources]
    heads = _fitted_heads(*sources, paired=not settings.unpaired)

    def measured(by: str) -> list[Measured]:
        pairs = zip(sources, heads, strict=True)
        return [open_measured(source, by, head=own or head, progress=progress, **more) for source, own in pairs]

    sides = measured(settings.by)
    for side in sides:
        check_labeled(side)
    names = [measured_by(side, settings.by) for side in sides]
    if names[0] != names[1]:
        sides = measured("loss")
        names = [measured_by(side, "loss") for side in sides]
    if sides[0].name == sides[1].name:
        sides = [replace(side, name=f"the {which} snapshot") for side, which in zip(sides, ("first", "second"), strict=True)]
    before, after = (with_class_names(side, class_names) for side in sides)
    return before, after, names[0]


def _fitted_heads(first: Any, second: Any, *, paired: bool) -> tuple[FoldHeads | None, FoldHeads | None]:
    """One head for both, where they have none and as many features; else each has its own, given or fitted."""
    if not all(isinstance(side, Snapshot) and no_head_of(side) for side in (first, second)):
        return None, None
    widths = first.source.width, second.source.width
    if widths[0] == widths[1]:
        return shared_heads(first, second, paired=paired)
    if not paired:
        raise InputError(
            f"different samples are compared by one model, but one has {widths[0]} features, the other {widths[1]}: "
            "leave out --unpaired."
        )
    return None, None


def find_drift(first: Measured, second: Measured, by: str, settings: DriftSettings) -> Drift:
    """Compare two opened sets of samples: what `drift` computes."""
    first, second = of_split(first, settings.split), of_split(second, settings.split)
    one_head = _one_fitted_head(first, second)
    why_ranks = None if one_head else why_two_scales(first.head, second.head, (first.name, second.name))
    if of_probabilities(by) and first.num_classes == second.num_classes:
        why_ranks = None
    find = _unpaired if settings.unpaired else _paired
    result = find(first, second, by, why_ranks, settings)
    sentences = (f"neither has a head: one is fitted to {first.name}, by cross-validation, and scores both. {TWO_MODELS}",)
    return replace(result, warnings=sentences + result.warnings) if one_head else result


def _one_fitted_head(first: Measured, second: Measured) -> bool:
    return first.fitted is not None and second.fitted is not None and first.fitted.heads is second.fitted.heads


# The same samples twice


def _paired(first: Measured, second: Measured, by: str, why_ranks: str | None, settings: DriftSettings) -> Drift:
    first, second, sentences = _joined(first, second)
    before, after = first.scores[by], second.scores[by]
    change = _change(before, after, by, why_ranks is None)
    outcome = _outcome(first, second)
    beyond = np.zeros(len(first)) if why_ranks else _rounding(first, second) * np.maximum(np.abs(before), np.abs(after))  # (n,)
    side = np.where(np.isnan(change), np.nan, np.sign(change) * (np.abs(change) > beyond))  # 1 harder, -1 easier, 0 the same
    side = np.select([outcome == 1, outcome == 2], [1.0, -1.0], side)
    features = compare_features(first, second, settings)
    columns: Row = {
        "id": first.ids,
        "harder": pa.array(side == 1, mask=np.isnan(side)),
        "change": _nulled(change),
        "label": pa.array(first.labels, mask=first.labels < 0),
        "before": _nulled(before),
        "after": _nulled(after),
        "predicted_before": pa.array(first.predicted, mask=first.predicted < 0),
        "predicted_after": pa.array(second.predicted, mask=second.predicted < 0),
        "outcome": pa.array(OUTCOMES[outcome], pa.string()),
        "feature_angle": _nulled(np.full(len(first), np.nan) if features.angle is None else features.angle),
    }
    classes = _corrected(
        [_paired_row(first, second, change, label, settings.level) for label in _labels(first)],
        1 - settings.level,
        ranked=why_ranks is not None,
    )
    result = _drift(columns, classes, (first, second), (by, why_ranks, features), settings, sentences)
    return replace(result, easier=int((side == -1).sum()))


def _rounding(first: Measured, second: Measured) -> float:
    """Relative change of a score that rounding of the features alone may cause: a few units of the coarser of the two."""
    kinds = [np.dtype(np.float32)]
    for side in (first, second):
        if side.snapshot is not None:
            kinds.append(np.asarray(to_numpy(side.snapshot.in_memory(0, 1).values)).dtype)
    return 4 * max(float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f")


def _check_shared(first: Any, second: Any) -> None:
    """Refuse two snapshots that have no sample in common."""
    if isinstance(first, Snapshot) and isinstance(second, Snapshot):
        ids = [side.columns(["id"]).column(0).combine_chunks().cast(pa.string()) for side in (first, second)]
        if len(ids[0]) and len(ids[1]) and not pc.any(pc.is_in(*ids)).as_py():
            raise _apart(first.name or "the first snapshot", second.name or "the second snapshot", *ids)


def _apart(first: str, second: str, *ids: pa.Array) -> InputError:
    return InputError(
        f"{first} and {second} share no id (such as {ids[0][0].as_py()!r:.60} and {ids[1][0].as_py()!r:.60}): "
        "two snapshots are joined by id. For different samples of one model, add --unpaired."
    )


def _joined(first: Measured, second: Measured) -> tuple[Measured, Measured, list[str]]:
    """Both with the samples that both have, in the order of the first, and what a person should know of the others."""
    ids = [side.ids.cast(pa.string()) for side in (first, second)]
    for side, names in zip((first, second), ids, strict=True):
        check_unique_ids(names.to_pylist(), side.name)
    row_in_second = pc.fill_null(pc.index_in(ids[0], value_set=ids[1]), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    shared = np.flatnonzero(row_in_second >= 0)
    if len(shared) == 0:
        raise _apart(first.name, second.name, *ids)
    sentences = []
    if len(shared) < len(first) or len(shared) < len(second):
        sentences.append(
            f"{len(shared)} samples are in both; {len(first)} are in {first.name} and {len(second)} in {second.name}."
        )
    first, second = first.take(shared), second.take(row_in_second[shared])
    differing = int(((first.labels != second.labels) & (second.labels >= 0)).sum())
    if differing:
        sentences.append(f"{differing} labels differ between the two; outcomes and scores are of each one's own label.")
    return first, second, sentences


def _change(before: np.ndarray, after: np.ndarray, by: str, one_scale: bool) -> np.ndarray:
    """(n,) how much harder: of values, or of ranks among the samples that have both."""
    hard = SCORES[by].hard
    if one_scale:
        return (after - before) * (1.0 if hard == "high" else -1.0)
    both = np.isfinite(before) & np.isfinite(after)
    change = np.full(len(before), np.nan)
    change[both] = hardness_ranks(after[both], hard) - hardness_ranks(before[both], hard)
    return change


def _outcome(first: Measured, second: Measured) -> np.ndarray:
    """(n,) place in OUTCOMES."""
    right = [side.correct for side in (first, second)]
    known = np.isfinite(right[0]) & np.isfinite(right[1])
    return np.where(known, 2 * (right[0] == 0) + (right[1] == 0), 4).astype(np.int64)


def _paired_row(first: Measured, second: Measured, change: np.ndarray, label: int | None, level: float) -> Row:
    """One class, or all: accuracy before and after with the exact sign test of those that turned, and the mean change."""
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


def _unpaired(first: Measured, second: Measured, by: str, why_ranks: str | None, settings: DriftSettings) -> Drift:
    _check_one_model(first, second, why_ranks)
    sign = 1.0 if SCORES[by].hard == "high" else -1.0
    before, after = sign * first.scores[by], sign * second.scores[by]
    change, enough = np.full(len(second), np.nan), np.zeros(len(second), bool)
    for label in np.unique(second.labels[second.labels >= 0]):
        known = np.sort(before[(first.labels == label) & np.isfinite(before)])
        mine = (second.labels == label) & np.isfinite(after)
        if len(known):
            easier = (np.searchsorted(known, after[mine], "left") + np.searchsorted(known, after[mine], "right")) / 2
            change[mine] = easier / len(known) - 0.5
            enough[mine] = len(known) >= TWENTY
    features = compare_features(first, second, settings)
    columns: Row = {
        "id": second.ids,
        "harder": pa.array(change > BEYOND, mask=~enough),
        "change": _nulled(change),
        "label": pa.array(second.labels, mask=second.labels < 0),
        "after": _nulled(second.scores[by]),
        "predicted_after": pa.array(second.predicted, mask=second.predicted < 0),
    }
    rows = [_unpaired_row(first, second, (before, after), label, settings.level) for label in _labels(second)]
    return _drift(columns, _corrected(rows, 1 - settings.level), (first, second), (by, why_ranks, features), settings, [])


def _check_one_model(first: Measured, second: Measured, why_ranks: str | None) -> None:
    """Refuse different samples by different heads: each of two heads finds its own samples easier or harder."""
    why = None if first.head is None and second.head is None else why_ranks
    for side in (first, second):
        if why is None and side.fitted is not None and not _one_fitted_head(first, second):
            why = f"{side.name} was scored by a head fitted to its own samples"
    if why is not None:
        raise InputError(f"different samples are compared by one model, but {why}: leave out --unpaired, or give one head.")


def _unpaired_row(
    first: Measured, second: Measured, hardness: tuple[np.ndarray, np.ndarray], label: int | None, level: float
) -> Row:
    sides, counts, values, designs = (first, second), list[tuple[float, float]](), list[np.ndarray](), list[float]()
    for side, score in zip(sides, hardness, strict=True):
        mine = np.ones(len(side), bool) if label is None else side.labels == label
        scored = mine & np.isfinite(score)
        counts.append(counted(side.correct, side.units, mine))
        values.append(score[scored])
        designs.append(design_of(side.units, scored, score[scored]))
    tested = min(counts[0][1], counts[1][1]) >= FEWEST
    there = min(counts[0][1], counts[1][1]) > 0
    ends = share_difference(counts[1], counts[0], level) if there else (math.nan,) * 3
    difference = Difference(*ends, fisher_exact(counts[0], counts[1]) if tested else math.nan)
    mean = welch(values[1], values[0], level, (designs[1], designs[0]))
    accuracies = [right / labeled if labeled else math.nan for right, labeled in counts]
    n = len(second) if label is None else int((second.labels == label).sum())
    return _class_row(second, label, n, accuracies, difference, mean if tested else replace(mean, p=math.nan))


# Both


def _labels(measured: Measured) -> list[int | None]:
    """All samples first, then every class."""
    return [None, *np.unique(measured.labels[measured.labels >= 0]).tolist()]


def _class_row(
    measured: Measured, label: int | None, n: int, accuracies: Sequence[float], accuracy: Difference, change: Difference
) -> Row:
    """One class, or all: its accuracies before and after, their difference, and the mean change of the score."""
    return {
        "class": ALL if label is None else measured.class_name(label),
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


def _corrected(rows: list[Row], alpha: float, ranked: bool = False) -> list[Row]:
    """p values after Holm's correction for all tests of the table, and a verdict by those up to alpha."""
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


def _drift(
    columns: Row, classes: list[Row], sides: tuple[Measured, Measured],
    how: tuple[str, str | None, ComparedFeatures], settings: DriftSettings, sentences: list[str],
) -> Drift:  # fmt: skip
    by, why_ranks, features = how
    plain = [{name: None if isinstance(v, float) and math.isnan(v) else v for name, v in row.items()} for row in classes]
    notes = {
        "version": VERSION,
        "first": sides[0].name,
        "second": sides[1].name,
        "by": by,
        "compared": "ranks" if why_ranks else "values",
        "why_ranks": why_ranks,
        "unpaired": settings.unpaired,
        "level": settings.level,
        "correction": "Holm, over all tests of the classes",
        "features_moved": None if features.moved is None else asdict(features.moved),
        "neighbors_kept": None if features.kept is None else asdict(features.kept),
        "features_not_compared": features.why_not,
        "classes": plain,
    }
    table = pa.table(columns).replace_schema_metadata({"hardsight": json.dumps(notes)})
    kinds = [("class", pa.string()), ("label", pa.int64()), ("n", pa.int64())]
    kinds += [(name, pa.float64()) for name in (plain[0] if plain else {}) if name not in ("class", "label", "n", "verdict")]
    of_classes = pa.Table.from_pylist(plain, pa.schema([*kinds, ("verdict", pa.string())]))
    if any(side.units is not None for side in sides):
        sentences = [*sentences, COPIES]
    return Drift(table, of_classes, by, why_ranks, features, sides, tuple(sentences), settings)


def samples_in_words(drift: Drift) -> str:
    """How many samples got harder, by what, in one sentence."""
    harder = drift.table.column("harder")
    known = len(harder) - harder.null_count
    count = pc.sum(harder).as_py() or 0
    share = f"{count} of {known} samples got harder ({100 * count / max(known, 1):.1f} %)"
    if drift.settings.unpaired:
        return f"{share}: harder than 95 % of the first snapshot's samples of their class by {drift.by}, where 5 % are expected."
    turned = drift.table.column("outcome").to_pylist()
    wrong, right = turned.count("right, then wrong"), turned.count("wrong, then right")
    how = f"rank of {drift.by}, because {drift.why_ranks}" if drift.why_ranks else drift.by
    share += f", {drift.easier} easier ({100 * (drift.easier or 0) / max(known, 1):.1f} %)"
    return f"{share}: {wrong} turned wrong, {right} turned right; the others are compared by {how}."


def _nulled(values: np.ndarray) -> pa.Array:
    values = np.asarray(to_numpy(values), np.float64)
    return pa.array(values, mask=~np.isfinite(values))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan

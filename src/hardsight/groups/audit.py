"""`audit`: for which groups of samples the model is worse. One row per group:

    group, n                  the value of the column, and its samples; of latent groups, the class and the cluster
    accuracy, accuracy_low, accuracy_high
    mean_avh                  null where --by names another score, or there are no features
    by, labeled               the column, and the samples with a label and a prediction
    avh_low, avh_high         or mean, low and high of the score of --by
    mean_norm, norm_low, norm_high
    overconfidence, overconfidence_low, overconfidence_high     mean confidence minus accuracy
    ece, ece_by_chance        and what a calibrated model of as many samples would show in 19 of 20 cases
    X_difference, X_difference_low, X_difference_high, X_p      of each against the rest; p after Holm's correction
    accuracy_same_classes, avh_same_classes     what the rest reaches with the group's mix of classes
    hardest                   ids of its hardest samples
    verdict                   in words

The rest are the other samples of the same grouping; for a latent group, those of its class. The metadata of the schema, under
`hardsight`, says how many tests were corrected for.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.files.wide_tables import is_table
from hardsight.groups.comparing import COPIES, NO_DIFFERENCE, TOO_FEW, Measures, Row, compare, corrected
from hardsight.groups.grouping import Grouping, describe, groupings_of
from hardsight.groups.latent import find_latent
from hardsight.groups.opening import Measured, check_labeled, check_labels_of, measured_by, of_split, open_measured, with_groups
from hardsight.groups.settings import AuditSettings
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scores import SCORES
from hardsight.scoring.score import of_table
from hardsight.screen import Progress, brief
from hardsight.snapshot import Snapshot
from hardsight.table import is_scores
from hardsight.version import VERSION

if TYPE_CHECKING:
    from hardsight.option_types import AuditOptions


HARDEST = 12  # ids kept of a group
FIRST = ("group", "n", "accuracy", "accuracy_low", "accuracy_high", "mean_avh", "by", "labeled")  # columns, before all others
LATENT = "latent"
TRAINED_ON = "some of these samples were trained on (split is train), where a model is right more often than elsewhere"


@dataclass(frozen=True)
class Audit:
    """The table, with what it was made from."""

    __repr__ = brief

    table: pa.Table  # one row per group
    members: pa.Table  # id, and one column per grouping with each sample's group
    measured: Measured
    hardness: str  # the score
    tests: int  # that were corrected for
    warnings: tuple[str, ...]
    level: float = 0.95


@takes(AuditSettings)
def audit(
    source: Any = None,
    *,
    features: Any = None,
    labels: Any = None,
    probs: Any = None,
    pred_probs: Any = None,
    logits: Any = None,
    head: Any = None,
    ids: Any = None,
    columns: dict[str, Any] | None = None,
    settings: AuditSettings | None = None,
    progress: Progress | None = None,
    **options: Unpack[AuditOptions],
) -> Result:
    """Compare groups of samples: accuracy, hardness, norm and calibration with intervals, one row per group.

    Args:
        source: a run directory, a file (a snapshot or a scores table), a `Snapshot` or a table of scores; a wide table, such as a
            pandas frame; or nothing, and arrays by keyword.
        features: (n, d) inputs of the last linear layer; of a table, names or patterns of columns: "f*".
        labels: (n,) given class; -1 or null for unlabeled. Of a table, the name of a column.
        probs: (n, c) instead of features; `pred_probs` is another name of them.
        logits: (n, c) instead of features.
        head: a `Head`, or the (c, d) weight of a linear one. Without it, heads are fitted by folds.
        ids: (n,) unique strings or integers. Default: the index of a pandas frame, or row numbers.
        columns: (n,) arrays by name, among which `group` chooses.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the rows scored and the rows in all, then with the groups compared and those in all.

    Returns:
        A `Result`, used as a `pyarrow.Table`: group, n, accuracy, accuracy_low, accuracy_high, mean_avh and more; see
        `hardsight.groups`.
        Warnings are raised as `UserWarning`.

    Example:
        >>> right, wrong = np.array([[1.0, 0.0]] * 30), np.array([[0.0, 1.0]] * 30)
        >>> table = audit(probs=np.concatenate([right, wrong]), labels=[0] * 60, columns={"site": ["A"] * 30 + ["B"] * 30},
        ...               group="site")
        >>> table.select(["group", "accuracy", "verdict"]).to_pylist()[1]
        {'group': 'B', 'accuracy': 0.0, 'verdict': 'less accurate, harder, more overconfident'}
    """
    settings = AuditSettings.given(settings, options)
    arrays = {"features": features, "labels": labels, "probs": probs, "pred_probs": pred_probs, "logits": logits, "head": head}
    given = {name: value for name, value in (arrays | {"ids": ids, "columns": columns}).items() if value is not None}
    if is_table(source) and (given.keys() & {"features", "labels"} or not is_scores(source)):
        source, given = of_table(source, given.pop("features", None), given), {}
    files = {name: given.pop(name) for name in ("head", "labels") if source is not None and name in given}
    if source is not None and given:
        raise InputError(f"{next(iter(given))} goes with arrays; a snapshot holds its own.")
    if files and not isinstance(source, (str, os.PathLike)):
        raise InputError(f"{next(iter(files))} goes with arrays; a snapshot holds its own.")
    opened = with_groups(Snapshot(**given) if source is None else source, settings.group, **files)
    check_groups(opened, settings)
    measured = open_measured(opened, settings.by, **files, progress=progress)
    result = find_groups(measured, settings, progress)
    for sentence in result.warnings:
        warnings.warn(sentence, stacklevel=3)
    groups = Result(result.table)
    groups.counted, groups.shown = "verdict", ("group", "n", "accuracy", "mean_avh", "verdict")
    return groups


def check_groups(source: Any, settings: AuditSettings) -> None:
    """Refuse columns that make no groups before a snapshot is scored, where all of its samples are compared."""
    whole = settings.split is None and getattr(settings, "all_samples", True)
    if not isinstance(source, Snapshot) or not settings.group or not whole:
        return
    check_labels_of(source)
    columns = source.columns()
    if all(name in columns.column_names for name in settings.group):
        labels = columns.column("label").fill_null(-1).to_numpy()
        none = np.full(len(labels), -1)
        groupings_of(Measured(source.name or "the snapshot", columns.column("id").combine_chunks(), labels, none, {}, columns,
                              source.class_names), settings.group)  # fmt: skip


def find_groups(measured: Measured, settings: AuditSettings, progress: Progress | None = None) -> Audit:
    """Compare the groups of opened samples: what `audit` computes; `progress` gets the groups compared and their total."""
    measured = of_split(measured, settings.split)
    check_labeled(measured)
    hardness = measured_by(measured, settings.by)
    measures = Measures.of(measured, hardness)
    if settings.group:
        rows, groupings = _by_columns(measured, measures, settings, progress)
    else:
        rows, groupings = _by_features(measured, measures, settings)
    p_values = [value for row in rows for name, value in row.items() if name.endswith("_p")]
    tests = sum(value is not None and math.isfinite(value) for value in p_values)
    rows = corrected(rows, hardness, settings.level)
    notes = _notes(measured, settings, hardness, tests)
    members = pa.table({"id": measured.ids, **{grouping.by: _words(grouping) for grouping in groupings}})
    sentences = (*(describe(groupings) if settings.group else ()), *_cautions(measured, settings))
    return Audit(_table(rows, notes), members, measured, hardness, tests, sentences, settings.level)


def _by_columns(
    measured: Measured, measures: Measures, settings: AuditSettings, progress: Progress | None
) -> tuple[list[Row], list[Grouping]]:
    groupings = groupings_of(measured, settings.group)
    rows: list[Row] = []
    total = sum(len(grouping.names) for grouping in groupings)
    for grouping in groupings:
        grouped = grouping.codes >= 0
        for group, name in enumerate(grouping.names):
            mine = grouping.members(group)
            row = compare(measures, mine, grouped & ~mine, least=settings.least, level=settings.level)
            rows.append({"by": grouping.by, "group": name, **row, "hardest": _hardest(measured, measures, np.flatnonzero(mine))})
            if progress is not None:
                progress(len(rows), total)
    return rows, groupings


def _by_features(measured: Measured, measures: Measures, settings: AuditSettings) -> tuple[list[Row], list[Grouping]]:
    features = measured.features()
    if features is None:
        there = ", ".join(name for name in measured.columns.column_names if name not in ("id", *SCORES))
        raise InputError(f"{measured.name}: latent groups are found in features, and there are none: give --group ({there}).")
    order = np.asarray(pc.array_sort_indices(measured.ids)).astype(np.int64)
    groups = find_latent(features, measures, order, settings)
    # Worst first, and numbered within the class: "cat 1" is the worst cluster of cats.
    groups.sort(key=lambda group: group.row["accuracy"] if group.row["accuracy"] is not None else 2.0)
    codes, names, rows = np.full(len(measured), -1), list[str](), list[Row]()
    for place, group in enumerate(groups):
        number = sum(other.label == group.label for other in groups[: place + 1])
        names.append(f"{measured.class_name(group.label)}, cluster {number}")
        codes[group.members] = place
        more = {"hardest": _hardest(measured, measures, group.members), "members": len(group.members)}
        rows.append({"by": LATENT, "group": names[-1], **group.row, **more})
    return rows, [Grouping(LATENT, names, codes)]


def _hardest(measured: Measured, measures: Measures, rows: np.ndarray) -> list[str]:
    values = measures.means[measures.hardness][rows]
    order = np.argsort(-values if SCORES[measures.hardness].hard == "high" else values, kind="stable")
    chosen = rows[order[: min(HARDEST, int(np.isfinite(values).sum()))]]
    return [str(id) for id in measured.ids.take(pa.array(chosen)).to_pylist()]


def _words(grouping: Grouping) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(grouping.codes, mask=grouping.codes < 0), pa.array(grouping.names, pa.string())
    ).cast(pa.string())


def _table(rows: list[Row], notes: dict[str, Any]) -> pa.Table:
    """The rows as Arrow: NaN becomes null, and mean_avh is there even where only the loss is known."""
    texts = ("by", "group", "verdict", "hardest")
    measured = [name for name in (rows[0] if rows else ()) if name not in (*FIRST, "hardest", "verdict")]
    columns = {name: [_plain(row.get(name)) for row in rows] for name in (*FIRST, *measured, "hardest", "verdict")}
    kinds = {
        name: pa.string() if name in texts else pa.int64() if name in ("n", "labeled", "members") else pa.float64()
        for name in columns
    }
    schema = pa.schema(list(kinds.items()), metadata={"hardsight": json.dumps(notes)})
    return pa.table(columns, schema=schema)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def _notes(measured: Measured, settings: AuditSettings, hardness: str, tests: int) -> dict[str, Any]:
    return {
        "version": VERSION,
        "hardness": hardness,
        "samples": len(measured),
        "group": list(settings.group) or LATENT,
        "level": settings.level,
        "least": settings.least,
        "tests": tests,
        "correction": "Holm, over all tests of the table",
        "split": settings.split,
    }


def _cautions(measured: Measured, settings: AuditSettings) -> list[str]:
    sentences = []
    if settings.split is None and "split" in measured.columns.column_names:
        splits = set(pc.unique(measured.columns.column("split")).to_pylist())
        others = sorted(splits - {"train", None}, key=lambda split: (split != "test", split))
        if "train" in splits:
            sentences.append(f"{TRAINED_ON}: try --split {others[0]}." if others else f"{TRAINED_ON}.")
    if measured.units is not None:
        sentences.append(COPIES)
    return sentences


def worst_first(table: pa.Table) -> pa.Table:
    """The groups that were told apart from the rest first, then the others, those too small to say last; least accurate first."""

    def key(row: Row) -> tuple[int, float]:
        verdict = row["verdict"]
        bad = "less accurate" in verdict or "harder" in verdict
        rank = 0 if bad else 2 if verdict == NO_DIFFERENCE else 3 if verdict == TOO_FEW else 1
        return rank, 2.0 if row["accuracy"] is None else row["accuracy"]

    rows = table.to_pylist()
    return table.take(pa.array(sorted(range(len(rows)), key=lambda at: key(rows[at])), pa.int64()))


def groups_in_words(audit: Audit) -> str:
    """How many groups there are, in one sentence."""
    table = audit.table
    if len(table) == 0:
        return "no latent groups: no cluster looks worse than the rest of its class, or the classes are too small to divide."
    too_few = sum(verdict == TOO_FEW for verdict in table.column("verdict").to_pylist())
    if too_few == len(table):
        return f"{_counted(too_few, 'group')}, too small to test."
    few = f", {too_few} of them too small to test" if too_few else ""
    tests = f"{_counted(audit.tests, 'test')}, with p values corrected by Holm's method"
    return f"{_counted(len(table), 'group')}{few}. {tests}."


def _counted(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"

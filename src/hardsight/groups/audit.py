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
`hardsight`, says how many tests were corrected for. The page of an audit is audit_page.py.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.parquet import read_parquet, table_notes
from hardsight.files.places import place
from hardsight.groups.comparing import NO_DIFFERENCE, TOO_FEW, Measures, Row, check_labeled, compare, corrected, direction
from hardsight.groups.grouping import LATENT, Grouping, group_name, groupings_of, left_out
from hardsight.groups.latent import find_latent
from hardsight.groups.outputs import checked_output, save_second
from hardsight.groups.settings import AuditSettings
from hardsight.options import takes
from hardsight.result import Result
from hardsight.scores import SCORES
from hardsight.screen import Cell, Progress, Sentence, ShownTable, beside, interval, line, number, percent, spoken, warn_in_python
from hardsight.snapshot import Snapshot
from hardsight.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.option_types import AuditOptions
    from hardsight.render.intervals import GroupPanel


HARDEST = 12  # ids kept of a group
FIRST = ("group", "n", "accuracy", "accuracy_low", "accuracy_high", "mean_avh", "by", "labeled")  # columns, before all others
MOST_DRAWN = 30  # groups in the figure
TRAINED_ON = "some of these samples were trained on (split is train), where a model is right more often than elsewhere"


class AuditedGroups(Result):
    """One row per group; `members` has each sample's groups, and `measures` what was compared of every sample."""

    counted, shown = "verdict", ("group", "n", "accuracy", "mean_avh", "verdict")

    def __init__(self, table: pa.Table, members: pa.Table, measures: Measures, settings: AuditSettings, notes: list[str]) -> None:
        super().__init__(table, notes, measures.samples.run)
        self.members, self.measures, self.settings = members, measures, settings

    def worst_first(self) -> list[Row]:
        """The groups that are worse than the rest, then other differences, none found, too few to say; least accurate first."""

        def key(row: Row) -> tuple[int, float]:
            last = {NO_DIFFERENCE: 2, TOO_FEW: 3}.get(row["verdict"], 1)
            return 0 if direction(row["verdict"]) == 1 else last, 2.0 if row["accuracy"] is None else row["accuracy"]

        return sorted(self.table.to_pylist(), key=key)

    @property
    def in_words(self) -> str:
        """How many groups there are, in one sentence."""
        n, few = len(self), self["verdict"].to_pylist().count(TOO_FEW)
        if n == 0:
            return "no latent groups: no cluster looks worse than the rest of its class, or the classes are too small to divide."
        if few == n:
            return f"{_counted(n, 'group')}, too small to test."
        tests = _counted(table_notes(self.table.schema)["tests"], "test")
        small = f", {few} of them too small to test" if few else ""
        return f"{_counted(n, 'group')}{small}. {tests}, with p values corrected by Holm's method."

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many groups by what, and the worst of them."""
        n, hardness = len(self.measures), self.measures.hardness
        yield line(f"n = {n}   hardness: {hardness}   {self.in_words}", samples=n, hardness=hardness)
        header = ("by", "group", "n", "accuracy", "difference", f"mean {hardness}", "overconfidence", "verdict")
        rows = [
            (row["by"], row["group"], number(row["n"]), accuracy(row), difference(row),
             number(row.get(f"mean_{hardness}"), ".4f"), _points(row.get("overconfidence")), row["verdict"])
            for row in self.worst_first()[: self.settings.top]
        ]  # fmt: skip
        if rows:
            yield ShownTable("groups", header, rows, words=2)

    def figures(self) -> dict[str, Figure]:
        """Accuracy, hardness and overconfidence of the worst groups, with intervals."""
        from hardsight.render.intervals import groups_with_intervals

        rows = self.worst_first()[:MOST_DRAWN]
        if not rows:
            return {}
        counts, directions = np.array([row["n"] for row in rows]), np.array([direction(row["verdict"]) for row in rows])
        return {"groups": groups_with_intervals([group_name(row) for row in rows], counts, self._panels(rows), directions)}

    def _panels(self, rows: list[Row]) -> list[GroupPanel]:
        """The measures of each group; of latent groups, their differences from the rest of the class."""
        measures, hardness = self.measures, self.measures.hardness
        overall_accuracy = float(np.nanmean(measures.correct))
        panels = [
            _panel(rows, "accuracy (%)", "accuracy", 100.0, overall_accuracy),
            _panel(rows, f"mean {spoken(hardness)}", hardness, 1.0, float(np.nanmean(measures.hard))),
        ]
        if measures.confidence is not None:
            overall = float(np.nanmean(measures.confidence)) - overall_accuracy
            panels.append(_panel(rows, "overconfidence (points)", "overconfidence", 100.0, overall))
        return panels

    def save(self, path: str | os.PathLike[str]) -> None:
        """As a `Result`; with a table also the groups of each sample: audit.samples.parquet next to audit.parquet."""
        super().save(path)
        save_second(self.members, path, "samples")

    def replaced(self, path: str | os.PathLike[str]) -> str | None:
        """The columns of an earlier audit in a file, if this one has others."""
        target = place(path)
        if not target.is_file() or target.suffix.lower() != ".parquet":
            return None
        before, now = (table_notes(schema).get("group") for schema in (read_parquet(target).schema, self.table.schema))
        return None if before is None or before == now else before if isinstance(before, str) else ", ".join(before)


@takes(AuditSettings)
def audit(
    x: Any = None, group: str | Sequence[str] | None = None, *, output: str | os.PathLike[str] | None = None,
    settings: AuditSettings | None = None, progress: Progress | None = None, **options: Unpack[AuditOptions],
) -> AuditedGroups:  # fmt: skip
    """Compare groups of samples: accuracy, hardness, norm and calibration with intervals, one row per group.

    Args:
        x: a run directory, a file, (n, d) features, a frame, a `Snapshot` or a table of scores; or nothing, and features, logits
            or probs by keyword.
        group: the column that holds the groups, or up to three, whose intersections are compared, too. Default: find latent
            groups in the features.
        output: .parquet, .csv or .json to write the groups to; each sample's groups are written next to it.
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
    settings = AuditSettings.given(settings, options, group=group)
    target = checked_target(output, x, settings)
    samples = Snapshot.open(x, by=settings.by, **settings.keywords())
    groups = _compared(samples, settings, progress)
    warn_in_python(groups.notes)
    groups.notes[:0] = samples.notes  # warned of when they were opened
    if target is not None:
        groups.save(target)
    return groups


def checked_target(output: str | os.PathLike[str] | None, x: Any, settings: AuditSettings) -> Path | None:
    """The file to write to, checked before anything slow."""
    return checked_output(output, "groups of an audit", "samples", (x, settings.head, settings.labels, settings.class_names))


def _compared(samples: Snapshot, settings: AuditSettings, progress: Progress | None) -> AuditedGroups:
    part = samples.selected(settings.split, settings.first, settings.limit)
    check_labeled(part)
    groupings = groupings_of(part, settings.group)  # what makes no groups is refused before anything is scored
    if not groupings and part.source.evidence != "features":
        there = ", ".join(name for name in part.column_names if name not in ("id", *SCORES))
        raise InputError(f"{part.where}: latent groups are found in features, and there are none: give --group ({there}).")
    measured = part if settings.split is None else samples  # a head is fitted to the samples of all splits
    measures = Measures.of(measured, settings.by, progress=progress).at(part)
    measures.check()
    if groupings:
        rows = _by_columns(groupings, measures, settings, progress)
    else:
        rows, groupings = _by_features(measures, settings)
    members = {grouping.by: grouping.words() for grouping in groupings}
    members_table = pa.table({"id": part.columns(["id"]).column(0), **members})
    notes = _notes(groupings, measures, settings)
    return AuditedGroups(_table(rows, measures, settings), members_table, measures, settings, notes)


def _by_columns(groupings: list[Grouping], measures: Measures, settings: AuditSettings, progress: Progress | None) -> list[Row]:
    rows: list[Row] = []
    total = sum(len(grouping.names) for grouping in groupings)
    for grouping in groupings:
        grouped = grouping.codes >= 0
        for group, name in enumerate(grouping.names):
            mine = grouping.codes == group
            row = compare(measures, mine, grouped & ~mine, least=settings.least, level=settings.level)
            rows.append({"by": grouping.by, "group": name, **row, "hardest": _hardest(measures, np.flatnonzero(mine))})
            if progress is not None:
                progress(len(rows), total)
    return rows


def _by_features(measures: Measures, settings: AuditSettings) -> tuple[list[Row], list[Grouping]]:
    groups = find_latent(measures, settings)
    # Worst first, and numbered within the class: "cat 1" is the worst cluster of cats.
    groups.sort(key=lambda group: group.row["accuracy"] if group.row["accuracy"] is not None else 2.0)
    codes, names, rows = np.full(len(measures), -1), list[str](), list[Row]()
    for place_of_group, group in enumerate(groups):
        number_in_class = sum(other.label == group.label for other in groups[: place_of_group + 1])
        names.append(f"{measures.class_name(group.label)}, cluster {number_in_class}")
        codes[group.members] = place_of_group
        more = {"hardest": _hardest(measures, group.members), "members": len(group.members)}
        rows.append({"by": LATENT, "group": names[-1], **group.row, **more})
    return rows, [Grouping(LATENT, names, codes)]


def _hardest(measures: Measures, rows: np.ndarray) -> str:
    """Ids of the hardest among some rows."""
    return ", ".join(str(id) for id in measures.ids[hardest_rows(measures, rows, HARDEST)])


def hardest_rows(measures: Measures, rows: np.ndarray, most: int) -> np.ndarray:
    """The hardest among some rows, those with a value of the score."""
    values = measures.harder[rows]
    order = np.argsort(-values, kind="stable")
    return rows[order[: min(most, int(np.isfinite(values).sum()))]]


def _table(rows: list[Row], measures: Measures, settings: AuditSettings) -> pa.Table:
    """The rows as Arrow: NaN becomes null, and mean_avh is there even where only the loss is known."""
    rows, tests = corrected(rows, measures.hardness, settings.level)
    notes = {
        "version": VERSION,
        "hardness": measures.hardness,
        "samples": len(measures),
        "group": list(settings.group) or LATENT,
        "level": settings.level,
        "least": settings.least,
        "tests": tests,
        "correction": "Holm, over all tests of the table",
        "split": settings.split,
    }
    last = ("hardest", "verdict")
    measured = [name for name in (rows[0] if rows else ()) if name not in (*FIRST, *last)]
    kinds = {name: pa.float64() for name in (*FIRST, *measured, *last)}
    kinds |= dict.fromkeys(("by", "group", *last), pa.string())
    kinds |= dict.fromkeys([name for name in ("n", "labeled", "members") if name in kinds], pa.int64())
    schema = pa.schema(list(kinds.items()), metadata={"hardsight": json.dumps(notes)})
    return pa.Table.from_pylist(rows, schema)


def _notes(groupings: list[Grouping], measures: Measures, settings: AuditSettings) -> list[str]:
    """What a person should know: samples in no group, samples that were trained on, copies."""
    sentences = list(left_out(groupings)) if settings.group else []
    splits = set() if settings.split is not None or measures.samples.splits is None else set(measures.samples.splits)
    if "train" in splits:
        others = sorted(splits - {"train", None}, key=lambda split: (split != "test", split))
        sentences.append(f"{TRAINED_ON}: try --split {others[0]}." if others else f"{TRAINED_ON}.")
    return [*sentences, *measures.notes]


def _panel(rows: list[Row], title: str, measure: str, factor: float, overall: float) -> GroupPanel:
    from hardsight.render.intervals import GroupPanel

    names = [measure if measure in rows[0] else f"mean_{measure}", f"{measure}_low", f"{measure}_high"]
    if rows[0]["by"] == LATENT:
        title, overall = f"{title.split(' (')[0]}, difference" + (" (points)" if factor > 1 else ""), 0.0
        names = [f"{measure}_difference{end}" for end in ("", "_low", "_high")]
    value, low, high = (factor * np.array([math.nan if row[name] is None else row[name] for row in rows]) for name in names)
    return GroupPanel(title, value, low, high, factor * overall)


def accuracy(row: Row) -> Cell:
    """The accuracy of a group in percent, with its interval."""
    if row["accuracy"] is None:
        return number(None)
    return beside(percent(row["accuracy"], digits=1), interval(row["accuracy_low"], row["accuracy_high"], 1, 100, ""))


def difference(row: Row) -> Cell:
    """Its difference from the rest in points, with its interval."""
    points = row["accuracy_difference"]
    if points is None:
        return number(None)
    ends = interval(row["accuracy_difference_low"], row["accuracy_difference_high"], 1, factor=100)
    return beside(Cell(f"{100 * points:+.1f}", points), ends)


def _points(share: float | None) -> Cell:
    return number(None) if share is None else Cell(f"{100 * share:+z.1f}", share)  # z: no -0.0


def _counted(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"

"""What other commands found, as columns: the suspects of `clean`; a subset, groups, a drift, odd images, what people would say.

    suspects id, verdict, ...       hardsight clean                  the page then opens with the samples most likely wrong
    subset   id, reason             hardsight select                 columns subset, subset_reason
    audit    id, and its groups     hardsight audit                  a column per grouping
    drift    id, harder, change     hardsight drift                  columns drift, drift_change, drift_outcome
    quality  id, issues             hardsight check                  column image_quality
    people   id, predicted_frequency, low, high, source              hardsight people: columns of these names

Each is a named file, or the one that the command writes into the run or next to a file. Rows are joined by id.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_unique
from hardsight.errors import FileError, InputError
from hardsight.explorer.columns import codes, floats, from_arrow, integers, numbers, rows_of
from hardsight.explorer.display import Display
from hardsight.explorer.settings import ReportSettings
from hardsight.files.parquet import table_notes
from hardsight.files.places import missing, second_table, table_path
from hardsight.files.suspects import DUPLICATE, DUPLICATE_OF, VERDICTS, count_in_words, noted_warnings, read_suspects
from hardsight.scores import SCORES
from hardsight.table import read_scores

ABOUT = {  # column -> its hard end, and what it is
    "error_score": ("high", "How likely the given class is wrong: higher is more likely."),
    "suggested_probability": ("high", "The probability of the suggested class."),
    "label_quality": ("low", "How well the given class fits, 0 to 1."),
}


@dataclass(frozen=True)
class SuspectsSummary:
    """What the page says about the suspects, besides their columns."""

    counts: dict[str, int]  # verdict -> samples
    explanations: Any  # (n,) strings, null for none
    duplicates: np.ndarray  # (n,) bool: whether the sample duplicates another, whatever its verdict
    duplicate_of: Any  # (n,) ids of the samples that they duplicate, null for none
    expected: str = ""  # how many labels are wrong, in words
    warnings: list[str] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        """For JSON. Each group is a name, its samples, and the column and value that select it."""
        groups = [[verdict, count, "verdict", verdict] for verdict, count in self.counts.items() if verdict != DUPLICATE]
        count = int(self.duplicates.sum())
        groups += [["duplicates", count, "is_duplicate", "true"]] if count else []
        return {"groups": groups, "expected": self.expected, "warnings": self.warnings}


def found_suspects(display: Display) -> pa.Table | None:
    """The table that hardsight clean wrote for the run or file, or that is shown; None if there is none."""
    return display.clean_table if display.path is None else read_suspects(display.path)


def add_suspects(display: Display, split: str | None = None) -> None:
    """Add the columns of the run's suspects, if `hardsight clean` has written any.

    Suspects may be of other samples than a `split`, which is shown as of the last epoch; they are then left out.
    """
    table = found_suspects(display)
    if table is None:
        return
    table = display.aligned(table)
    unseen = table.column("id").null_count
    if unseen == len(display):
        if split is not None:
            return
        where = display.where if display.path is None else table_path(display.path, "suspects")
        raise InputError(f"{where}: none of its ids is among the samples; run hardsight clean again, or remove the file.")
    for name, (hard, about) in ABOUT.items():
        display.add(numbers(name, floats(table.column(name)), about, hard))
    verdicts = rows_of(table.column("verdict"), pa.array(VERDICTS))
    occurring = np.bincount(verdicts[verdicts >= 0], minlength=len(VERDICTS)).tolist()
    counts = {verdict: count for verdict, count in zip(VERDICTS, occurring, strict=True) if count}
    # with the verdicts that do not occur: each keeps its color
    display.add(codes("verdict", verdicts, list(VERDICTS), "What hardsight clean says of the sample."))
    suggested = integers(table.column("suggested_label"))
    suggested = np.where(suggested < len(display.class_names), suggested, -1)
    display.add(codes("suggested_label", suggested, display.class_names, "The class that hardsight clean suggests."))
    issue = integers(table.column("is_label_issue"))
    display.add(codes("is_label_issue", issue, ["false", "true"], "Whether the label is flagged: more likely wrong than right."))
    has_originals = DUPLICATE_OF in table.column_names
    originals = table.column(DUPLICATE_OF).combine_chunks() if has_originals else pa.nulls(len(display), pa.string())
    repeated = integers(originals.is_valid()) == 1
    if repeated.any():
        about = "Whether the sample is nearly the same as an earlier one, whatever its verdict."
        display.add(codes("is_duplicate", repeated * 1, ["false", "true"], about))
    notes, explanations = table_notes(table.schema), table.column("explanation").combine_chunks()
    display.suspects = SuspectsSummary(counts, explanations, repeated, originals, count_in_words(notes), noted_warnings(notes))
    _note(display, unseen, integers(table.column("given_label")))


def _note(display: Display, unseen: int, given: np.ndarray) -> None:
    """Note samples that were not looked at, and labels that have changed since."""
    if unseen:
        display.notes.append(f"{unseen} of {len(display)} samples were not looked at by hardsight clean.")
    changed = int(((given >= 0) & (given != display.labels)).sum()) if "label" in display.columns else 0
    if changed:
        display.notes.append(f"{changed} labels are not those that the suspects were found with; run hardsight clean again.")


# Columns to filter by

PREDICTED = "predicted_frequency"  # by people
CHOSEN = ["in the subset", "not in it"]
HARDER = ["harder", "easier", "no change"]
MOST_REASONS = 20  # listed; more are reasons of single samples, with a rank or a score in each


def add_quick_filters(display: Display, settings: ReportSettings) -> None:
    """Add the columns of the subset, the audit and the drift that are named, or that are in the run or next to the file."""
    for name, add in READERS.items():
        named = getattr(settings, name, None)
        if named is not None:
            if not named.is_file():
                raise FileError(missing(named))
            add(display, named)
        elif display.path is not None and settings.split is None:  # that of a run may be of other samples than the split's
            file = table_path(display.path, name)
            if file.is_file():
                add(display, file)


def _joined(display: Display, file: Path, needed: tuple[str, ...], command: str) -> pa.Table:
    """The rows of a file in the order of the display, null where it does not have a sample."""
    table = read_scores(file)
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise FileError(f"{file}: not what hardsight {command} writes: there is no column {missing[0]}.")
    ids = table.column("id").cast(pa.string()).combine_chunks()
    check_unique(ids, str(file))
    aligned = display.aligned(table)
    if aligned.column("id").null_count == len(display):
        first, other = display.ids[0].as_py(), ids[0].as_py() if len(ids) else None
        example = f"it has {other!r:.60}, {display.name} has {first!r:.60}"
        raise InputError(f"{file}: none of its ids is among the samples ({example}).")
    return aligned


def _add_subset(display: Display, file: Path) -> None:
    table = _joined(display, file, ("id",), "select")
    chosen = integers(table.column("id").is_valid().combine_chunks())
    display.add_filter(codes("subset", 1 - chosen, CHOSEN, f"Whether {file.name} holds the sample."))
    reason = from_arrow("subset_reason", table.column("reason")) if "reason" in table.column_names else None
    if reason is not None and reason.names is not None:
        listed = 1 < len(reason.names) <= MOST_REASONS
        add = display.add_filter if listed else display.add
        add(replace(reason, about="Why the sample is in the subset."))


def _add_audit(display: Display, file: Path) -> None:
    groups = read_scores(file)
    if not {"by", "group", "verdict"} <= set(groups.column_names):
        raise FileError(f"{file}: not what hardsight audit writes: it needs the columns by, group and verdict.")
    members = second_table(file, "samples")
    if not members.is_file():
        raise FileError(f"{file}: {members.name} with the samples of each group is missing beside it; run hardsight audit again.")
    table = _joined(display, members, ("id",), "audit")
    verdicts: dict[str, dict[str, str]] = {}
    for row in groups.select(["by", "group", "verdict"]).to_pylist():
        verdicts.setdefault(row["by"], {})[row["group"]] = row["verdict"]
    for by, notes in verdicts.items():
        if by not in table.column_names:
            raise FileError(f"{members}: there is no column {by!r}, which {file.name} refers to; run hardsight audit again.")
        about = "A cluster of features that looked worse than its class." if by == "latent" else f"Groups by {by}."
        place = rows_of(table.column(by).cast(pa.string()), pa.array(list(notes), pa.string()))
        display.add_filter(codes(_free_name(display, by, notes), place, list(notes), about), notes)


def _add_quality(display: Display, file: Path) -> None:
    table = _joined(display, file, ("id", "issues"), "check")
    first = [(words or "").partition(", ")[0] for words in table.column("issues").to_pylist()]
    names = sorted({name for name in first if name})
    if names:
        code = np.array([names.index(name) if name else -1 for name in first])
        display.add_filter(codes("image_quality", code, names, "What is odd about the image itself."))


def _free_name(display: Display, by: str, notes: dict[str, str]) -> str:
    """The name of the grouping, unless the page needs the column of that name: numbers that were cut, classes, right or wrong."""
    cut = any(" to " in group for group in notes) and by in display.columns and display.columns[by].names is None
    return f"{by} groups" if cut or by in SCORES or by in ("label", "predicted", "correct", "split") else by


def _add_drift(display: Display, file: Path) -> None:
    table = _joined(display, file, ("id", "harder", "change"), "drift")
    change = floats(table.column("change"))
    harder = integers(table.column("harder").cast(pa.bool_()))  # 1, 0, or -1 for not known
    outcome = table.column("outcome") if "outcome" in table.column_names else pa.nulls(len(display), pa.string())
    easier = (change < 0) | np.array([words == "wrong, then right" for words in outcome.to_pylist()])
    code = np.where(harder < 0, -1, np.where(harder == 1, 0, np.where(easier, 1, 2)))
    display.add_filter(codes("drift", code, HARDER, f"Whether the sample got harder, by {file.name}."))
    display.add(numbers("drift_change", change, "How much harder the sample got; positive is harder."))
    turned = from_arrow("drift_outcome", outcome)
    if turned is not None:
        display.add_filter(replace(turned, about="Whether the prediction was right, before and after."))


def _add_people(display: Display, file: Path) -> None:
    """What people would say, with its interval, and whether they were asked."""
    table = _joined(display, file, ("id", "predicted_frequency", "low", "high", "source"), "people")
    about = "How often people would choose the given class, predicted from answers about some samples"
    for name, column, which in (("", "predicted_frequency", ""), ("_low", "low", ": low end"), ("_high", "high", ": high end")):
        display.add(numbers(PREDICTED + name, floats(table.column(column)), f"{about}{which}.", "low"))
    source = from_arrow("people_source", table.column("source"))
    if source is not None:
        display.add_filter(replace(source, about="Whether people answered about the sample, or their answer is predicted."))


READERS = {
    "subset": _add_subset,
    "audit": _add_audit,
    "drift": _add_drift,
    "quality": _add_quality,
    "people": _add_people,
}

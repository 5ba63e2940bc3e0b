"""What `hardsight clean` found, as columns of the display: the page then opens with the samples most likely wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.explorer.columns import codes, floats, integers, numbers
from hardsight.explorer.display import Display
from hardsight.files.suspects import (
    DUPLICATE,
    DUPLICATE_OF,
    VERDICTS,
    count_in_words,
    noted_warnings,
    read_suspects,
    suspects_file,
    suspects_notes,
)

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
        where = display.where if display.path is None else suspects_file(display.path)
        raise InputError(f"{where}: none of its ids is among the samples; run hardsight clean again, or remove the file.")
    for name, (hard, about) in ABOUT.items():
        display.add(numbers(name, floats(table.column(name)), about, hard))
    counts = _counts(table)
    verdicts = integers(pc.index_in(table.column("verdict"), value_set=pa.array(VERDICTS)))
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
    notes, explanations = suspects_notes(table), table.column("explanation").combine_chunks()
    display.suspects = SuspectsSummary(counts, explanations, repeated, originals, count_in_words(notes), noted_warnings(notes))
    _note(display, unseen, integers(table.column("given_label")))


def _counts(suspects: pa.Table) -> dict[str, int]:
    """Verdict -> number of samples, for those that occur."""
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(suspects.column("verdict")).to_pylist()}
    return {verdict: counts[verdict] for verdict in VERDICTS if verdict in counts}


def _note(display: Display, unseen: int, given: np.ndarray) -> None:
    """Note samples that were not looked at, and labels that have changed since."""
    if unseen:
        display.notes.append(f"{unseen} of {len(display)} samples were not looked at by hardsight clean.")
    changed = int(((given >= 0) & (given != display.labels)).sum()) if "label" in display.columns else 0
    if changed:
        display.notes.append(f"{changed} labels are not those that the suspects were found with; run hardsight clean again.")

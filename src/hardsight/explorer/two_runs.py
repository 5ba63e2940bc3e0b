"""Two runs on the same ids: the columns of both, and what changed.

A change is a difference of values where both runs are on one scale, else of ranks: `scoring/comparable.py` decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.errors import InputError
from hardsight.explorer.adapt_rounds import ABOUT
from hardsight.explorer.columns import Column, codes, numbers, replaced, rows_of, signed
from hardsight.explorer.sheet import Sheet
from hardsight.files.heads import load_head
from hardsight.head import Head
from hardsight.scores import SCORES
from hardsight.scoring.comparable import hardness_ranks, of_probabilities, why_two_scales

SECOND, CHANGE, RANK_CHANGE = " (2)", " change", " rank change"


@dataclass(frozen=True)
class ScoreChanges:
    """Which column holds the change of each score, and why some are changes of ranks."""

    second: str  # the name of the second run
    changes: dict[str, str]  # score -> column
    why_ranks: str | None  # None if every score is on one scale


def compare(first: Sheet, second: Sheet) -> ScoreChanges:
    """Add to the first sheet, for the ids that both have, the second's scores, and each score's change.

    A change is the second minus the first, of values or of ranks; `hard` is the end that got harder.
    """
    if first.name == second.name:  # as before/extract and after/extract
        first.name, second.name = ("/".join(sheet.path.resolve().parts[-2:]) for sheet in (first, second))
    rows = _rows(first, second)
    why_ranks = why_two_scales(_head(first), _head(second), (first.name, second.name))
    changes: dict[str, str] = {}
    for name, column in list(first.columns.items()):
        other = second.columns.get(name)
        if other is None or name == "label":
            continue
        if column.names is None and other.names is None:
            after = replaced(
                numbers(name + SECOND, np.where(rows >= 0, other.values[rows], np.float32(np.nan))),
                hard=column.hard,
                about=f"{name} in {second.name}. {column.about}".strip(),
                unit=column.unit,
            )
            one_scale = why_ranks is None or _on_one_scale(name, len(first.class_names) == len(second.class_names))
            change = _change(name, column, after) if one_scale else _rank_change(name, column, after)
            first.add(after)
            first.add(change)
            changes[name] = change.name
        elif name in ("predicted", "correct") and column.names is not None and other.names is not None:
            code = np.where(rows >= 0, signed(other)[rows], -1)
            first.add(codes(name + SECOND, code, other.names, f"{name} in {second.name}."))
    _add_outcome(first)
    return ScoreChanges(second.name, changes, why_ranks)


def _rows(first: Sheet, second: Sheet) -> np.ndarray:
    """(n,) the row of each sample of the first in the second, -1 for none."""
    rows = rows_of(first.ids, second.ids)
    shared = int((rows >= 0).sum())
    if shared == 0:
        raise InputError(f"{first.path} and {second.path} share no id; two runs are compared on the same samples.")
    if shared < len(first):
        first.notes.append(f"{len(first) - shared} of {len(first)} samples are not in {second.name}.")
    if shared < len(second):
        first.notes.append(f"{len(second) - shared} samples of {second.name} are not in {first.name} and are not shown.")
    return rows


def _add_outcome(sheet: Sheet) -> None:
    if not {"correct", "correct" + SECOND} <= sheet.columns.keys():
        return
    before, after = signed(sheet.columns["correct"]), signed(sheet.columns["correct" + SECOND])
    outcome = np.where((before < 0) | (after < 0), -1, 2 * before + after)
    names = ["right in both", "right, then wrong", "wrong, then right", "wrong in both"]
    sheet.add(codes("outcome", outcome, names, "Whether the prediction is right, in the first and in the second run."))


# Scales


def _head(sheet: Sheet) -> Head | None:
    if sheet.snapshot is not None:
        return sheet.snapshot.head
    file = sheet.path / "head.safetensors"
    return load_head(file)[0] if file.is_file() else None


def _on_one_scale(name: str, same_classes: bool) -> bool:
    """Whether values of two heads are comparable: probabilities over equally many classes, and columns that no head made."""
    if name not in SCORES:
        return name not in ABOUT
    return same_classes and of_probabilities(name)


def _change(name: str, before: Column, after: Column) -> Column:
    change = numbers(name + CHANGE, after.values - before.values)
    return replaced(change, hard=before.hard, about=f"{name}: second minus first.", unit=before.unit)


def _rank_change(name: str, before: Column, after: Column) -> Column:
    both = np.isfinite(before.values) & np.isfinite(after.values)
    change = np.full(len(both), np.nan)
    change[both] = hardness_ranks(after.values[both], before.hard) - hardness_ranks(before.values[both], before.hard)
    about = f"{name}: the share of the samples that are easier, second minus first. Positive: harder than more of them."
    return replaced(numbers(name + RANK_CHANGE, change), hard="high", about=about)

"""Two runs on the same ids: the columns of both, and what changed.

A change is a difference of values where both runs are on one scale, else of ranks: `scoring/comparable.py` decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardsight.errors import InputError
from hardsight.explorer.adapt_rounds import ABOUT
from hardsight.explorer.columns import Column, codes, numbers, rows_of, signed
from hardsight.explorer.display import Display
from hardsight.files.heads import load_head
from hardsight.head import Head
from hardsight.scores import SCORES
from hardsight.scoring.comparable import of_probabilities, why_two_scales

SECOND, CHANGE, RANK_CHANGE = " (2)", " change", " rank change"


@dataclass(frozen=True)
class ScoreChanges:
    """Which column holds the change of each score, and why some are changes of ranks."""

    second: str  # the name of the second run
    changes: dict[str, str]  # score -> column
    why_ranks: str | None  # None if every score is on one scale


def compare(first: Display, second: Display) -> ScoreChanges:
    """Add to the first display, for the ids that both have, the second's scores, and each score's change.

    A change is the second minus the first, of values or of ranks; `hard` is the end that got harder.
    """
    if first.name == second.name:  # as before/extract and after/extract
        for run in (first, second):
            run.name = run.name if run.path is None else "/".join(run.path.resolve().parts[-2:])
    rows = _rows(first, second)
    why_ranks = why_two_scales(_head(first), _head(second), (first.name, second.name))
    changes: dict[str, str] = {}
    for name, column in list(first.columns.items()):
        other = second.columns.get(name)
        if other is None or name == "label":
            continue
        if column.names is None and other.names is None:
            values = np.where(rows >= 0, other.values[rows], np.float32(np.nan))
            about = f"{name} in {second.name}. {column.about}".strip()
            after = numbers(name + SECOND, values, about, column.hard, column.unit)
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


def _rows(first: Display, second: Display) -> np.ndarray:
    """(n,) the row of each sample of the first in the second, -1 for none."""
    rows = rows_of(first.ids, second.ids)
    shared = int((rows >= 0).sum())
    if shared == 0:
        raise InputError(f"{first.where} and {second.where} share no id; two runs are compared on the same samples.")
    if shared < len(first):
        first.notes.append(f"{len(first) - shared} of {len(first)} samples are not in {second.name}.")
    if shared < len(second):
        first.notes.append(f"{len(second) - shared} samples of {second.name} are not in {first.name} and are not shown.")
    return rows


def _add_outcome(display: Display) -> None:
    if not {"correct", "correct" + SECOND} <= display.columns.keys():
        return
    before, after = signed(display.columns["correct"]), signed(display.columns["correct" + SECOND])
    outcome = np.where((before < 0) | (after < 0), -1, 2 * before + after)
    names = ["right in both", "right, then wrong", "wrong, then right", "wrong in both"]
    display.add(codes("outcome", outcome, names, "Whether the prediction is right, in the first and in the second run."))


# Scales


def _head(display: Display) -> Head | None:
    if display.snapshot is not None:
        return display.snapshot.head
    file = None if display.directory is None else display.directory / "head.safetensors"
    return load_head(file)[0] if file is not None and file.is_file() else None


def _on_one_scale(name: str, same_classes: bool) -> bool:
    """Whether values of two heads are comparable: probabilities over equally many classes, and columns that no head made."""
    if name not in SCORES:
        return name not in ABOUT
    return same_classes and of_probabilities(name)


def _change(name: str, before: Column, after: Column) -> Column:
    about = f"{name}: second minus first."
    return numbers(name + CHANGE, after.values - before.values, about, before.hard, before.unit)


def _rank_change(name: str, before: Column, after: Column) -> Column:
    from hardsight.groups.changes import rank_change  # with SciPy: slow to import

    about = f"{name}: the share of the samples that are easier, second minus first. Positive: harder than more of them."
    return numbers(name + RANK_CHANGE, rank_change(before.values, after.values, before.hard), about)

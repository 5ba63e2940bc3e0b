"""Two runs on the same ids: the second run's columns beside the first's, and what changed."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.explorer.columns import codes, numbers, replaced, signed
from hardsight.explorer.opening import Sheet

SECOND, CHANGE = " (2)", " change"


def compare(first: Sheet, second: Sheet) -> None:
    """Add to the first sheet, for the ids that both have, the second's scores, and each score's change.

    A change is the second minus the first; `hard` says which end of it got harder.
    """
    rows = pc.index_in(first.ids, value_set=second.ids)
    at = pc.fill_null(rows, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    shared = int((at >= 0).sum())
    if shared == 0:
        raise InputError(f"{first.path} and {second.path} share no id; two runs are compared on the same samples.")
    if shared < len(first):
        first.notes.append(f"{len(first) - shared} of {len(first)} samples are not in {second.name}.")
    if shared < len(second):
        first.notes.append(f"{len(second) - shared} samples of {second.name} are not in {first.name} and are not shown.")
    for name, column in list(first.columns.items()):
        other = second.columns.get(name)
        if other is None or name == "label":
            continue
        if column.names is None and other.names is None:
            there = np.where(at >= 0, other.values[at], np.float32(np.nan))
            about = f"{name} in {second.name}. {column.about}".strip()
            first.add(replaced(numbers(name + SECOND, there), hard=column.hard, about=about))
            change = replaced(
                numbers(name + CHANGE, there - column.values), hard=column.hard, about=f"{name}: second minus first."
            )
            first.add(change)
        elif name in ("predicted", "correct") and column.names is not None and other.names is not None:
            code = np.where(at >= 0, signed(other)[at], -1)
            first.add(codes(name + SECOND, code, other.names, f"{name} in {second.name}."))
    if {"correct", "correct" + SECOND} <= first.columns.keys():
        before, after = signed(first.columns["correct"]), signed(first.columns["correct" + SECOND])
        outcome = np.where((before < 0) | (after < 0), -1, 2 * before + after)
        names = ["right in both", "right, then wrong", "wrong, then right", "wrong in both"]
        first.add(codes("outcome", outcome, names, "Whether the prediction is right, in the first and in the second run."))

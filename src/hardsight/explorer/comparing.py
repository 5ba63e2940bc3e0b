"""Two runs on the same ids: the second run's columns beside the first's, and what changed.

A change is a difference of values only where both runs measure on one scale: with the same head, or in probabilities of as
many classes. Angles, norms and logits of two heads are not on one scale (an AVH of 0.09 may be easy for one head and hard for
another), so there the change is one of ranks: where the sample stands among the same samples, within its own run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.explorer.columns import Column, codes, numbers, replaced, signed
from hardsight.explorer.opening import Sheet
from hardsight.explorer.rounds import ABOUT
from hardsight.files.heads import load_head
from hardsight.head import Head
from hardsight.scores import SCORES
from hardsight.scores.terms import INPUT, SOFTMAX, TOP

SECOND, CHANGE, RANK_CHANGE = " (2)", " change", " rank change"


@dataclass(frozen=True)
class Comparison:
    """Which column holds the change of each score, and why some are changes of ranks."""

    second: str  # the name of the second run
    changes: dict[str, str]  # score -> column
    why_ranks: str | None  # None where every score is on one scale

    def described(self) -> dict[str, Any]:
        """For JSON."""
        return {"second": self.second, "changes": self.changes, "why_ranks": self.why_ranks}


def compare(first: Sheet, second: Sheet) -> Comparison:
    """Add to the first sheet, for the ids that both have, the second's scores, and each score's change.

    A change is the second minus the first, of values or of ranks; `hard` says which end of it got harder.
    """
    if first.name == second.name:  # as before/extract and after/extract
        first.name, second.name = ("/".join(sheet.path.resolve().parts[-2:]) for sheet in (first, second))
    at = _rows(first, second)
    why_ranks = _different_heads(first, second)
    changes: dict[str, str] = {}
    for name, column in list(first.columns.items()):
        other = second.columns.get(name)
        if other is None or name == "label":
            continue
        if column.names is None and other.names is None:
            there = replaced(
                numbers(name + SECOND, np.where(at >= 0, other.values[at], np.float32(np.nan))),
                hard=column.hard,
                about=f"{name} in {second.name}. {column.about}".strip(),
            )
            one_scale = why_ranks is None or _on_one_scale(name, len(first.class_names) == len(second.class_names))
            change = _change(name, column, there) if one_scale else _rank_change(name, column, there)
            first.add(there)
            first.add(change)
            changes[name] = change.name
        elif name in ("predicted", "correct") and column.names is not None and other.names is not None:
            code = np.where(at >= 0, signed(other)[at], -1)
            first.add(codes(name + SECOND, code, other.names, f"{name} in {second.name}."))
    _add_outcome(first)
    return Comparison(second.name, changes, why_ranks)


def _rows(first: Sheet, second: Sheet) -> np.ndarray:
    """(n,) where each sample of the first stands in the second, -1 for nowhere."""
    rows = pc.index_in(first.ids, value_set=second.ids)
    at = pc.fill_null(rows, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    shared = int((at >= 0).sum())
    if shared == 0:
        raise InputError(f"{first.path} and {second.path} share no id; two runs are compared on the same samples.")
    if shared < len(first):
        first.notes.append(f"{len(first) - shared} of {len(first)} samples are not in {second.name}.")
    if shared < len(second):
        first.notes.append(f"{len(second) - shared} samples of {second.name} are not in {first.name} and are not shown.")
    return at


def _add_outcome(sheet: Sheet) -> None:
    if not {"correct", "correct" + SECOND} <= sheet.columns.keys():
        return
    before, after = signed(sheet.columns["correct"]), signed(sheet.columns["correct" + SECOND])
    outcome = np.where((before < 0) | (after < 0), -1, 2 * before + after)
    names = ["right in both", "right, then wrong", "wrong, then right", "wrong in both"]
    sheet.add(codes("outcome", outcome, names, "Whether the prediction is right, in the first and in the second run."))


# Scales


def _different_heads(first: Sheet, second: Sheet) -> str | None:
    """Why values of the two runs are not on one scale; None where the same head made both."""
    one, two = _head(first), _head(second)
    if one is None or two is None:
        return f"{first.name if one is None else second.name} does not hold the head that its scores are from"
    if one.kind != two.kind:
        return f"one head is {one.kind}, the other {two.kind}"
    if one.weight.shape != two.weight.shape:
        return (
            f"one head has {one.num_classes} classes and {one.num_features} features, "
            f"the other {two.num_classes} and {two.num_features}"
        )
    same = all(
        _equal(getattr(one, part), getattr(two, part)) for part in ("weight", "bias", "scale", "log_variance", "log_prior")
    )
    return None if same else "the two heads differ in their weights"


def _head(sheet: Sheet) -> Head | None:
    if sheet.snapshot is not None:
        return sheet.snapshot.head
    file = sheet.path / "head.safetensors"
    return load_head(file)[0] if file.is_file() else None


def _equal(one: Any, two: Any) -> bool:
    if one is None or two is None:
        return one is two
    return bool(np.array_equal(to_numpy(one), to_numpy(two)))


def _on_one_scale(name: str, same_classes: bool) -> bool:
    """Whether two heads give a column in the same unit: probabilities of as many classes do, and so does what no head made."""
    if name not in SCORES:
        return name not in ABOUT
    return same_classes and _of_probabilities(name)


def _of_probabilities(name: str) -> bool:
    """Whether a score is made of probabilities, or of being right or wrong over the epochs."""
    score = SCORES[name]
    if score.scope == "dynamics":
        return all(part == "correct" or _of_probabilities(part) for part in score.columns)
    if score.scope == "models":
        return True
    return score.scope == "row" and bool(score.terms & {SOFTMAX, TOP}) and INPUT not in score.terms and not score.needs_logits


def _change(name: str, before: Column, after: Column) -> Column:
    change = numbers(name + CHANGE, after.values - before.values)
    return replaced(change, hard=before.hard, about=f"{name}: second minus first.")


def _rank_change(name: str, before: Column, after: Column) -> Column:
    both = np.isfinite(before.values) & np.isfinite(after.values)
    change = np.full(len(both), np.nan)
    change[both] = hardness_ranks(after.values[both], before.hard) - hardness_ranks(before.values[both], before.hard)
    about = f"{name}: the share of the samples that are easier, second minus first. Positive: harder than more of them."
    return replaced(numbers(name + RANK_CHANGE, change), hard="high", about=about)


def hardness_ranks(values: np.ndarray, hard: str) -> np.ndarray:
    """(n,) the share of the samples that are easier than each, equal ones counted half.

    Example:
        >>> hardness_ranks(np.array([0.1, 0.4, 0.2, 0.2]), "high")
        array([0.125, 0.875, 0.5  , 0.5  ])
    """
    order = np.argsort(values if hard == "high" else -values)
    ordered = values[order]
    start = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(values)])  # of each run of equal values
    size = np.diff(start, append=len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((start + size / 2) / max(1, len(values)), size)
    return ranks

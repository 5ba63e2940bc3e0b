"""What every verb asks of its samples: where they are from, the rows of one split, and ids that are unique."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import InputError, did_you_mean
from hardsight.snapshot import Snapshot


def path_of(snapshot: Snapshot) -> Path | None:
    """The run or file on this machine that a snapshot was loaded from; None for arrays."""
    path = (snapshot.loaded_from or {}).get("path")
    return path if isinstance(path, Path) else None


def rows_of_split(splits: Sequence[Any] | None, split: str, where: str) -> np.ndarray:
    """The rows of one split, at least one; `where` names the samples in the error.

    Example:
        >>> rows_of_split(["train", "test", None, "train"], "train", "run")
        array([0, 3])
    """
    rows = np.flatnonzero(np.array([name == split for name in splits or ()], bool))
    if len(rows) == 0:
        present = sorted({str(name) for name in splits or () if name is not None})
        there = ", ".join(present) or "none"
        raise InputError(f"{where}: there is no split {split!r}; splits: {there}.{did_you_mean(split, present)}")
    return rows


def check_unique_ids(ids: Sequence[Any], where: str) -> None:
    """Refuse ids of which one appears twice, naming it and its rows."""
    if len(set(ids)) == len(ids):
        return
    first_row: dict[Any, int] = {}
    for row, name in enumerate(ids):
        if first_row.setdefault(name, row) != row:
            raise InputError(f"{where}: ids must be unique, but {name!r:.80} is at rows {first_row[name]} and {row}.")

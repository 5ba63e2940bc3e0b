"""Ids are unique: the one check of it, for ids in memory and for those that pass by in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import arrow_numbers
from hardsight.errors import InputError

ADVICE = "Fix them; hardsight score --allow-duplicates keeps both rows."


class SeenIds:
    """Finds repeated ids with eight bytes per id: if hashes are equal, the ids themselves are compared before one is reported."""

    def __init__(self) -> None:
        self.hashes: list[np.ndarray] = []

    def add(self, ids: Any) -> None:
        """Add the ids of the next rows."""
        values = ids.tolist()
        self.hashes.append(np.fromiter(map(hash, values), np.int64, len(values)))

    def refuse_repeated(self, read: Callable[[], np.ndarray], where: str, first_row: int = 0, advice: str = ADVICE) -> None:
        """Raise an InputError that names a repeated id and its rows; `read` gives all ids again, if some hashes are equal."""
        hashes = np.concatenate(self.hashes) if self.hashes else np.empty(0, np.int64)
        ordered = np.sort(hashes)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(twice):
            return
        suspects = np.flatnonzero(np.isin(hashes, twice))
        first_seen: dict[Any, int] = {}
        pairs = zip(suspects.tolist(), read()[suspects].tolist(), strict=True)
        repeated = [(row, id) for row, id in pairs if first_seen.setdefault(id, row) != row]
        if repeated:
            row, id = repeated[0]
            raise InputError(
                f"{where}: ids must be unique, but {len(repeated)} are repeated; row {first_row + row} repeats {id!r:.80} of row "
                f"{first_row + first_seen[id]}. {advice}"
            )


def id_array(column: Any) -> np.ndarray:
    """(n,) ids of an Arrow column: int64, or strings as objects (without pandas, which Arrow would load to make them)."""
    if pa.types.is_signed_integer(column.type):
        return arrow_numbers(column)[0].astype(np.int64)
    return np.array([*column.to_pylist(), None], dtype=object)[:-1]


def check_unique(ids: Any, where: str, advice: str = ADVICE) -> None:
    """Refuse (n,) ids of which one appears twice, naming it and its rows."""
    ids = id_array(ids) if isinstance(ids, (pa.Array, pa.ChunkedArray)) else ids
    seen = SeenIds()
    seen.add(ids)
    seen.refuse_repeated(lambda: ids, where, advice=advice)

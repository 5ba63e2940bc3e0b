"""Two snapshots of the same samples, joined by id: what two models, or two dates, say of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError
from hardsight.labels import numbers_among
from hardsight.unique_ids import check_unique

if TYPE_CHECKING:
    from hardsight.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Joined:
    """The samples that two snapshots share, in the order of the first."""

    first: Snapshot
    second: Snapshot
    only_first: int  # samples of the first that the second does not have
    only_second: int
    note: str | None  # what does not match, with an example of each side

    @property
    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) labels in each, both numbered by the classes of the first: classes are joined by name."""
        first, second = self.first, self.second
        mapping = None
        if first.class_names is not None and second.class_names is not None:
            mapping = numbers_among(second.class_names, first.class_names)
        return first.labels, second.labels if mapping is None else mapping[second.labels]


def check_class_order(first: Snapshot, second: Snapshot) -> None:
    """Refuse the same class names in another order: what is compared by class number would be of other classes."""
    names, others = first.class_names, second.class_names
    if names is None or others is None or names == others or sorted(names) != sorted(others):
        return
    number = next(number for number, (name, other) in enumerate(zip(names, others, strict=True)) if name != other)
    raise InputError(
        f"{first.where} and {second.where} must have their classes in one order, but class {number} is {names[number]!r:.60} in "
        f"the first and {others[number]!r:.60} in the second: reorder the head's rows and the labels of one of them."
    )


def joined(first: Snapshot, second: Snapshot) -> Joined:
    """The samples that both have; ids are compared as text where one side has integers and the other text."""
    ids, others = _ids(first), _ids(second)
    if ids.type != others.type:
        ids, others = ids.cast(pa.string()), others.cast(pa.string())
    rows_of_second = pc.index_in(ids, value_set=others)  # null where the second does not have the id
    shared = np.asarray(rows_of_second.is_valid())
    rows, other_rows = np.flatnonzero(shared), np.asarray(rows_of_second.drop_null(), np.int64)
    alone = ids.filter(pa.array(~shared))
    alone_second = others.filter(pc.invert(pc.is_in(others, value_set=ids)))
    if not len(rows):
        raise InputError(
            f"{first.where} and {second.where} are joined by id, and share none: {_such_as(alone)} and {_such_as(alone_second)}."
        )
    apart = [
        f"{len(left):,} only in {snapshot.where}, such as {left[0].as_py()!r:.60}"
        for left, snapshot in ((alone, first), (alone_second, second))
        if len(left)
    ]
    note = f"{len(rows):,} samples are in both; {'; '.join(apart)}." if apart else None
    return Joined(_picked(first, rows), _picked(second, other_rows), len(alone), len(alone_second), note)


def _picked(snapshot: Snapshot, rows: np.ndarray) -> Snapshot:
    """The rows of a snapshot; the snapshot itself, if these are all of them in their order."""
    return snapshot.of_rows(rows) if (np.diff(rows) > 0).all() else snapshot.take(rows)


def _ids(snapshot: Snapshot) -> pa.Array:
    check_unique(snapshot.ids, snapshot.where)  # also where duplicates are allowed: they cannot be joined
    return snapshot.columns(["id"]).column(0).combine_chunks()


def _such_as(ids: pa.Array) -> str:
    return f"one has ids such as {ids[0].as_py()!r:.60}" if len(ids) else "one is empty"

"""Two snapshots of the same samples, joined by id, and their classes by name: what two models, or two dates, say of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import UNLABELED, check_unique
from hardsight.errors import InputError
from hardsight.snapshot.sources import ArraySource

if TYPE_CHECKING:
    from hardsight.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Joined:
    """The samples that two snapshots share, in the order of the first."""

    first: Snapshot
    second: Snapshot
    only_first: int  # samples of the first that the second does not have
    note: str | None  # what does not match, with an example of each side


def numbered_as(snapshot: Snapshot, other: Snapshot) -> Snapshot:
    """The same samples with their classes in the order of another snapshot's, where both name the same ones."""
    own, names = snapshot.class_names, other.class_names
    if own is None or names is None or own == names or sorted(own) != sorted(names):
        return snapshot
    numbers = np.array([*(names.index(name) for name in own), UNLABELED])  # (c + 1,) class k of the other, and of -1
    order = np.argsort(numbers[:-1])  # (c,) which of the own classes is class k of the other
    if not isinstance(snapshot.source, ArraySource) and snapshot.source.evidence != "features":
        in_memory = snapshot.take(np.arange(len(snapshot)))  # the columns of logits and probabilities are put in order
        in_memory.loaded_from, snapshot = snapshot.loaded_from, in_memory
    return snapshot._again(
        source=snapshot.source.renumbered(numbers, order, names),
        head=None if snapshot.head is None else snapshot.head.classes(order),
        others={name: matrix[:, order] for name, matrix in snapshot.others.items()},
        class_names=names,
    )


def joined(first: Snapshot, second: Snapshot) -> Joined:
    """The samples that both have; ids are compared as text where one side has integers and the other text."""
    second = numbered_as(second, first)
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
            f"{first.where} and {second.where} are joined by id, and share none: {_such_as(alone)} and {_such_as(alone_second)}. "
            "For different samples of one model, use drift --unpaired."
        )
    apart = [
        f"{len(left):,} only in {snapshot.where}, such as {left[0].as_py()!r:.60}"
        for left, snapshot in ((alone, first), (alone_second, second))
        if len(left)
    ]
    note = f"{len(rows):,} samples are in both; {'; '.join(apart)}." if apart else None
    return Joined(_picked(first, rows), _picked(second, other_rows), len(alone), note)


def _picked(snapshot: Snapshot, rows: np.ndarray) -> Snapshot:
    """The rows of a snapshot; the snapshot itself, if these are all of them in their order."""
    return snapshot.of_rows(rows) if (np.diff(rows) > 0).all() else snapshot.take(rows)


def _ids(snapshot: Snapshot) -> pa.Array:
    check_unique(snapshot.ids, snapshot.where)  # also where duplicates are allowed: they cannot be joined
    return snapshot.columns(["id"]).column(0).combine_chunks()


def _such_as(ids: pa.Array) -> str:
    return f"one has ids such as {ids[0].as_py()!r:.60}" if len(ids) else "one is empty"

"""A person's marks applied to the labels: what the data set is after the review.

    fine, ambiguous              the label stays
    wrong label, with a class    that class
    wrong label, without one     left out: the label is known to be wrong, and the right one is not known
    drop                         left out

Samples without a mark keep their labels.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.errors import FileError, InputError, first_line
from hardsight.files.inputs import note_input
from hardsight.files.parquet import read_parquet
from hardsight.files.places import place
from hardsight.snapshot import Snapshot

KEPT, WRONG, DROPPED = ("fine", "ambiguous"), "wrong label", "drop"
COLUMNS = ("id", "mark", "suggestion")


@dataclass(frozen=True)
class Applied:
    """Labels after a review: a table of id, label, given_label and changed; and what was done."""

    table: pa.Table
    changed: int
    dropped: int  # marked so
    unknown: int  # marked wrong, without the right class: left out as well


def apply_review(source: Any, review: str | os.PathLike[str], class_names: Sequence[str] | None = None) -> Applied:
    """The labels of a run, a file or a `Snapshot` after the marks of a `review.parquet`.

    The classes are those of the head, else those of the class names, else those up to the highest label.

    Example:
        >>> import pyarrow.parquet as pq, tempfile
        >>> marks = pa.table({"id": ["1", "2"], "mark": ["wrong label", "drop"], "suggestion": pa.array([0, None], pa.int64())})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(marks, f"{folder}/review.parquet")
        ...     done = apply_review(Snapshot(np.eye(3), labels=[0, 1, 2]), f"{folder}/review.parquet")
        >>> done.table.to_pydict()
        {'id': [0, 1], 'label': [0, 0], 'given_label': [0, 1], 'changed': [False, True]}
    """
    snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source)
    columns = snapshot.columns(["id", "label"])
    labels = columns.column("label").fill_null(-1).to_numpy().astype(np.int64)  # (n,)
    marks = _read_marks(review)
    rows = _join(columns.column("id"), marks, snapshot.name or "the snapshot", review)
    after, kept = labels.copy(), np.ones(len(labels), dtype=bool)
    dropped = unknown = 0
    c = _num_classes(snapshot, class_names, labels)
    for row, (id, mark, suggestion) in zip(rows, marks, strict=True):
        if mark == WRONG and suggestion is not None:
            if suggestion < 0 or (c is not None and suggestion >= c):
                last = "0 and up" if c is None else f"0 to {c - 1}"
                raise InputError(f"{review}: {id!r} is marked as class {suggestion}, and classes are {last}.")
            after[row] = suggestion
        elif mark == WRONG or mark == DROPPED:
            kept[row] = False
            dropped, unknown = dropped + (mark == DROPPED), unknown + (mark == WRONG)
        elif mark not in KEPT:
            raise InputError(f"{review}: {id!r} has the mark {mark!r}; marks are {', '.join([*KEPT, WRONG, DROPPED])}.")
    changed = after != labels
    table = pa.table(
        {
            "id": columns.column("id"),
            "label": pa.array(after, mask=after < 0),
            "given_label": pa.array(labels, mask=labels < 0),
            "changed": pa.array(changed),
        }
    ).filter(pa.array(kept))
    return Applied(table, int((changed & kept).sum()), dropped, unknown)


def _num_classes(snapshot: Snapshot, class_names: Sequence[str] | None, labels: np.ndarray) -> int | None:
    """How many classes there are, as far as anything says so."""
    names = snapshot.class_names if class_names is None else class_names
    if snapshot.num_classes is not None or names is not None:
        return snapshot.num_classes or len(names or ())
    return int(labels.max(initial=-1)) + 1 or None


def _read_marks(review: str | os.PathLike[str]) -> list[tuple[str, str, int | None]]:
    path = place(review)
    note_input(path)
    table = read_parquet(path)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise FileError(f"{path}: not a review: it has no column {missing[0]!r}. The explorer saves one as review.parquet.")
    try:
        suggested = table.column("suggestion").cast(pa.int64())
    except pa.ArrowException as error:
        raise FileError(f"{path}: not a review: suggestions must be class indices: {first_line(error)}.") from error
    ids, marks, suggestions = table.column("id").to_pylist(), table.column("mark").to_pylist(), suggested.to_pylist()
    twice = [id for id, count in Counter(map(str, ids)).items() if count > 1]
    if twice:
        raise FileError(f"{path}: one mark per sample, but {len(twice)} ids have several, such as {twice[0]!r:.80}.")
    return [(str(id), mark, suggestion) for id, mark, suggestion in zip(ids, marks, suggestions, strict=True)]


def _join(ids: Any, marks: list[tuple[str, str, int | None]], name: str, review: str | os.PathLike[str]) -> list[int]:
    """The row of each mark, by its id as text."""
    row_of = {str(id): row for row, id in enumerate(ids.to_pylist())}
    if len(row_of) < len(ids):
        twice = next(id for id, count in Counter(map(str, ids.to_pylist())).items() if count > 1)
        raise InputError(f"{name}: marks join by id, and ids must be unique for it, but {twice!r:.80} is there several times.")
    missing = [id for id, _, _ in marks if id not in row_of]
    if missing:
        like = f"; its ids look like {next(iter(row_of))!r}" if row_of else ""
        raise InputError(
            f"{review} is of other samples: {len(missing)} of its {len(marks)} ids are not in {name}, "
            f"such as {missing[0]!r:.80}{like}."
        )
    return [row_of[id] for id, _, _ in marks]

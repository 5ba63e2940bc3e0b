"""A person's marks applied to the labels: what the data set is after the review.

    fine, ambiguous              the label stays
    wrong label, with a class    that class
    wrong label, without one     left out: the label is known to be wrong, and the right one is not known
    drop                         left out

Samples without a mark keep their labels. The result is a table, or a folder of the images in which each lies with its class.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.data.decoding import BrokenImage
from hardsight.data.run_images import RunImages
from hardsight.errors import FileError, InputError, first_line
from hardsight.files.parquet import read_parquet
from hardsight.files.places import Place, place
from hardsight.files.run import read_start
from hardsight.files.writing import why
from hardsight.scoring.samples import check_unique_ids
from hardsight.snapshot import Snapshot

KEPT, WRONG, DROPPED = ("fine", "ambiguous"), "wrong label", "drop"
COLUMNS = ("id", "mark", "suggestion")


@dataclass(frozen=True)
class Applied:
    """Labels after a review: id, label, given_label and changed, label_name and path where known; and what was done."""

    table: pa.Table
    changed: int
    dropped: int  # marked so
    unknown: int  # marked wrong, without the right class: left out as well
    class_names: list[str] | None = None


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
    samples = _labeled(source)
    columns, names = samples.columns, samples.class_names if class_names is None else list(class_names)
    labels = columns.column("label").fill_null(-1).to_numpy().astype(np.int64)  # (n,)
    marks = _read_marks(review)
    rows = _join(columns.column("id"), marks, samples.name, review)
    after, kept = labels.copy(), np.ones(len(labels), dtype=bool)
    dropped = unknown = 0
    c = samples.num_classes or (int(labels.max(initial=-1)) + 1 or None if names is None else len(names))
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
    paths = columns.column("path") if "path" in columns.column_names else None
    table = pa.table(
        {
            "id": columns.column("id"),
            "label": pa.array(after, mask=after < 0),
            "given_label": pa.array(labels, mask=labels < 0),
            "changed": pa.array(changed),
            **({} if names is None else {"label_name": pa.array([None if k < 0 else _name(k, names) for k in after.tolist()])}),
            **({"path": paths} if paths is not None and paths.null_count < len(paths) else {}),
        }
    ).filter(pa.array(kept))
    return Applied(table, int((changed & kept).sum()), dropped, unknown, names)


def _name(label: int, names: Sequence[str] | None) -> str:
    return str(label) if names is None or label >= len(names) else names[label]


@dataclass(frozen=True)
class _Labeled:
    """What marks are applied to."""

    columns: pa.Table  # id and label; path where there is one
    class_names: list[str] | None
    num_classes: int | None
    name: str


def _labeled(source: Any) -> _Labeled:
    """Of a snapshot, or of what one is loaded from; a table of scores has labels as well, and no features are needed."""
    if isinstance(source, pa.Table):
        there = [name for name in ("id", "label", "path") if name in source.column_names]
        return _Labeled(source.select(there), None, None, "the table")
    snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source)
    there = ["id", "label", *(["path"] if "path" in snapshot.column_names else [])]
    return _Labeled(snapshot.columns(there), snapshot.class_names, snapshot.num_classes, snapshot.name or "the snapshot")


def _read_marks(review: str | os.PathLike[str]) -> list[tuple[str, str, int | None]]:
    path = place(review)
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
    names = [str(id) for id in ids.to_pylist()]
    check_unique_ids(names, name)
    row_of = {id: row for row, id in enumerate(names)}
    missing = [id for id, _, _ in marks if id not in row_of]
    if missing:
        like = f"; its ids look like {next(iter(row_of))!r}" if row_of else ""
        raise InputError(
            f"{review} is of other samples: {len(missing)} of its {len(marks)} ids are not in {name}, "
            f"such as {missing[0]!r:.80}{like}."
        )
    return [row_of[id] for id, _, _ in marks]


def write_images(applied: Applied, source: Place, folder: Path) -> int:
    """Write the images of a run, or of a table with paths, as a new folder of classes; how many there are.

    Files are linked (hard links, which take no room and which every tool reads), or copied to another disk; images that are no
    files are written as PNG. An image keeps its path but for the folder of its class: train/cat/1.png becomes train/dog/1.png.
    """
    images = RunImages(read_start(Path(source)).get("sources") or {}, None if source.is_file() else Path(source))
    images.roots = images.roots or ([str(Path(source).resolve().parent)] if source.is_file() else [])
    rows = [row for row in applied.table.to_pylist() if row["label"] is not None]
    folders = _folders(applied, rows)
    taken: set[PurePosixPath] = set()
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        for row in sorted(rows, key=lambda row: row["changed"]):  # who stays keeps the name
            below = _below(row, folders)
            if below in taken:
                below = below.with_name(f"{folders.get(row['given_label'], 'unlabeled')}-{below.name}")
            number = 1
            while below in taken:
                number, below = number + 1, below.with_name(f"{number}-{below.name}")
            taken.add(below)
            _place_image(images, row, unfinished / below)
        if not rows:
            raise InputError(f"{source}: no sample with a label is left after the review.")
        unfinished.rename(folder)
    except BrokenImage as error:
        raise FileError(
            f"{source}: an image was not found: {error}. Folders are written of image files that are where they were when the "
            "run was made, or below the folder of the table; -o labels.csv writes a table instead."
        ) from error
    except OSError as error:
        raise FileError(f"{folder} could not be written: {why(error)}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return len(rows)


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that holds anything, and one that cannot be made; nothing is created."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if os.path.lexists(folder):
        raise FileError(f"{folder} exists; give a new folder for the images, or a table: -o labels.csv.")
    if not folder.parent.is_dir():
        raise FileError(f"{folder}: the directory {folder.parent} does not exist; create it first.")


def _folders(applied: Applied, rows: list[dict[str, Any]]) -> dict[int, str]:
    """Class -> a folder's name of its own: no separators, nothing hidden, none twice."""
    classes = sorted({row[name] for row in rows for name in ("label", "given_label") if row[name] is not None})
    names = {k: re.sub(r"[/\\\x00-\x1f\x7f]|^\.", "_", _name(k, applied.class_names)) or "_" for k in classes}
    counts = Counter(names.values())
    return {k: name if counts[name] == 1 else f"{name} ({k})" for k, name in names.items()}


def _below(row: dict[str, Any], folders: dict[int, str]) -> PurePosixPath:
    """Where an image goes: its path with the folder of the new class for that of the given one."""
    if row.get("path") is None:
        return PurePosixPath(folders[row["label"]], re.sub(r"[^\w.-]+", "_", str(row["id"])).lstrip(".") + ".png")
    *above, name = PurePosixPath(row["path"]).parts
    given = folders.get(row["given_label"])
    if given not in above or ".." in above or PurePosixPath(row["path"]).is_absolute():
        return PurePosixPath(folders[row["label"]], name)
    place = len(above) - 1 - above[::-1].index(given)
    return PurePosixPath(*above[:place], folders[row["label"]], *above[place + 1 :], name)


def _place_image(images: RunImages, row: dict[str, Any], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path = row.get("path")
    if path is None or not images.roots:
        images.find(path, str(row["id"])).save(target.with_suffix(".png"))
        return
    file = os.path.realpath(images.file(path))
    try:
        os.link(file, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(file, target)

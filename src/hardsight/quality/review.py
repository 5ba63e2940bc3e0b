"""A person's marks applied to the labels: what the data set is after the review.

    fine, ambiguous              the label stays
    wrong label, with a class    that class
    wrong label, without one     left out: the label is known to be wrong, and the right one is not known
    drop                         left out

Marks are those of the explorer (review.parquet), or made in another tool from what `hardsight export` wrote:

    Label Studio   Export, as JSON: tasks with annotations. A task that nobody annotated has no mark.
    FiftyOne       dataset.export(labels_path="reviewed.json", label_field="ground_truth", include_attributes=True,
                   dataset_type=fiftyone.types.FiftyOneImageClassificationDataset): every label, changed or not.

Samples without a mark keep their labels. The result is a table, or a folder of the images in which each lies with its class.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_unique
from hardsight.data.decoding import BrokenImage
from hardsight.data.run_images import RunImages
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.class_names import check_class_names, given_class_names
from hardsight.files.parquet import read_parquet
from hardsight.files.places import Place, place
from hardsight.files.reading import read_json
from hardsight.files.run import read_start
from hardsight.files.suspects import as_scores, clean_class_names, clean_columns
from hardsight.files.writing import why
from hardsight.pandas_index import column_names
from hardsight.quality.verdicts import class_name
from hardsight.result import Result, table_target
from hardsight.screen import Sentence, ShownTable, line, printable
from hardsight.snapshot import Snapshot
from hardsight.table import plain, scores_given, write_table

Mark = tuple[str, str, int | None]  # id, mark, class of a wrong label


def tool_marks(path: Place, samples: Snapshot, class_names: Sequence[str] | None) -> list[Mark]:
    """The marks of a JSON file of Label Studio or FiftyOne.

    The given class is fine; another one is the right class of a wrong label; people who disagree make a sample ambiguous.
    """
    document = read_json(path, "not a readable review")
    chosen = _of_label_studio(document, path) if isinstance(document, list) else _of_fiftyone(document, path)
    given = dict(zip(map(str, samples.ids.tolist()), samples.labels.tolist(), strict=True))
    names = class_names or [str(k) for k in range(samples.num_classes or samples.labels.max(initial=-1) + 1)]
    number_of = {written: number for number, name in enumerate(names) for written in (name, printable(name))}  # as exported
    return [_mark(path, id, names, given.get(id, -1), number_of) for id, names in chosen]


def _mark(path: Place, id: str, names: set[str], given: int, number_of: dict[str, int]) -> Mark:
    if len(names) > 1:
        return id, "ambiguous", None
    (name,) = names
    if name not in number_of:
        known = f"classes are {', '.join(list(number_of)[:20])}"
        raise InputError(f"{path}: {id!r} is of the class {name!r:.80}; {known}.{did_you_mean(name, number_of)}")
    return (id, "fine", None) if number_of[name] == given else (id, "wrong label", number_of[name])


def _of_label_studio(tasks: list[Any], path: Place) -> list[tuple[str, set[str]]]:
    """Id -> the classes that people chose, of the tasks in which somebody chose one."""
    chosen: list[tuple[str, set[str]]] = []
    for task in tasks:
        data, annotations = (task.get(name) if isinstance(task, dict) else None for name in ("data", "annotations"))
        if not isinstance(data, dict) or not isinstance(annotations, list) or "id" not in data:
            raise FileError(
                f"{path}: not tasks of Label Studio with data.id and annotations: export them as JSON (not JSON-MIN), from a "
                "project that holds what hardsight export --to labelstudio wrote."
            )
        done = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
        values = [result.get("value", {}) for annotation in done for result in annotation.get("result", ())]
        names = {choice for value in values for choice in value.get("choices", ())}
        if names:
            chosen.append((str(data["id"]), names))
    return chosen


def _of_fiftyone(document: Any, path: Place) -> list[tuple[str, set[str]]]:
    """Id -> the class of its label; a sample without a label says nothing, not even which one it is."""
    labels = document.get("labels") if isinstance(document, dict) else None
    if not isinstance(labels, dict):
        raise FileError(f"{path}: not a review: a list of Label Studio's tasks, or FiftyOne's classes and labels.")
    classes, chosen = document.get("classes"), list[tuple[str, set[str]]]()
    for key, label in labels.items():
        if label is None:
            continue
        attributes = label.get("attributes") if isinstance(label, dict) else None
        if not isinstance(attributes, dict) or attributes.get("sample_id") is None:
            raise FileError(
                f"{path}: the label of {key!r} has no attribute sample_id: export with include_attributes=True, and change "
                "`.label` of a classification rather than the classification."
            )
        name = classes[label["label"]] if classes and isinstance(label["label"], int) else label["label"]
        chosen.append((str(attributes["sample_id"]), {name}))
    return chosen


KEPT, WRONG, DROPPED = ("fine", "ambiguous"), "wrong label", "drop"
COLUMNS = ("id", "mark", "suggestion")


class CorrectedLabels(Result):
    """Labels after a review: id, label, given_label and changed, label_name and path where known; and what was done.

    Args:
        table: the table.
        changed: how many labels were changed.
        dropped: how many samples were marked so.
        unknown: how many were marked wrong, without the right class: left out as well.
    """

    images: int | None = None  # in the folder, if that is what was written

    def __init__(self, table: pa.Table, changed: int, dropped: int, unknown: int) -> None:
        super().__init__(table)
        self.changed, self.dropped, self.unknown = changed, dropped, unknown

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """How many labels were changed, and how many samples left out."""
        yield line(self._headline(), samples=len(self), changed=self.changed, dropped=self.dropped, unknown=self.unknown)

    def _headline(self) -> str:
        return (
            f"{len(self)} samples: {self.changed} labels changed, {self.dropped} samples dropped, "
            f"{self.unknown} left out whose label is wrong and the right one not known"
        )


def apply_review(
    x: Any, review: Any, class_names: Any = None, *, output: str | os.PathLike[str] | None = None, **opening: Any
) -> CorrectedLabels:
    """The labels of anything a snapshot opens after a review: the marks of a `review.parquet`, or those of another tool.

    The classes are those of the head, else those of the class names, else those up to the highest label.

    Args:
        x: a run, a file, a `Snapshot`, a table, or what `clean` found. A wide table is read with the columns that
            `hardsight clean` was told to take.
        review: the marks, as the explorer saves them; or the JSON that Label Studio or FiftyOne exports; or the page that
            `hardsight.explore` gave, its `marks`, or any table with their columns id, mark and suggestion.
        class_names: (c,) names, or a file of them.
        output: .parquet, .csv or .json to write; or a new folder, for the images by class.
        **opening: further keywords of `Snapshot.open`, such as features and labels.

    Example:
        >>> marks = {"id": [1, 2], "mark": ["wrong label", "drop"], "suggestion": [0, None]}
        >>> apply_review(Snapshot(np.eye(3), labels=[0, 1, 2]), marks).table.to_pydict()
        {'id': [0, 1], 'label': [0, 0], 'given_label': [0, 1], 'changed': [False, True]}
    """
    folder, path = _image_folder(output), Path(x) if isinstance(x, (str, os.PathLike)) else None
    if folder is not None:
        check_new_folder(folder)
    else:
        table_target(output, "labels after a review", (x, review, class_names, *opening.values()))
    if folder is not None and path is None:
        raise InputError(f"{folder} is for images, which only a run or a file leads to; write a table: output='labels.csv'.")
    columns = None if path is None or opening.keys() & {"features", "labels"} else clean_columns(path)
    samples = _opened(x, {**opening, **(columns or {})})
    names = given_class_names(class_names) or samples.class_names or (None if path is None else clean_class_names(path))
    corrected = _corrected(samples, review, None if names is None else check_class_names(names, samples.num_classes))
    if folder is not None and path is not None:
        corrected.images = write_images(corrected, path, folder)
    elif output is not None:
        write_table(corrected.table, output)
    return corrected


def _opened(x: Any, opening: dict[str, Any]) -> Snapshot:
    """The labeled samples, also those of a table of suspects."""
    found = "given_label" in (column_names(plain(x)) or ()) and not opening
    samples = Snapshot.of_scores(as_scores(scores_given(x))) if found else Snapshot.open(x, **opening)
    if len(samples) and (samples.labels < 0).all():
        raise InputError(f"{samples.where}: no sample has a label to keep or change: say where they are, such as labels='y'.")
    return samples


def _image_folder(output: str | os.PathLike[str] | None) -> Path | None:
    """The folder that images are written to: an output without an extension, or a folder that is there; None for a table."""
    target = None if output is None else place(output)
    return target if isinstance(target, Path) and (target.suffix == "" or target.is_dir()) else None


def _corrected(samples: Snapshot, review: Any, names: list[str] | None) -> CorrectedLabels:
    """Marks by id applied to the labels."""
    if isinstance(review, (str, os.PathLike)):
        where = str(path := place(review))
        marks = tool_marks(path, samples, names) if path.suffix == ".json" else _read_marks(read_parquet(path), where)
    else:
        where = "the table of marks"
        marks = _read_marks(pa.table(getattr(review, "marks", review)), where)
    labels, rows = samples.labels, _join(samples, marks, where)  # (n,)
    after, kept, dropped = labels.copy(), np.ones(len(labels), dtype=bool), 0
    c = samples.num_classes or (int(labels.max(initial=-1)) + 1 or None if names is None else len(names))
    for row, (id, mark, suggestion) in zip(rows, marks, strict=True):
        if mark == WRONG and suggestion is not None:
            _check_class(suggestion, c, f"{where}: {id!r} is marked as")
            after[row] = suggestion
        elif mark in (WRONG, DROPPED):
            kept[row], dropped = False, dropped + (mark == DROPPED)
        elif mark not in KEPT:
            raise InputError(f"{where}: {id!r} has the mark {mark!r}; marks are {', '.join([*KEPT, WRONG, DROPPED])}.")
    columns = {
        "id": samples.columns(["id"]).column(0),
        "label": pa.array(after, mask=after < 0),
        "given_label": pa.array(labels, mask=labels < 0),
        "changed": pa.array(after != labels),
    }
    if names is not None:
        columns["label_name"] = pa.array([None if label < 0 else class_name(label, names) for label in after.tolist()])
    paths = samples.columns(["path"]).column(0) if "path" in samples.column_names else pa.nulls(0)
    if paths.null_count < len(paths):
        columns["path"] = paths
    changed, unknown = int(((after != labels) & kept).sum()), int((~kept).sum()) - dropped
    corrected = CorrectedLabels(pa.table(columns).filter(pa.array(kept)), changed, dropped, unknown)
    corrected.class_names = names
    return corrected


def _check_class(suggestion: int, c: int | None, start: str) -> None:
    if suggestion < 0 or (c is not None and suggestion >= c):
        raise InputError(f"{start} class {suggestion}, and classes are {'0 and up' if c is None else f'0 to {c - 1}'}.")


def _read_marks(table: pa.Table, where: str) -> list[Mark]:
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise FileError(f"{where}: not a review: it has no column {missing[0]!r}. The explorer saves one as review.parquet.")
    try:
        suggested = table.column("suggestion").cast(pa.int64())
    except pa.ArrowException as error:
        raise FileError(f"{where}: not a review: suggestions must be class indices: {first_line(error)}.") from error
    ids = table.column("id").cast(pa.string())
    check_unique(ids, where, "Keep one mark of each sample.")
    return list(zip(ids.to_pylist(), table.column("mark").to_pylist(), suggested.to_pylist(), strict=True))


def _join(samples: Snapshot, marks: list[Mark], where: str) -> list[int]:
    """The row of each mark, by its id as text."""
    ids = samples.ids
    check_unique(ids, samples.where)  # also where a snapshot allows duplicates
    row_of = {str(id): row for row, id in enumerate(ids.tolist())}
    missing = [id for id, _, _ in marks if id not in row_of]
    if missing:
        like = f"; its ids look like {next(iter(row_of))!r}" if row_of else ""
        raise InputError(
            f"{where} is of other samples: {len(missing)} of its {len(marks)} ids are not in {samples.where}, "
            f"such as {missing[0]!r:.80}{like}."
        )
    return [row_of[id] for id, _, _ in marks]


def write_images(corrected: CorrectedLabels, source: Path, folder: Path) -> int:
    """Write the images of a run, or of a table with paths, as a new folder of classes; how many there are.

    Files are linked (hard links, which take no room and which every tool reads), or copied to another disk; images that are no
    files are written as PNG. An image keeps its path but for the folder of its class: train/cat/1.png becomes train/dog/1.png.
    """
    images = RunImages(read_start(source).get("sources") or {}, None if source.is_file() else source)
    images.roots = images.roots or ([str(source.resolve().parent)] if source.is_file() else [])
    rows = [row for row in corrected.table.to_pylist() if row["label"] is not None]
    folders = _folders(corrected, rows)
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


def _folders(corrected: CorrectedLabels, rows: list[dict[str, Any]]) -> dict[int, str]:
    """Class -> a folder's name of its own: no separators, nothing hidden, none twice."""
    classes = sorted({row[name] for row in rows for name in ("label", "given_label") if row[name] is not None})
    names = {k: re.sub(r"[/\\\x00-\x1f\x7f]|^\.", "_", class_name(k, corrected.class_names)) or "_" for k in classes}
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

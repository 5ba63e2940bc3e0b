"""Open the training data, the watched sets, a subset and a curriculum: all numbered and joined alike, by class and by id."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.data import ImageData, open_data
from hardsight.data.dataset import num_classes
from hardsight.data.opening import check_files, open_frame
from hardsight.errors import FileError, InputError, did_you_mean
from hardsight.extraction.feed import ArrayInputs
from hardsight.extraction.inputs import columns_of, finite_features, holds_features, labels_among
from hardsight.files.places import TEXT_TABLES, place, shown_address
from hardsight.files.reading import existing_file
from hardsight.files.samples import is_free
from hardsight.files.table_files import read_csv
from hardsight.files.wide_tables import is_table
from hardsight.scores import SCORES
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import ArraySource
from hardsight.table import plain, read_scores
from hardsight.training.pacing import Curriculum, Pacing
from hardsight.training.settings import TrainSettings

AnySet = ImageData | ArrayInputs
RESERVED = ("train", "model", "teacher", "curriculum")  # names of other inputs, in start.json


@dataclass
class Sets:
    """The training data and the watched sets, before they are turned into a network's inputs."""

    train: AnySet
    watched: dict[str, AnySet]
    num_classes: int
    class_names: list[str] | None
    sources: dict[str, Any] | None = None  # where they were, to open them again: {"train": path, "watch": {name: path}}
    curriculum: Curriculum | None = None
    notes: tuple[str, ...] = ()  # sentences for the user


def open_sets(data: Any, settings: TrainSettings) -> Sets:
    """The training data, and the sets to watch: those of `watch`, or the data's other splits."""
    check_subset_and_curriculum(settings)
    notes: list[str] = []
    train, watched = _train_and_watched(data, settings, notes)
    for data_set in (train, *watched.values()):
        notes += getattr(data_set, "notes", ())
    train = _labeled(train, notes)
    c, names = num_classes(train), train.class_names
    if c < 2:
        raise InputError(f"training needs at least two classes, the data has {c}.")
    if settings.subset is not None:
        train = _subset(train, settings.subset, c, notes)
    for name, data_set in watched.items():
        _check_alike(name, data_set, train)
    watched = {name: _same_classes(name, data_set, c, names) for name, data_set in watched.items()}
    assert train.labels is not None
    curriculum = open_curriculum(settings, train.ids, train.labels)
    return Sets(train, watched, c, names, _sources(data, settings.watch or {}), curriculum, tuple(notes))


def _train_and_watched(data: Any, settings: TrainSettings, notes: list[str]) -> tuple[AnySet, dict[str, AnySet]]:
    """The set to train on, and the watched ones by name, as they are opened."""
    watch, limit = settings.watch, settings.limit
    train = _open(data, limit=limit, labels_from=settings.labels_from)
    watched: dict[str, AnySet] = {}
    if isinstance(train, ImageData):
        train, of_splits = _own_splits(train, data, settings)
        watched.update(of_splits)
        if watched and watch is None:
            counts = [f"{name} ({len(data_set)} images)" for name, data_set in watched.items()]
            notes.append(f"watching {' and '.join(counts)} of the same data")
    for name, spec in (watch or {}).items():
        if name in watched or name in RESERVED or not name.replace("-", "").replace("_", "").isalnum():
            raise InputError(
                f"a watched set needs a name of its own, of letters and digits and not {', '.join(RESERVED[:-1])} or "
                f"{RESERVED[-1]}, got {name!r}."
            )
        watched[name] = _watched(name, spec, limit)
    return train, watched


def _labeled(train: AnySet, notes: list[str]) -> AnySet:
    """The training samples that have a label; arrays must have them all."""
    if isinstance(train, ImageData):
        reserved = [name for name in train.columns if not is_free(name)]
        if reserved:
            notes.append(f"columns with reserved names are left out: {', '.join(reserved)}")
        train, unlabeled = labeled_only(train)
        if unlabeled:
            notes.append(f"{unlabeled} images without a label are left out of training")
    elif (train.labels < 0).any():
        raise InputError("every training sample needs a label; leave unlabeled ones (-1) out.")
    if len(train) == 0:
        raise InputError("there is nothing to train on.")
    return train


def labeled_only(data: ImageData) -> tuple[ImageData, int]:
    """The rows that have a label, and how many have none."""
    if data.labels is None:
        raise InputError("training needs labels, and this data has none: give --labels, or one folder of images per class.")
    rows = np.flatnonzero(data.labels >= 0)
    return (data, 0) if len(rows) == len(data) else (data.take(rows), len(data) - len(rows))


def _check_alike(name: str, watched: AnySet, train: AnySet) -> None:
    """A training on arrays watches arrays of the same shape, one on images watches images."""
    if isinstance(watched, ArrayInputs) != isinstance(train, ArrayInputs):
        what = "arrays" if isinstance(train, ArrayInputs) else "images"
        raise InputError(f"a training on {what} can watch {what} only, and {name} is something else.")
    if isinstance(watched, ArrayInputs) and isinstance(train, ArrayInputs):
        ours, theirs = train.inputs.shape[1:], watched.inputs.shape[1:]
        if ours != theirs:
            raise InputError(f"training samples have the shape {ours}, those of {name} {theirs}: they must agree.")


def _subset(train: AnySet, subset: Any, c: int, notes: list[str]) -> AnySet:
    """The samples of a subset; classes keep their index, also those of which it has none."""
    rows = subset_rows(subset, train.ids)
    notes.append(f"training on a subset of {len(rows)} of {len(train)} samples")
    taken = train.take(rows)
    assert taken.labels is not None
    absent = np.flatnonzero(np.bincount(taken.labels, minlength=c) == 0)
    if c - len(absent) < 2:
        raise InputError("training needs at least two classes, the subset has one.")
    if len(absent):
        names = [str(label) if train.class_names is None else train.class_names[label] for label in absent[:3]]
        notes.append(f"the subset has no samples of {len(absent)} of {c} classes, such as {', '.join(names)}")
    return taken


def _sources(data: Any, watch: Mapping[str, Any]) -> dict[str, Any] | None:
    """Paths that open the same data from any directory; none for data that was passed as objects."""
    places = {name: _place(spec) for name, spec in watch.items()}
    sources = {"train": _place(data), "watch": {name: path for name, path in places.items() if path}}
    return sources if sources["train"] else None


def _place(spec: Any) -> str | None:
    if not isinstance(spec, (str, os.PathLike)):
        return None
    remote = "://" in os.fspath(spec)
    return shown_address(spec) if remote or Path(spec).exists() else os.fspath(spec)  # digits is no path


def _open(data: Any, **options: Any) -> AnySet:
    """Images or arrays, from whatever was given."""
    labels = options.get("labels_from")
    if is_table(data):
        data, labels = open_frame(data, labels), None
    if isinstance(data, (ImageData, ArrayInputs)):
        return data
    if isinstance(data, tuple) and len(data) in (2, 3):
        inputs, labels, *given_ids = data
        if not given_ids and options.get("name"):  # rows of another set are counted from 0 too
            given_ids = [[f"{options['name']}/{row}" for row in range(len(inputs))]]
        return ArrayInputs(inputs, labels, *given_ids)
    if holds_features(data):
        return _features(Snapshot.open(data, labels=labels), options.get("limit"))
    if not isinstance(data, (str, os.PathLike)):
        raise InputError(f"data must be a path, a Snapshot, a frame, an ImageData or (inputs, labels[, ids]), got {data!r:.80}.")
    images = open_data(Path(data) if isinstance(data, os.PathLike) else data, labels_from=labels)
    check_files(images)
    return images


def _features(snapshot: Snapshot, limit: int | None) -> ArrayInputs:
    """A snapshot's features as inputs, with its further columns; where it has no ids, rows are counted as those of arrays are."""
    if not snapshot.source.labeled:
        raise FileError(f"{snapshot.where}: training on features needs labels beside them.")
    numbered = isinstance(snapshot.source, ArraySource) and snapshot.source.ids is None
    some = snapshot.spread(limit)
    columns = {name: column for name, column in columns_of(some).items() if is_free(name)}
    return ArrayInputs(finite_features(some), some.labels, None if numbered else some.ids, some.class_names, columns)


def _own_splits(data: ImageData, spec: Any, settings: TrainSettings) -> tuple[ImageData, dict[str, ImageData]]:
    """The split to train on, and the other splits to watch, unless `watch` or `split` is set."""
    split, limit = settings.split, settings.limit
    splits = data.columns.get("split")
    if splits is None:
        if split is not None:
            raise InputError(f"the data has no splits, so there is no {split!r} to train on: leave split out.")
        return data.spread(limit), {}
    wanted = split or "train"
    if isinstance(spec, str) and spec.startswith("digits:"):
        wanted = spec.partition(":")[2]
    present = [name for name in dict.fromkeys(splits) if name is not None]
    if wanted not in present:
        near = did_you_mean(wanted, present)
        raise InputError(f"the data has no split {wanted!r} to train on; it has {', '.join(present) or 'none'}.{near}")
    others = [name for name in present if name != wanted] if settings.watch is None and split is None else []
    return data.of_split(wanted).spread(limit), {name: data.of_split(name).spread(limit) for name in others}


def _watched(name: str, spec: Any, limit: int | None) -> AnySet:
    """A watched set; of data with splits, the one that has its name, or else all that is not train."""
    data = _open(spec, limit=limit, name=name)
    if not isinstance(data, ImageData):
        return data
    splits = data.columns.get("split")
    if splits is not None and name in splits:
        return data.of_split(name).spread(limit)
    if splits is not None and "train" in splits and set(splits) != {"train"}:
        return data.of_split(*(set(splits) - {"train"})).spread(limit)
    return data.spread(limit)


def _same_classes(name: str, data: AnySet, c: int, names: list[str] | None) -> AnySet:
    """A watched set with its labels counted as in the training data."""
    labels = labels_among(data, names, c, name, "the training data")
    if isinstance(data, ImageData):
        return replace(data, labels=None if data.labels is None else labels, class_names=names or data.class_names)
    same = copy.copy(data)
    same.labels, same.class_names = labels, names or data.class_names
    return same


def check_subset_and_curriculum(settings: TrainSettings) -> None:
    """Check --subset and --curriculum before the data is opened."""
    if isinstance(settings.subset, (str, os.PathLike)):
        _wanted(settings.subset)
    if settings.curriculum is None and settings.order in ("easy-first", "hard-first"):
        raise InputError(f"--order {settings.order} needs a score to order by: give --curriculum RUN:avh, for example.")
    if settings.curriculum is not None and settings.order == "self-paced":
        raise InputError(
            "--order self-paced goes by the network's own loss and uses no score: leave out --curriculum, or use easy-first."
        )
    if isinstance(settings.curriculum, (str, os.PathLike)):
        run_and_score(os.fspath(settings.curriculum))


def subset_rows(subset: Any, ids: Sequence[str]) -> np.ndarray:
    """(k,) rows of the ids of a subset, in the order of the data.

    Args:
        subset: a file with a column id, as `hardsight select` writes it; a table of that kind; or the ids themselves.
        ids: of the training data.
    """
    name, wanted = _wanted(subset)
    if not wanted:
        raise InputError(f"{name} holds no ids: there would be nothing to train on.")
    row_of = {id: row for row, id in enumerate(ids)}
    unknown = [id for id in wanted if id not in row_of]
    if unknown:
        raise InputError(
            f"{len(unknown)} of the {len(wanted)} ids of {name} are not in the training data (the first: {unknown[0]!r}), "
            f"whose ids look like {ids[0]!r}."
        )
    return np.array(sorted({row_of[id] for id in wanted}), np.int64)


def _wanted(subset: Any) -> tuple[str, list[str]]:
    """What a subset is called, and its ids as text."""
    name = "the subset"
    if isinstance(subset, (str, os.PathLike)):
        name = os.fspath(subset)
        file = place(subset)
        if file.suffix.lower() in TEXT_TABLES:  # only the ids of a list are read
            subset = read_csv(existing_file(file), "not a readable table of ids", {"id": pa.string()})
        else:
            subset = read_scores(subset)
    subset = plain(subset)
    if isinstance(subset, pa.Table):
        if subset.column_names.count("id") != 1:
            raise InputError(f"{name} needs a column id, and it has {', '.join(subset.column_names) or 'none'}.")
        subset = subset.column("id").to_pylist()
    return name, [str(id) for id in subset]


def open_curriculum(settings: TrainSettings, ids: Sequence[str], labels: np.ndarray) -> Curriculum | None:
    """The order in which samples are let in, or None where all are trained on from the first epoch."""
    order = settings.order or ("easy-first" if settings.curriculum is not None else None)
    if order is None:
        return None
    hardness = None if settings.curriculum is None else _hardness(settings.curriculum, ids)
    return Curriculum(labels, order, Pacing.of(settings, settings.epochs), hardness, settings.seed)


def _hardness(curriculum: Any, ids: Sequence[str]) -> np.ndarray:
    """(n,) hardness of the training samples, higher is harder; NaN where it could not be scored."""
    source, score = curriculum if isinstance(curriculum, tuple) else run_and_score(os.fspath(curriculum))
    measured = Snapshot.open(source, by=score).scores([score])
    values = SCORES.harder(score, measured.column(score).to_numpy())
    of = dict(zip(map(str, measured.column("id").to_pylist()), values.tolist(), strict=True))
    where = source if isinstance(source, (str, os.PathLike)) else "the curriculum"
    missing = [id for id in ids if id not in of]
    if missing:
        raise InputError(
            f"{len(missing)} of the {len(ids)} training samples have no {score} in {where} (the first: {missing[0]!r}); "
            f"its ids look like {str(next(iter(of), '(none)'))!r}."
        )
    hardness = np.array([of[id] for id in ids])
    hardness[~np.isfinite(hardness)] = np.nan
    if np.isnan(hardness).all():
        raise InputError(f"none of the {len(ids)} training samples could be scored by {score} in {where}.")
    return hardness


def run_and_score(text: str) -> tuple[str, str]:
    """Split RUN:SCORE; a score may carry a number, as in run:avh_nearest:10.

    Example:
        >>> run_and_score("runs/teacher:avh"), run_and_score("run:avh_nearest:10")
        (('runs/teacher', 'avh'), ('run', 'avh_nearest:10'))
    """
    parts = text.split(":")
    for words in (2, 1):  # the longer name first
        name = ":".join(parts[-words:])
        if len(parts) > words and (words == 1 or name in SCORES):
            run = ":".join(parts[:-words])
            if run and name:
                return run, name
    raise InputError(f"a curriculum is written RUN:SCORE, as in teacher:avh, got {text!r}.")

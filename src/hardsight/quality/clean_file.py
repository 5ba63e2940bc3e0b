"""`clean_to_file`: what `hardsight clean` does: samples in files in, suspects in a file out; or a review in, labels out."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import given_probs
from hardsight.errors import InputError
from hardsight.files.class_names import read_class_names
from hardsight.files.kinds import kind_in_file
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.places import Place, place
from hardsight.files.suspects import clean_class_names, clean_columns, suspects_file, suspects_notes
from hardsight.files.table_writing import check_table_output
from hardsight.options import takes
from hardsight.quality.clean import Suspects, find_suspects
from hardsight.quality.evidence import checked_probs, samples_of
from hardsight.quality.review import Applied, apply_review, check_new_folder, write_images
from hardsight.quality.settings import CleanFileSettings
from hardsight.scoring.score_file import open_with_columns
from hardsight.screen import Progress, brief
from hardsight.table import read_scores, write_table
from hardsight.threads import sample_rows


@dataclass(frozen=True)
class Cleaned:
    """Where the table is, if it was written, and what is in it."""

    __repr__ = brief

    path: Place | None
    suspects: Suspects | None  # None where a review was applied
    applied: Applied | None
    images: int | None = None  # in the folder, if that is what was written


@takes(CleanFileSettings)
def clean_to_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    pred_probs: Any = None,
    settings: CleanFileSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Cleaned:
    """Find the suspects of a run or a file and write them; with `apply`, write the labels after a review instead.

    Args:
        source: a run directory, .npz, .npy, .parquet or a wide .csv.
        output: .parquet, .csv or .json; after a review also a new folder, for the images by class. Default: suspects.parquet of
            a run, or photo.suspects.parquet beside photo.npz; after a review, labels.parquet of a run. Nothing if `limit` or
            `split` leave samples out.
        pred_probs: another name of the option `probs`.
        settings: all options as one object; each is also a keyword of its own, see below.
        progress: called with the steps done, the steps in all, and what is going on.
    """
    settings = CleanFileSettings.given(settings, options)
    path = place(source)
    settings = dataclasses.replace(settings, probs=given_probs(settings.probs, pred_probs))
    target = _target(path, None if output is None else place(output), settings)
    if settings.apply is not None:
        return _apply(path, target, settings)
    snapshot = open_with_columns(path, settings)
    probs = _read_probs(settings.probs) if isinstance(settings.probs, (str, os.PathLike)) else settings.probs
    if not settings.all_samples:
        rows = sample_rows(settings, len(snapshot))
        probs = None if probs is None else checked_probs(probs, len(snapshot), snapshot.num_classes)[rows]
        snapshot = snapshot.of_rows(rows)
    samples = samples_of(snapshot, probs)
    if settings.class_names is not None:
        samples = dataclasses.replace(samples, class_names=read_class_names(settings.class_names, snapshot.num_classes))
    suspects = find_suspects(samples, settings, progress)
    if target is not None:
        write_table(_noted(suspects, settings), target)
    return Cleaned(target, suspects, None)


def _noted(suspects: Suspects, settings: CleanFileSettings) -> pa.Table:
    """The table with what was said on the command line of how to read the samples: explore and report read them the same way."""
    reading = {"columns": {"features": settings.features, "label": settings.label}, "class_names": suspects.samples.class_names}
    notes = {**reading, **suspects_notes(suspects.table)}
    return suspects.table.replace_schema_metadata({"hardsight": json.dumps(notes)})


def _apply(path: Place, target: Place | None, settings: CleanFileSettings) -> Cleaned:
    """The labels after a review, written as a table or as a folder of images."""
    columns = clean_columns(path) if isinstance(path, Path) else None
    if columns is not None and settings.features is None and settings.label is None:
        settings = dataclasses.replace(settings, features=columns["features"], label=columns["label"])
    scores = isinstance(path, Path) and path.is_file() and kind_in_file(path) == "scores"
    samples = read_scores(path) if scores else open_with_columns(path, settings)
    names = clean_class_names(path) if isinstance(path, Path) and (scores or samples.class_names is None) else None
    if settings.class_names is not None:
        names = read_class_names(settings.class_names, None if scores else samples.num_classes)
    applied = apply_review(samples, settings.apply, names)
    images = None
    if isinstance(target, Path) and _is_folder(target):
        images = write_images(applied, path, target)
    elif target is not None:
        write_table(applied.table, target)
    return Cleaned(target, None, applied, images)


def _is_folder(output: Place) -> bool:
    """Whether an output is a folder of images: it has no extension, or is there already."""
    return isinstance(output, Path) and (output.suffix == "" or output.is_dir())


def _read_probs(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of a .npy file; of a .npz, its probs or pred_probs, or the only array."""
    if Path(path).suffix != ".npz":
        return np.asarray(open_npy(path))
    arrays = open_npz(path)
    names = [name for name in arrays if name in ("probs", "pred_probs")] or list(arrays)
    if len(names) != 1:
        there = ", ".join(sorted(arrays)) or "none"
        raise InputError(f"{path}: probabilities must be the array probs or pred_probs, or the only one; arrays: {there}.")
    return np.asarray(arrays[names[0]])


def _target(source: Place, output: Place | None, settings: CleanFileSettings) -> Place | None:
    """Where to write, which is never over what is read."""
    whole = settings.all_samples and settings.split is None
    if output is None and settings.apply is None and whole and isinstance(source, Path) and source.exists():
        output = suspects_file(source)
    if output is None and source.is_dir() and (whole or settings.apply is not None):
        output = source / ("suspects.parquet" if settings.apply is None else "labels.parquet")
    if output is None and settings.apply is not None:
        raise InputError(
            "--apply writes the labels after the review: give -o labels.parquet, labels.csv, or a folder for the images."
        )
    if settings.apply is not None and isinstance(output, Path) and _is_folder(output):
        check_new_folder(output)
    elif output is not None:
        options = (settings.head, settings.labels, settings.probs, settings.class_names, settings.apply, settings.reference)
        check_table_output(output, "suspects" if settings.apply is None else "labels after a review", (source, *options))
    return output

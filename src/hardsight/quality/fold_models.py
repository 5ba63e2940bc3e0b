"""Whole networks by folds: each is trained without one fold, in a run of its own, and predicts it.

OUTPUT/fold-0/ ...          runs of `hardsight train`; one that was interrupted is resumed, a complete one is not trained again
OUTPUT/out-of-sample.npz    probs, labels and ids of every sample: `hardsight clean` reads it
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.checks import check_count, to_numpy
from hardsight.data import ImageData
from hardsight.errors import InputError
from hardsight.files.places import place_on_disk
from hardsight.scores.duplicates import find_repeats
from hardsight.scoring.fitted_head import fold_rows, head_probs
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.training.inputs import ArrayInputs, count_classes
from hardsight.training.sets import open_sets
from hardsight.training.settings import TrainSettings

HELD_OUT = "held-out"
OURS = ("watch", "snapshot")  # options that the folds decide
OF_DATA = ("split", "labels_from", "limit")  # options that say which samples: the folds are cut from those


def predict_by_folds(
    data: Any, labels: Any, model: Any, output: str | os.PathLike[str] | None, *,
    folds: int, seed: int, progress: Progress | None, training: Mapping[str, Any],
) -> np.ndarray:  # fmt: skip
    """(n, c) probabilities of each labeled sample of the data, in its order; NaN for an image that could not be read."""
    if model is None or output is None:
        raise InputError("to train networks by folds, give model= and output=; heads on features take neither, and no options.")
    taken = [name for name in OURS if name in training]
    if taken:
        raise InputError(f"{taken[0]} is decided by the folds and cannot be given.")
    samples = _samples(data if labels is None else (data, labels), TrainSettings.given(None, {"watch": {}, **training}))
    c = count_classes(samples)
    directory = place_on_disk(output)
    given = np.asarray(samples.labels)
    count = check_count(folds, "folds", 2)
    parts = list(fold_rows(given, count, seed, _copies(samples, count)))
    result = np.full((len(samples), c), np.nan)
    place_of = {id: row for row, id in enumerate(samples.ids)}
    for number, (train, test) in enumerate(parts):
        predicted = _train(_take(samples, train), _take(samples, test), model, directory / f"fold-{number}", training)
        for id, probs in predicted.items():
            result[place_of[id], : len(probs)] = probs
        if progress is not None:
            progress(number + 1, len(parts))
    names = None if samples.class_names is None else list(samples.class_names)
    together = Snapshot(probs=result, labels=given, ids=list(samples.ids), class_names=names)
    together.save(directory / "out-of-sample.npz")
    return result


def _samples(data: Any, settings: TrainSettings) -> ImageData | ArrayInputs:
    """What `hardsight train` would train on."""
    return open_sets(data, settings).train


def _copies(samples: ImageData | ArrayInputs, folds: int) -> np.ndarray | None:
    """(n,) row that stands for a sample and its near duplicates; None for images, which would have to be read for it."""
    if isinstance(samples, ImageData):
        return None
    inputs = samples.inputs.reshape(len(samples.inputs), -1)
    return find_repeats(inputs).originals(np.asarray(samples.labels), folds)


def _take(samples: ImageData | ArrayInputs, rows: np.ndarray) -> ImageData | ArrayInputs:
    if isinstance(samples, ImageData):
        return samples.take(rows)
    ids = [samples.ids[row] for row in rows]
    return ArrayInputs(samples.inputs[rows], samples.labels[rows], ids, samples.class_names)


def _train(kept: Any, test: Any, model: Any, directory: Path, training: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Train without the fold and predict it: id -> (c,) probabilities."""
    from hardsight.training.train import train

    directory.parent.mkdir(parents=True, exist_ok=True)
    options = {name: value for name, value in training.items() if name not in OF_DATA}
    watch = {HELD_OUT: _one_split(test)}
    train(_one_split(kept), copy.deepcopy(model), directory, watch=watch, snapshot=True, **options)  # each starts from the same
    snapshot = Snapshot.load(directory)
    assert snapshot.head is not None
    held_out = np.array(snapshot.columns(["split"]).column("split").to_pylist()) == HELD_OUT
    rows = np.flatnonzero(held_out)
    fold = snapshot.take(rows).in_memory()
    probs = head_probs(snapshot.head, to_numpy(fold.values))  # (b, c)
    return dict(zip(map(str, fold.ids), probs, strict=True))


def _one_split(samples: Any) -> Any:
    """Without the splits that the data came with: all of it is trained on, or all of it watched."""
    if not isinstance(samples, ImageData) or "split" not in samples.columns:
        return samples
    return replace(samples, columns={name: column for name, column in samples.columns.items() if name != "split"})

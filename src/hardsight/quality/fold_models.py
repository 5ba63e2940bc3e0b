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

from hardsight.data import ImageData
from hardsight.data.dataset import num_classes
from hardsight.errors import InputError
from hardsight.extraction.feed import ArrayInputs
from hardsight.files.places import place_on_disk
from hardsight.scores.duplicates import find_repeats
from hardsight.scoring.fitted_head import fold_rows, head_probs
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot
from hardsight.training.sets import open_sets
from hardsight.training.settings import TrainSettings

HELD_OUT = "held-out"
OURS = ("watch", "snapshot")  # options that the folds decide
OF_DATA = ("split", "labels_from", "limit")  # options that say which samples: the folds are cut from those


class FoldRuns:
    """Networks that are each trained without one fold, in runs below `output`."""

    def __init__(self, model: Any = None, output: str | os.PathLike[str] | None = None, **training: Any) -> None:
        if model is None or output is None:
            raise InputError(
                "to train networks by folds, give model= and output=; heads on features take neither, and no options."
            )
        taken = [name for name in OURS if name in training]
        if taken:
            raise InputError(f"{taken[0]} is decided by the folds and cannot be given.")
        self.model, self.directory, self.training = model, place_on_disk(output), training

    def predict(self, data: Any, folds: int, seed: int, progress: Progress | None) -> np.ndarray:
        """(n, c) probabilities of each labeled sample of the data, in its order; NaN for an image that could not be read."""
        samples = open_sets(data, TrainSettings.given(None, {"watch": {}, **self.training})).train
        labels, ids = np.asarray(samples.labels), list(samples.ids)
        result = np.full((len(samples), num_classes(samples)), np.nan)
        row_of = {id: row for row, id in enumerate(ids)}
        parts = list(fold_rows(labels, folds, seed, _copies(samples, folds)))
        for number, (train, test) in enumerate(parts):
            run = self.directory / f"fold-{number}"
            predicted = _train(_take(samples, train), _take(samples, test), self.model, run, self.training)
            for id, probs in predicted.items():
                result[row_of[id], : len(probs)] = probs
            if progress is not None:
                progress(number + 1, len(parts))
        names = None if samples.class_names is None else list(samples.class_names)
        Snapshot(probs=result, labels=labels, ids=ids, class_names=names).save(self.directory / "out-of-sample.npz")
        return result


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
    own = copy.deepcopy(model)  # each starts from the same
    train(_one_split(kept), directory, model=own, watch=watch, snapshot=True, **options)
    fold = Snapshot.load(directory).of_split(HELD_OUT)
    assert fold.head is not None and fold.features is not None
    return dict(zip(map(str, fold.ids), head_probs(fold.head, fold.features), strict=True))


def _one_split(samples: Any) -> Any:
    """Without the splits that the data came with: all of it is trained on, or all of it watched."""
    if not isinstance(samples, ImageData) or "split" not in samples.columns:
        return samples
    return replace(samples, columns={name: column for name, column in samples.columns.items() if name != "split"})

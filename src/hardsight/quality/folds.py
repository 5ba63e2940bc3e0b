"""Out-of-sample predictions: what a model says of a sample that it has not learned from.

`out_of_sample` fits heads to features by folds, which takes seconds (scoring/fitted_head.py). Given a network, it trains whole
ones, each without one fold, in a run of its own:

OUTPUT/fold-0/ ...          runs of `hardsight train`; one that was interrupted is resumed, a complete one is not trained again
OUTPUT/out-of-sample.npz    probs, labels and ids of every sample: `hardsight clean` reads it
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.checks import as_matrix, check_count, check_some_columns, to_numpy
from hardsight.data import ImageData
from hardsight.data.dataset import num_classes
from hardsight.errors import InputError
from hardsight.files.places import place_on_disk
from hardsight.labels import whole_labels
from hardsight.pandas_index import align
from hardsight.scores.duplicates import find_repeats
from hardsight.scoring.fitted_head import FOLDS, fold_rows, head_probs, unseen_heads
from hardsight.screen import Progress
from hardsight.snapshot import Snapshot

HELD_OUT = "held-out"
OURS = ("watch", "snapshot")  # options of `hardsight.train` that the folds decide
OF_DATA = ("split", "labels_from", "limit")  # options that say which samples: the folds are cut from those


def out_of_sample(
    features: Any, labels: Any = None, *, folds: int = FOLDS, seed: int = 0, progress: Any = None, **network: Any
) -> np.ndarray:
    """(n, c) probabilities of each sample by models that were not trained on it.

    Args:
        features: (n, d) features; or with `model`, what `hardsight.train` takes as data: (n, ...) inputs, or images.
        labels: (n,) given class; -1 for unlabeled, which a head fitted to all others predicts.
        folds: parts the samples are cut into, each with its share of every class; fewer where a class has fewer samples.
            Near duplicates, by their features or by inputs that are arrays, are in one part.
        seed: random seed of the folds.
        progress: called with the folds done and the folds in all.
        model: train this network for every fold instead of fitting a head: a name or an nn.Module.
        output: with `model`, the directory to train in, one run per fold; an interrupted training is resumed.
        **network: with `model`, also options of `hardsight.train`, such as epochs.

    Example:
        >>> features = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
        >>> out_of_sample(features, [0, 0, 0, 1, 1, 1], folds=3).argmax(axis=1)
        array([0, 0, 0, 1, 1, 1])
    """
    if network:
        data = features if labels is None else (features, labels)
        return predict_by_networks(data, network, check_count(folds, "folds", 2), seed, progress)
    matrix = as_matrix(features, "features")
    check_some_columns(matrix, "features")
    if labels is None:
        raise InputError("out-of-sample predictions need labels to learn from: give labels=.")
    values, parts = to_numpy(matrix), check_count(folds, "folds", 2)
    classes, known = numbered(whole_labels(align(labels, "labels", features, "features"), len(matrix), None))
    originals = find_repeats(values).originals(known, parts)
    predicted = predict_by_heads(values, known, originals, folds=parts, seed=seed, progress=progress)
    result = np.zeros((len(predicted), int(classes.max(initial=-1)) + 1))  # a class without a label has no probability
    result[:, classes] = predicted
    result[np.isnan(predicted).any(axis=1)] = np.nan
    return result


def numbered(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes of (n,) labels in order, and the (n,) labels as indices into them; -1 stays -1.

    Example:
        >>> numbered(np.array([70, -1, 20, 70]))
        (array([20, 70]), array([ 1, -1,  0,  1]))
    """
    classes = np.unique(labels[labels >= 0])
    return classes, np.where(labels >= 0, np.searchsorted(classes, labels), -1)


def predict_by_heads(
    features: np.ndarray, labels: np.ndarray, originals: np.ndarray | None, groups: np.ndarray | None = None, **fitting: Any
) -> np.ndarray:
    """(n, d), (n,) -> (n, c) probabilities of each sample by heads that were fitted without its fold, NaN where not usable.

    The arrays are checked already; c is the largest label and one. A head is logistic regression on standardized features.
    Samples that share a number of the (n,) `originals` are copies, and in one fold; so are those that share one of the `groups`.
    `fitting` are folds, seed and progress of `unseen_heads`.
    """
    if groups is not None and originals is not None:
        groups = joined_groups(groups, originals)
    result = np.full((len(labels), int(labels.max(initial=-1)) + 1), np.nan)
    for rows, head in unseen_heads(features, labels, originals, groups=groups, **fitting):
        result[rows] = head_probs(head, features[rows])
    return result


def joined_groups(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(n,) numbers that rows share if a chain of rows with the same number of either connects them.

    Example:
        >>> joined_groups(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7]))
        array([0, 0, 0, 1])
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    rows = np.arange(len(first))
    firsts = [np.unique(numbers, return_index=True, return_inverse=True)[1:] for numbers in (first, second)]
    heads = np.concatenate([index[inverse] for index, inverse in firsts])  # the first row of each row's group
    links = coo_matrix((np.ones(2 * len(rows)), (np.tile(rows, 2), heads)), (len(rows), len(rows)))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


# Whole networks


def predict_by_networks(data: Any, network: Mapping[str, Any], folds: int, seed: int, progress: Progress | None) -> np.ndarray:
    """(n, c) probabilities of each labeled sample of the data, in its order; NaN for an image that could not be read.

    `network` is its `model`, the `output` below which the runs are, and options of `hardsight.train`.
    """
    from hardsight.training.sets import open_sets
    from hardsight.training.settings import TrainSettings

    training = {name: value for name, value in network.items() if name not in ("model", "output")}
    model, output = network.get("model"), network.get("output")
    if model is None or output is None:
        raise InputError("to train networks by folds, give model= and output=; heads on features take neither, and no options.")
    taken = [name for name in OURS if name in training]
    if taken:
        raise InputError(f"{taken[0]} is decided by the folds and cannot be given.")
    directory, samples = place_on_disk(output), open_sets(data, TrainSettings.given(None, {"watch": {}, **training})).train
    labels, ids = np.asarray(samples.labels), list(samples.ids)
    result = np.full((len(samples), num_classes(samples)), np.nan)
    row_of = {id: row for row, id in enumerate(ids)}
    parts = list(fold_rows(labels, folds, seed, _copies(samples, folds)))
    for number, (train, test) in enumerate(parts):
        kept, held_out = _part(samples, train), _part(samples, test)
        for id, probs in _train(kept, held_out, model, directory / f"fold-{number}", training).items():
            result[row_of[id], : len(probs)] = probs
        if progress is not None:
            progress(number + 1, len(parts))
    names = None if samples.class_names is None else list(samples.class_names)
    Snapshot(probs=result, labels=labels, ids=ids, class_names=names).save(directory / "out-of-sample.npz")
    return result


def _copies(samples: Any, folds: int) -> np.ndarray | None:
    """(n,) row that stands for a sample and its near duplicates; None for images, which would have to be read for it."""
    if not hasattr(samples, "inputs"):
        return None
    return find_repeats(samples.inputs.reshape(len(samples), -1)).originals(np.asarray(samples.labels), folds)


def _train(kept: Any, test: Any, model: Any, directory: Path, training: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Train without the fold and predict it: id -> (c,) probabilities."""
    from hardsight.training.train import train

    directory.parent.mkdir(parents=True, exist_ok=True)
    options = {name: value for name, value in training.items() if name not in OF_DATA}
    own = copy.deepcopy(model)  # each starts from the same
    train(kept, directory, model=own, watch={HELD_OUT: test}, snapshot=True, **options)
    fold = Snapshot.load(directory).of_split(HELD_OUT)
    assert fold.head is not None and fold.features is not None
    return dict(zip(map(str, fold.ids), head_probs(fold.head, fold.features), strict=True))


def _part(samples: Any, rows: np.ndarray) -> Any:
    """Some of the samples, without the splits that they came with: all of them are trained on, or all of them watched."""
    part = samples.take(rows)
    if isinstance(part, ImageData):
        return replace(part, columns={name: column for name, column in part.columns.items() if name != "split"})
    part.columns = {}
    return part

"""Held-out samples mixed with odd ones: unseen classes, scrambled images, unusual views, or copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from benchmarks import peers
from benchmarks.injection import VIEWS, copied, scrambled
from benchmarks.pictures import ImageSet, train
from benchmarks.scored import EPOCHS, FINAL, REFERENCE, Scores, as_hardness, probabilities
from hardsight import SCORES, Snapshot, score
from hardsight.scores import near_duplicates
from hardsight.screen import Progress

LEFT_OUT = 2  # number of classes (the last ones) left out of training
TRAINED = 0.6  # share of the other images used for training
UNLABELED = ("near", "far")  # inputs of no class have no label, nor do the samples they are mixed with


@dataclass(frozen=True, eq=False)
class OddInputs:
    """The images of a dataset, split by a seed into training and held-out samples.

    Attributes:
        pictures: all images.
        seed: random seed of the split and of the odd images.
        run: run directory of the network.
    """

    pictures: ImageSet
    seed: int
    run: Path

    @cached_property
    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on, and held-out rows, in random order."""
        labels = self.pictures.labels
        rng = np.random.default_rng([self.seed, len(labels)])
        known = rng.permutation(np.flatnonzero(labels < self.pictures.num_classes - LEFT_OUT))
        cut = round(TRAINED * len(known))
        return known[:cut], known[cut:]

    @cached_property
    def sets(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Images and labels of the held-out samples (`known`), and half as many odd ones of each kind, the highest rate.

        The first odd view, copy or scrambled image is made from the first held-out image, and so on.
        """
        images, labels = self.pictures.images, self.pictures.labels
        _, held_out = self._split
        rng = np.random.default_rng([self.seed, 1])
        some = held_out[: len(held_out) // 2]
        never_seen = rng.permutation(np.flatnonzero(labels >= self.pictures.num_classes - LEFT_OUT))[: len(some)]
        sets = {"known": (images[held_out], labels[held_out])}
        sets["near"] = images[never_seen], np.full(len(never_seen), -1)
        sets["far"] = scrambled(images[some], rng), np.full(len(some), -1)
        sets |= {kind: (view(images[some], rng), labels[some]) for kind, view in VIEWS.items()}
        sets["duplicate"] = copied(images[some], rng), labels[some]
        return sets

    def train(self, progress: Progress) -> None:
        """Train the network on clean labels, and evaluate every set after each epoch."""
        learned, _ = self._split
        labels = np.full(len(self.pictures.labels), -1)
        labels[learned] = self.pictures.labels[learned]
        train(self.pictures, labels, self.run, self.seed, self.sets, progress=progress)

    def scored(self, kind: str, rate: float) -> tuple[Scores, np.ndarray]:
        """Scores of held-out samples with a share of odd ones, and (n,) which are odd."""
        rows, hard = mixed(self._rows["known"], self._rows[kind], rate, pairs=kind == "duplicate")
        labeled = kind not in UNLABELED
        features = self._batch.values[rows]  # (n, d)
        labels = self._batch.labels[rows] if labeled else None
        table = score(features, self._snapshot.head, labels, scores="all")
        scores = {(FINAL, name): values for name, values in as_hardness(table).items()}
        scores |= {(REFERENCE, name): values for name, values in self._by_reference(features, labels).items()}
        if labeled:
            scores |= {(EPOCHS, name): values[rows] for name, values in self._dynamics.items()}
        if kind == "duplicate":
            scores[FINAL, "near_duplicates"] = -near_duplicates(features).distance
            scores |= {(FINAL, name): values for name, values in peers.near_duplicates(features).items()}
        return scores, hard

    def _by_reference(self, features: np.ndarray, labels: np.ndarray | None) -> dict[str, np.ndarray]:
        """Scores fitted to the training set, ours and those of other libraries."""
        learned = self._rows["train"]
        train_features, train_labels = self._batch.values[learned], self._batch.labels[learned]
        names = [name for name, entry in SCORES.items() if entry.scope == "reference"]
        reference = Snapshot(train_features, self._snapshot.head, train_labels)
        ours = as_hardness(score(features, self._snapshot.head, labels, scores=names, reference=reference))
        probs, train_probs = (probabilities(self._snapshot.head, x) for x in (features, train_features))
        return ours | peers.outliers(features, probs, (train_features, train_probs, train_labels))

    @cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot.load(self.run)

    @cached_property
    def _batch(self) -> Any:
        """Features and labels of all samples."""
        return self._snapshot.in_memory()

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Rows of the snapshot by set, in the order of the set."""
        split = self._snapshot.columns(["split"]).column("split")
        return {name: np.flatnonzero(pc.equal(split, name).to_numpy()) for name in ("train", *self.sets)}

    @cached_property
    def _dynamics(self) -> dict[str, np.ndarray]:
        """Dynamics scores of every sample."""
        columns = as_hardness(score(self.run, scores="all"))
        return {name: values for name, values in columns.items() if SCORES[name].scope == "dynamics"}


def mixed(known: np.ndarray, odd: np.ndarray, rate: float, *, pairs: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of as many samples as are known, a share of them odd: (n,) rows and (n,) bool.

    Odd samples replace those that they were made from. With `pairs`, for copies, both a copy and its original count as odd:
    half of the odd samples are copies and half are their originals.

    Example:
        >>> mixed(np.arange(4), np.arange(10, 12), 0.25)
        (array([10,  1,  2,  3]), array([ True, False, False, False]))
        >>> mixed(np.arange(4), np.arange(10, 12), 0.5, pairs=True)
        (array([10,  0,  1,  2]), array([ True,  True, False, False]))
    """
    n = len(known)
    count = max(1, round(rate * n / 2)) if pairs else min(len(odd), max(1, round(rate * n)))
    rows = np.concatenate([odd[:count], known[: n - count] if pairs else known[count:]])
    return rows, np.arange(n) < (2 * count if pairs else count)

"""Digits 0 to 5 to train on, and 6 to 9 as classes that the network has never seen: features, and episodes of few samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight.training import Trained
from hardsight_papers.arrays import even_rows
from hardsight_papers.context import Context
from hardsight_papers.digit_trainings import TRAINING, all_digits, features_of, few_digits, trained
from hardsight_papers.seed_statistics import SEEDS

KNOWN = 6  # digits 0 to 5; those from 6 on are new
MOST = {"known": 600, "new": 700}
EPISODES = {"count": 100, "queries": 15}


def known_and_new(context: Context) -> tuple[ImageData, ImageData]:
    """Some of the digits 0 to 5, and some of 6 to 9, whose labels are counted from 0."""
    data = all_digits(context)
    assert data.labels is not None
    parts = []
    for name, rows in (("known", np.flatnonzero(data.labels < KNOWN)), ("new", np.flatnonzero(data.labels >= KNOWN))):
        part = data.take(rows[even_rows(len(rows), min(MOST[name], len(rows)))])
        assert part.labels is not None
        low, high = (0, KNOWN) if name == "known" else (KNOWN, 10)
        parts.append(replace(part, labels=part.labels - low, class_names=[str(digit) for digit in range(low, high)]))
    return parts[0], parts[1]


def trained_on_known(context: Context, loss: str, options: Mapping[str, Any], seed: int) -> Trained:
    """A network that has seen every second of the known digits; the others are tested on."""
    known, _ = known_and_new(context)
    rows = np.arange(len(known))
    digits = replace(few_digits(context), train=known.take(rows[::2]), test=known.take(rows[1::2]))
    return trained(context, digits, loss, options, seed=seed)


def features_of_new(context: Context, run: Trained) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) features and (n,) labels of the classes never seen, labels counted from 0."""
    return features_of(context, run, known_and_new(context)[1])


def episode_accuracy(features: np.ndarray, labels: np.ndarray, shots: int, seed: int) -> float:
    """Per cent of queries nearest, by Euclidean distance, to the mean of their class's `shots` samples; over some episodes.

    A loss that looks at directions alone is judged by them: give it `directions(features)`.

    Example:
        >>> features = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0)
        >>> episode_accuracy(features, np.repeat([0, 1], 20), shots=1, seed=0)
        100.0
    """
    rng, right = np.random.default_rng([seed, shots]), []
    classes = np.unique(labels)
    for _ in range(EPISODES["count"]):
        drawn = [rng.permutation(np.flatnonzero(labels == k))[: shots + EPISODES["queries"]] for k in classes]
        means = np.stack([features[rows[:shots]].mean(0) for rows in drawn])  # (c, d)
        queries = np.concatenate([features[rows[shots:]] for rows in drawn])
        answers = np.repeat(np.arange(len(classes)), [len(rows) - shots for rows in drawn])
        square = (queries**2).sum(1, keepdims=True) - 2 * queries @ means.T + (means**2).sum(1)
        right.append((square.argmin(1) == answers).mean())
    return 100 * float(np.mean(right))


def about(context: Context) -> str:
    """What was trained on what, in a sentence."""
    known, new = known_and_new(context)
    name = "MNIST" if context.data.has("mnist") else "digits"
    return (
        f"{name}; a network trained {TRAINING['epochs']} epochs on {(len(known) + 1) // 2} images of digits 0 to 5, and "
        f"{len(new)} images of 6 to 9, which it has never seen."
    )


def about_seeds(context: Context) -> str:
    """The same, with several seeds."""
    return about(context) + f" {SEEDS} seeds; intervals of 95 % over them."

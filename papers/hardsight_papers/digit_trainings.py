"""What recipes of several papers share: few digits to train on, the others to test on, and one way to train.

With all digits every loss is nearly always right. With few of them losses differ, and the others make a larger test set.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.data import ImageData, open_data
from hardsight.training import Trained
from hardsight_papers.arrays import even_rows, open_labeled
from hardsight_papers.context import Context, Handwriting
from hardsight_papers.seed_statistics import SEEDS

SIZES = {"train": 300, "test": 1000}
WRONG = 0.3  # of the labels, where some are wrong
LEARNED = 99.0  # per cent of its training images that cross-entropy must have right in the last epoch
# Rate and length were chosen once, by that alone: no other loss and no test image was looked at. Of 15, 20, 30, ... epochs at
# rates of 0.002, 0.005 and 0.01 these are the shortest, and then the lowest, at which every baseline of cross-entropy has
# learned: ten digits, digits 0 to 5 and both tasks of two classes, of scikit-learn and of MNIST, in the mean of five seeds.
TRAINING: dict[str, Any] = {
    "epochs": 20, "batch_size": 32, "optimizer": "adamw", "lr": 5e-3, "schedule": "cosine", "snapshot": False,
}  # fmt: skip


def all_digits(context: Context) -> ImageData:
    """Every digit there is, of any split: MNIST's where --data has them."""
    path = context.data.find("mnist")
    return replace(open_data("digits") if path is None else open_labeled(path), columns={})


def few_digits(context: Context) -> Handwriting:
    """300 digits to train on and 1,000 to test on, both spread evenly over all."""
    data = all_digits(context)
    train = even_rows(len(data), min(SIZES["train"], len(data) // 2))
    rest = np.setdiff1d(np.arange(len(data)), train)
    test = rest[even_rows(len(rest), min(SIZES["test"], len(rest)))]
    name, model = ("MNIST", "lenet") if context.data.has("mnist") else ("digits", "DigitsCNN")
    return Handwriting(name, data.take(train), data.take(test), model)


def trained(
    context: Context, digits: Handwriting, loss: str, options: Mapping[str, Any] | None = None, **settings: Any
) -> Trained:
    """One training with a loss. Nothing is tested while it lasts, since the last epoch counts: see `tested`."""
    settings = {**TRAINING, "watch": {}, **settings}
    return context.train(digits.train, digits.model, loss=loss, loss_options=dict(options or {}), **settings)


def features_of(context: Context, run: Trained, data: ImageData) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) features and (n,) labels of some digits, by a trained network."""
    batch = context.extract(run.run, data).in_memory()
    return np.array(batch.values), np.array(batch.labels)  # writable, as torch wants it


def tested(context: Context, runs: list[Trained], test: ImageData) -> np.ndarray:
    """(seeds,) per cent of the test images that each network classifies right."""
    shares = []
    for run in runs:
        features, labels = features_of(context, run, test)
        shares.append(100 * float((np.asarray(run.head.logits(features)).argmax(1) == labels).mean()))
    return np.array(shares)


def accuracies(runs: list[Trained], split: str = "train") -> np.ndarray:
    """(seeds,) accuracy in per cent in the last epoch of each training: on its own images, or on a set that it watched."""
    return np.array([100 * run.history[-1][split]["accuracy"] for run in runs])


def with_wrong_labels(data: ImageData, share: float, seed: int) -> tuple[ImageData, np.ndarray]:
    """The same data with a share of its labels replaced by another class, and (n,) which are wrong.

    Example:
        >>> from hardsight.data import open_data
        >>> data = open_data("digits")
        >>> noisy, wrong = with_wrong_labels(data, 0.3, seed=0)
        >>> int(wrong.sum()), bool(((noisy.labels != data.labels) == wrong).all())
        (539, True)
    """
    assert data.labels is not None
    rng, n, c = np.random.default_rng([seed, 17]), len(data), int(data.labels.max()) + 1
    wrong = np.zeros(n, bool)
    wrong[rng.permutation(n)[: round(share * n)]] = True
    moved = (data.labels + rng.integers(1, c, n)) % c  # never the label itself
    return replace(data, labels=np.where(wrong, moved, data.labels)), wrong


def trained_with_wrong_labels(
    context: Context, loss: str, options: Mapping[str, Any] | None, seed: int
) -> tuple[Trained, np.ndarray]:
    """A training with 30 % wrong labels, drawn by the seed and the same for every loss; and (n,) which are wrong."""
    digits = few_digits(context)
    noisy, wrong = with_wrong_labels(digits.train, WRONG, seed)
    return trained(context, replace(digits, train=noisy), loss, options, seed=seed), wrong


def fitted(runs: Mapping[str, list[Trained]]) -> str:
    """How much of the training images each loss has learned: one that has not learned them all may only be slower."""
    shares = ", ".join(f"{name} {accuracies(each).mean():.1f} %" for name, each in runs.items())
    return f" Right on training images at the end, in mean: {shares}."


@contextmanager
def unconverged() -> Iterator[None]:
    """Suppress convergence warnings: the accuracy of a nearly separable regression settles long before it converges."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def about(digits: Handwriting) -> str:
    """What was trained on what, in a sentence."""
    return (
        f"{digits.name}, {len(digits.train):,} images to train on and {len(digits.test):,} others to test on; {digits.model}, "
        f"{TRAINING['epochs']} epochs, {SEEDS} seeds; intervals of 95 % over seeds."
    )

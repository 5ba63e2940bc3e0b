"""What recipes of several papers share: few digits to train on, the others to test on, several seeds, paired differences.

With all digits every loss is nearly always right. With few of them losses differ, and the others make a larger test set.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.data import ImageData
from hardsight.stats import Mean, bootstrap, mean_interval
from hardsight_papers.arrays import open_labeled
from hardsight_papers.context import Context, Handwriting
from hardsight_papers.recipe import Claim, claim

if TYPE_CHECKING:
    from hardsight.training import Trained

SIZES = {"train": 300, "test": 1000}
SEEDS = 5
WRONG = 0.3  # of the labels, where some are wrong
LEARNED = 99.0  # per cent of its training images that cross-entropy must have right in the last epoch
# Rate and length were chosen once, by that alone: no other loss and no test image was looked at. Of 15, 20, 30, ... epochs at
# rates of 0.002, 0.005 and 0.01 these are the shortest, and then the lowest, at which every baseline of cross-entropy has
# learned: ten digits, digits 0 to 5 and both tasks of two classes, of scikit-learn and of MNIST, in the mean of five seeds.
TRAINING: dict[str, Any] = {
    "epochs": 20,
    "batch_size": 32,
    "optimizer": "adamw",
    "lr": 5e-3,
    "schedule": "cosine",
    "snapshot": False,
}


def all_digits(context: Context) -> ImageData:
    """Every digit there is, of any split: MNIST's where --data has them."""
    from hardsight.data import open_data

    path = context.data.find("mnist")
    return replace(open_data("digits") if path is None else open_labeled(path), columns={})


def few_digits(context: Context, data: ImageData | None = None) -> Handwriting:
    """300 digits to train on and 1,000 to test on, both spread evenly over all (or over `data`)."""
    from hardsight_papers.arrays import even_rows

    data = all_digits(context) if data is None else data
    train = even_rows(len(data), min(SIZES["train"], len(data) // 2))
    rest = np.setdiff1d(np.arange(len(data)), train)
    test = rest[even_rows(len(rest), min(SIZES["test"], len(rest)))]
    name, model = ("MNIST", "lenet") if context.data.has("mnist") else ("digits", "DigitsCNN")
    return Handwriting(name, data.take(train), data.take(test), model)


def seeds(context: Context) -> range:
    """The seeds of a comparison: every loss is trained with each of them."""
    return range(context.seed, context.seed + SEEDS)


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


def difference(first: np.ndarray, second: np.ndarray | float) -> Mean:
    """Mean of first - second over seeds, which both share, with Student's 95 % interval.

    Example:
        >>> gap = difference(np.array([3.0, 4.0, 5.0]), np.array([1.0, 1.0, 1.0]))
        >>> gap.value, round(gap.low, 2), round(gap.high, 2)
        (3.0, 0.52, 5.48)
    """
    return mean_interval(np.asarray(first, np.float64) - np.asarray(second, np.float64))


def ahead(
    text: str,
    first: np.ndarray,
    second: np.ndarray | float = 0.0,
    *,
    rule: str,
    digits: int = 1,
    unit: str = " points",
    also: str = "",
) -> Claim:
    """The claim that the 95 % interval over seeds of first - second lies above 0; `also` is said after the difference.

    Example:
        >>> ahead("A is better.", np.array([3.0, 4.0, 5.0]), np.ones(3), rule="The interval lies above 0.").found
        '+3.0 [+0.5, +5.5] points.'
    """
    gap = difference(first, second)
    return claim(text, rule=rule, holds=gap.low > 0, found=f"{signed(gap, digits)}{unit}{also}.")


def all_ahead(text: str, gaps: Mapping[str, Mean], *, rule: str, digits: int = 1) -> Claim:
    """The claim that the 95 % interval of every difference lies above 0."""
    found = "; ".join(f"{name} {signed(gap, digits)}" for name, gap in gaps.items())
    return claim(text, rule=rule, holds=all(gap.low > 0 for gap in gaps.values()), found=f"{found} points.")


def signed(gap: Mean, digits: int = 1) -> str:
    """A difference as text: +3.0 [+0.5, +5.5]."""
    return f"{gap.value:+.{digits}f} [{gap.low:+.{digits}f}, {gap.high:+.{digits}f}]"


def interval(values: np.ndarray, digits: int = 1) -> str:
    """A mean over seeds as text: 91.2 [90.1, 92.3]."""
    mean = mean_interval(np.asarray(values, np.float64))
    return f"{mean.value:.{digits}f} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]"


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


def about(digits: Handwriting, epochs: int | None = None) -> str:
    """What was trained on what, in a sentence."""
    return (
        f"{digits.name}, {len(digits.train):,} images to train on and {len(digits.test):,} others to test on; {digits.model}, "
        f"{epochs or TRAINING['epochs']} epochs, {SEEDS} seeds; intervals of 95 % over seeds."
    )


def spearman_interval(
    x: np.ndarray, y: np.ndarray, *, replicates: int, seed: int, clusters: np.ndarray | None = None
) -> tuple[float, float, float]:
    """The coefficient and the ends of its 95 % interval; NaN, -1 and 1 where a column never varies.

    Args:
        x, y: (n,) numbers.
        replicates: number of times the samples are drawn again.
        seed: random seed.
        clusters: (n,) rows with the same value are drawn together, such as the copies of one image.

    Example:
        >>> x = np.arange(20.0)
        >>> [round(value, 6) for value in spearman_interval(x, x**2, replicates=10, seed=0)]
        [1.0, 1.0, 1.0]
    """
    from scipy.stats import spearmanr

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan"), -1.0, 1.0
    draws = bootstrap(x[:, None], y, replicates=replicates, seed=seed, clusters=clusters)
    return float(spearmanr(x, y).statistic), *draws.interval("spearman", 0)

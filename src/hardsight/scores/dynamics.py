"""Scores of a sample over the epochs of a training run: what happened on the way, not where it ended.

They need a run with dynamics (`hardsight train`, or `hardsight.Dynamics` in your own loop) and are requested by name or
with `all`. Epochs in which a sample was not seen, or had no label, do not count. As functions they take the columns of
the dynamics files as (e, n) arrays: e epochs, n samples, NaN where a sample was not seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from hardsight.errors import InputError
from hardsight.scores.registry import SCORES, Score

FORGETTING = "Toneva et al., ICLR 2019"
CARTOGRAPHY = "Swayamdipta et al., EMNLP 2020"


class Story:
    """Running statistics of n samples over the epochs: counts, means and squares; no epoch is kept."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.num_samples = 0
        self.last_epoch = 0
        self.count = {name: np.zeros(0) for name in columns}  # epochs in which the column had a value
        self.mean = {name: np.zeros(0) for name in columns}
        self.squares = {name: np.zeros(0) for name in columns}  # of the distances to the mean, summed (Welford)
        self.last = {name: np.zeros(0) for name in columns}  # value when last seen
        self.was_correct = np.zeros(0)  # 1 or 0 when last seen, NaN if not seen yet
        self.forgotten = np.zeros(0)  # how often right became wrong
        self.learned = np.zeros(0)  # first epoch in which it was right, NaN if there was none

    def grow(self, num_samples: int) -> None:
        """Make room for samples seen for the first time."""
        more = num_samples - self.num_samples
        for table in (self.count, self.mean, self.squares, self.last):
            for name, values in table.items():
                table[name] = np.append(values, np.zeros(more))
        self.forgotten = np.append(self.forgotten, np.zeros(more))
        self.was_correct, self.learned = (np.append(old, np.full(more, np.nan)) for old in (self.was_correct, self.learned))
        self.num_samples = num_samples

    def see(self, epoch: int, columns: Mapping[str, np.ndarray], at: Any = slice(None)) -> None:
        """One epoch: a value per sample and column for the samples `at`, NaN where there is none."""
        self.last_epoch = max(self.last_epoch, epoch)
        for name in self.columns:
            value = np.asarray(columns[name], dtype=np.float64)
            there = ~np.isnan(value)
            self.count[name][at] += there
            mean = self.mean[name][at]
            step = np.where(there, value - mean, 0.0)
            moved = mean + step / np.maximum(self.count[name][at], 1)
            self.squares[name][at] += step * np.where(there, value - moved, 0.0)
            self.mean[name][at] = moved
            self.last[name][at] = np.where(there, value, self.last[name][at])
        if "correct" in self.columns:
            self._see_correct(epoch, np.asarray(columns["correct"], dtype=np.float64), at)

    def _see_correct(self, epoch: int, correct: np.ndarray, at: Any) -> None:
        before, learned = self.was_correct[at], self.learned[at]
        self.forgotten[at] += (before == 1) & (correct == 0)
        self.learned[at] = np.where(np.isnan(learned) & (correct == 1), epoch, learned)
        self.was_correct[at] = np.where(np.isnan(correct), before, correct)

    def mean_of(self, name: str) -> np.ndarray:
        """(n,) mean over the epochs in which there was a value."""
        return np.where(self.count[name] > 0, self.mean[name], np.nan)


def dynamics_score(
    *, hard: Literal["high", "low"], range: str, formula: str, source: str, columns: tuple[str, ...]
) -> Callable[[Callable[[Story], np.ndarray]], Callable[..., np.ndarray]]:
    """Register a formula on a `Story` as a score, and make it a function of (e, n) columns of the dynamics."""

    def register(of: Callable[[Story], np.ndarray]) -> Callable[..., np.ndarray]:
        name = of.__name__
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(column, kind) for column in columns])

        def function(*args: Any, **kwargs: Any) -> np.ndarray:
            arguments = signature.bind(*args, **kwargs).arguments
            return of(_story(name, {column: np.asarray(values) for column, values in arguments.items()}))

        function.__name__ = function.__qualname__ = name
        function.__doc__, function.__module__ = of.__doc__, of.__module__
        function.__signature__ = signature  # type: ignore[attr-defined]
        SCORES[name] = Score(name, hard, "dynamics", True, range, formula, source, function, columns=columns, story=of)
        return function

    return register


def _story(name: str, columns: dict[str, np.ndarray]) -> Story:
    """The story that (e, n) columns tell, checked."""
    shapes = {values.shape for values in columns.values()}
    if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
        got = ", ".join(f"{column} {values.shape}" for column, values in columns.items())
        raise InputError(f"{name} takes (e, n) columns of one shape, a row per epoch and a column per sample, got {got}.")
    unfit = [column for column, values in columns.items() if values.dtype.kind not in "fiub"]
    if unfit:
        raise InputError(f"{unfit[0]} must hold numbers, got {columns[unfit[0]].dtype}.")
    story = Story(tuple(columns))
    (shape,) = shapes
    story.grow(shape[1])
    for epoch in range(shape[0]):
        story.see(epoch + 1, {column: values[epoch] for column, values in columns.items()})
    return story


@dynamics_score(
    hard="low",
    range="(-inf, inf)",
    formula="mean_e (z_y - max_{k != y} z_k)",
    source="Pleiss et al., NeurIPS 2020",
    columns=("logit_margin",),
)
def aum(story: Story) -> np.ndarray:
    """Area under the margin: the logit margin of the given class, averaged over the epochs.

    Low or negative: other classes won most of the time, as they do for wrong labels.

    Example:
        >>> aum([[1.0, -2.0], [3.0, -4.0]])  # two epochs of two samples
        array([ 2., -3.])
    """
    return story.mean_of("logit_margin")


@dynamics_score(
    hard="high", range="[0, sqrt 2]", formula="mean_e |p - onehot(y)|_2", source="Paul et al., NeurIPS 2021", columns=("el2n",)
)
def mean_el2n(story: Story) -> np.ndarray:
    """EL2N averaged over the epochs; the paper averages the first few epochs over several trainings."""
    return story.mean_of("el2n")


@dynamics_score(
    hard="high",
    range="[0, 1]",
    formula="mean_e (angle(x, w_y) / sum_k angle(x, w_k))",
    source="Chen et al., ICML 2020, eq. 1",
    columns=("avh",),
)
def mean_avh(story: Story) -> np.ndarray:
    """Angular visual hardness averaged over the epochs."""
    return story.mean_of("avh")


@dynamics_score(
    hard="high",
    range="[-pi, pi]",
    formula="mean_e (angle(x, w_y) - min_{k != y} angle(x, w_k))",
    source="Peng et al., ACM MM 2022",
    columns=("own_angle", "nearest_angle"),
)
def mean_angular_gap(story: Story) -> np.ndarray:
    """Angular gap averaged over the epochs: negative when the angles were right most of the time.

    Example:
        >>> mean_angular_gap([[1.0], [0.5]], [[1.25], [1.25]])
        array([-0.5])
    """
    return story.mean_of("own_angle") - story.mean_of("nearest_angle")


@dynamics_score(
    hard="high",
    range="0 to e",
    formula="#{e : right before, wrong in e}, and the number of epochs if never right",
    source=FORGETTING,
    columns=("correct",),
)
def forgetting_events(story: Story) -> np.ndarray:
    """How often a right prediction became a wrong one, from each epoch to the next in which the sample was seen.

    A sample that was never right was never forgotten either; it gets the number of its epochs, more than any other can have.

    Example:
        >>> right = [[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]]
        >>> forgetting_events(right)  # forgotten twice; never learned; never forgotten
        array([2., 4., 0.])
    """
    counted = np.where(np.isnan(story.learned), story.count["correct"], story.forgotten)
    return np.where(story.count["correct"] > 0, counted, np.nan)


@dynamics_score(
    hard="high",
    range="first epoch to last epoch + 1",
    formula="min {e : right in e}, and last epoch + 1 if never",
    source=FORGETTING,
    columns=("correct",),
)
def first_epoch_learned(story: Story) -> np.ndarray:
    """First epoch in which the prediction was right; one more than the last epoch if there was none.

    Example:
        >>> first_epoch_learned([[0, 1, 0], [1, 0, 0]])
        array([2., 1., 3.])
    """
    first = np.where(np.isnan(story.learned), story.last_epoch + 1, story.learned)
    return np.where(story.count["correct"] > 0, first, np.nan)


@dynamics_score(hard="low", range="[0, 1]", formula="mean_e p_y", source=f"{CARTOGRAPHY} (cartography)", columns=("confidence",))
def cartography_confidence(story: Story) -> np.ndarray:
    """Probability of the given class averaged over the epochs."""
    return story.mean_of("confidence")


@dynamics_score(
    hard="high", range="[0, 1/2]", formula="std_e p_y", source=f"{CARTOGRAPHY} (cartography)", columns=("confidence",)
)
def cartography_variability(story: Story) -> np.ndarray:
    """Standard deviation over the epochs of the probability of the given class, divided by e, not e - 1.

    High is ambiguous. Low is easy or hard: the confidence tells which.

    Example:
        >>> cartography_variability([[0.25, 0.9], [0.75, 0.9]])
        array([0.25, 0.  ])
    """
    count = story.count["confidence"]
    return np.where(count > 0, np.sqrt(story.squares["confidence"] / np.maximum(count, 1)), np.nan)


@dynamics_score(
    hard="low", range="[0, 1]", formula="mean_e [right in e]", source=f"{CARTOGRAPHY} (cartography)", columns=("correct",)
)
def cartography_correctness(story: Story) -> np.ndarray:
    """Fraction of the epochs in which the prediction was right."""
    return story.mean_of("correct")


@dynamics_score(
    hard="high",
    range="(0, lambda0]",
    formula="lambda_e = lambda0 - lambda0 / (alpha log c) * KL(softmax(gaps / lambda_{e-1}) || uniform), e the last epoch",
    source="Zhu, Ying, Yang, ICML 2023 (ALDR-KL)",
    columns=("aldr_lambda",),
)
def aldr_lambda(story: Story) -> np.ndarray:
    """Lambda that the ALDR-KL loss ended with for a training sample; only where a run was trained with `--loss aldr`.

    The gaps are those of the loss: logits less that of the given class, margin and all. A sample whose classes are clearly
    apart gets a small lambda; an ambiguous one stays near lambda0.

    Example:
        >>> aldr_lambda([[0.9, 1.0], [0.6, np.nan]])  # two epochs; the second sample was seen in the first alone
        array([0.6, 1. ])
    """
    return np.where(story.count["aldr_lambda"] > 0, story.last["aldr_lambda"], np.nan)


@dynamics_score(
    hard="high",
    range="[0, 1/4]",
    formula="mean_e p_y (1 - p_y)",
    source="Seedat et al., NeurIPS 2022 (Data-IQ, aleatoric uncertainty)",
    columns=("confidence",),
)
def data_iq(story: Story) -> np.ndarray:
    """Aleatoric uncertainty of Data-IQ: p (1 - p) of the given class, averaged over the epochs.

    High is ambiguous: the model never made up its mind, because the features do not tell. Low is easy, or wrongly
    labeled: `cartography_confidence` tells which.

    Example:
        >>> data_iq([[0.5, 1.0], [0.5, 0.0]])  # undecided twice; sure, and sure of something else
        array([0.25, 0.  ])
    """
    mean, count = story.mean["confidence"], story.count["confidence"]
    variance = story.squares["confidence"] / np.maximum(count, 1)
    return np.where(count > 0, np.maximum(mean * (1 - mean) - variance, 0.0), np.nan)  # E p - E p^2

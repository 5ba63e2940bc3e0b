"""How long to train on labeled samples by default, whether they have been learned, and how far all trainings have come.

A pass over few samples is few steps: 8 passes over 157 samples in batches of 256 are 8 steps, too few to learn anything.
So the length of a training follows from its steps:

    the usual passes make ENOUGH_STEPS    those passes
    they do not: the source is small      passes that make STEPS, at most; a held-out part says after how many to stop
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardsight.screen import Progress, percent

ENOUGH_STEPS = 50  # the usual passes are kept from here on
STEPS = 200  # of a small source, at most
HELD_OUT = 0.2  # share of each class of a small source
PATIENCE = 0.25  # of the passes: how long the loss on the held-out part may stay above its best
LEARNED_HELD_OUT, LEARNED = 0.25, 0.5  # of the way from guessing to all right: less has not been learned


@dataclass(frozen=True)
class TrainingLength:
    """How long to train.

    Attributes:
        epochs: passes; the maximum, if watched.
        watched: whether to stop early, by the loss on a held-out part.
    """

    epochs: int
    watched: bool = False

    @property
    def passes(self) -> int:
        """Maximum number of passes: twice as many if the first ones only find out how many are best."""
        return 2 * self.epochs if self.watched else self.epochs


def training_length(num_samples: int, batch_size: int, usual: int) -> TrainingLength:
    """The usual number of passes where it makes enough steps, and as many as make STEPS where it does not.

    Example:
        >>> training_length(5000, 256, usual=8), training_length(157, 256, usual=8)
        (TrainingLength(epochs=8, watched=False), TrainingLength(epochs=200, watched=True))
    """
    steps = max(1, math.ceil(num_samples / batch_size))  # of one pass
    if usual * steps >= ENOUGH_STEPS:
        return TrainingLength(usual)
    return TrainingLength(max(usual, math.ceil(STEPS / steps)), watched=True)


def held_out_rows(labels: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """Rows of a fifth of each class, drawn by the seed: (n,) -> (m,), sorted. A class of one or two samples gives none.

    Example:
        >>> held_out_rows(np.array([0] * 10 + [1] * 5 + [2] * 2), [0]).shape
        (3,)
    """
    rng = np.random.default_rng(seed)
    drawn = [np.zeros(0, np.int64)]
    for k in np.unique(labels[labels >= 0]):
        own = rng.permutation(np.flatnonzero(labels == k))
        drawn.append(own[: round(HELD_OUT * len(own))])
    return np.sort(np.concatenate(drawn))


def best_epoch(losses: Sequence[float]) -> int:
    """The epoch, counted from 1, with the smallest loss on the held-out part: the first among equals."""
    return int(np.argmin(losses)) + 1


def is_over(losses: Sequence[float], length: TrainingLength) -> bool:
    """Whether to stop: all passes are done, or the loss has been above its best for a quarter of them.

    Example:
        >>> is_over([0.9, 0.5, 0.6], TrainingLength(8, True)), is_over([0.9, 0.5, 0.6, 0.7], TrainingLength(8, True))
        (False, True)
    """
    if len(losses) >= length.epochs:
        return True
    return bool(losses) and len(losses) - best_epoch(losses) >= max(1, round(PATIENCE * length.epochs))


def not_learned(accuracy: float, num_classes: int, held_out: bool, domains: Sequence[str] = ()) -> str | None:
    """A warning if the training samples have not been learned, judged by their mean class accuracy, else None.

    Args:
        accuracy: 0 to 1.
        num_classes: c; guessing reaches 1 / c.
        held_out: whether the samples were held out of the training.
        domains: names of the domains trained on; a source, of which there is one, needs no name.

    Example:
        >>> not_learned(0.4, 3, held_out=True)
        'the source has not been learned: 40 % of its held-out samples are right, guessing gives 33 %.'
    """
    chance = 1 / num_classes
    if (accuracy - chance) / (1 - chance) >= (LEARNED_HELD_OUT if held_out else LEARNED):
        return None
    what, whose = (f"{' and '.join(domains)} have", "their") if domains else ("the source has", "its")
    right, guessed, which = percent(accuracy, digits=0), percent(chance, digits=0), "held-out" if held_out else "own"
    return f"{what} not been learned: {right} % of {whose} {which} samples are right, guessing gives {guessed} %."


@dataclass
class Steps:
    """The progress of all trainings as one count of epochs and rounds; trainings come one after another."""

    progress: Progress | None
    total: int
    done: int = 0

    def next(self, words: str, length: int) -> Callable[[int], None]:
        """What the next training, of this length, calls with how far it has come."""
        start = self.done
        self.done += length
        return lambda number: None if self.progress is None else self.progress(start + number, self.total, words)

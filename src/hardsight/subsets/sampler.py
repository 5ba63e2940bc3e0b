"""A curriculum as a torch Sampler, for a training loop of your own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from hardsight.checks import as_numbers, check_count, to_numpy
from hardsight.errors import InputError
from hardsight.labels import whole_labels
from hardsight.training.pacing import Curriculum, Pacing
from hardsight.training.settings import PacingOptions


class CurriculumSampler(Sampler[int]):
    """Rows of a data set, a part that grows from epoch to epoch, in random order within each.

    Each `iter` is the next epoch; `set_epoch` says which one it is, counted from 0 as for a `DistributedSampler`: Lightning and
    loops over `range(epochs)` call it so.

    Args:
        hardness: (n,) higher is harder: a column of a scores table, negated if its low end is hard. For the order
            self-paced it is only the start, and `update` gives the losses after every epoch.
        epochs: of the training.
        labels: (n,) class of each; with them every part holds the classes in their proportions.
        seed: random seed.
        options: order, pacing, pace_start and pace_epochs, as for `hardsight train`.

    Example:
        >>> sampler = CurriculumSampler([0.9, 0.1, 0.5, 0.3], epochs=2, pace_start=0.5, pace_epochs=1)
        >>> sorted(sampler), sorted(sampler)
        ([1, 3], [0, 1, 2, 3])
    """

    def __init__(self, hardness: Any, epochs: int, labels: Any = None, seed: int = 0, **options: Any) -> None:
        settings = PacingOptions.given(None, options)
        values = to_numpy(as_numbers(hardness, "hardness")).astype(np.float64)
        if values.ndim != 1:
            raise InputError(f"hardness must have one number per sample, got shape {values.shape}.")
        classes = np.zeros(len(values), np.int64) if labels is None else whole_labels(labels, len(values), None)
        pacing = Pacing.of(settings, check_count(epochs, "epochs", least=1))
        self.curriculum = Curriculum(classes, settings.order or "easy-first", pacing, values, seed)
        if self.curriculum.order == "self-paced":
            self.curriculum.update(values)
        self.seed, self.epoch = check_count(seed, "seed"), 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next, counted from 0."""
        self.epoch = check_count(epoch, "epoch")

    def update(self, hardness: Any) -> None:
        """The current (n,) hardness, for the order self-paced."""
        values = to_numpy(as_numbers(hardness, "hardness")).astype(np.float64)
        if values.shape != (len(self.curriculum),):
            raise InputError(f"hardness must have {len(self.curriculum)} numbers, one per sample, got shape {values.shape}.")
        self.curriculum.update(values)

    def __len__(self) -> int:
        return len(self.curriculum.part(self.epoch + 1))

    def __iter__(self) -> Iterator[int]:
        rows = np.random.default_rng([self.seed, self.epoch + 1]).permutation(self.curriculum.part(self.epoch + 1))
        self.epoch += 1
        return iter(rows.tolist())

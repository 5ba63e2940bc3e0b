"""One training on several domains, measured after each epoch on what was held out of them and on the unseen domain.

The unseen domain's accuracy is recorded, never looked at by the rule that chooses the epoch, unless that rule is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardsight.generalize.settings import GeneralizeSettings, Selection
from hardsight.generalize.student import Student
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints
from hardsight.training.inputs import Inputs, even_batches
from hardsight.training.network import FORWARD, as_tensor, forward_pass
from hardsight.training.optimization import Updater, drawn_seed
from hardsight.training.schedule import rate_factor

SPLIT, ORDER, START = 1, 2, 3  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Fold:
    """Which samples are trained on, held out of training, and never seen.

    Attributes:
        inputs: all samples.
        domains: (n,) domain of each, counted from 0.
        train, held_out, unseen: (m,) rows.
    """

    inputs: Inputs
    domains: np.ndarray
    train: np.ndarray
    held_out: np.ndarray
    unseen: np.ndarray

    @cached_property
    def training_domains(self) -> np.ndarray:
        """Those trained on, in order."""
        return np.unique(self.domains[self.train])

    @cached_property
    def positions(self) -> np.ndarray:
        """(n,) which training sample each row is."""
        positions = np.full(len(self.domains), -1)
        positions[self.train] = np.arange(len(self.train))
        return positions

    def known(self, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """(b,) of training rows: their labels, which training samples they are, and their domains, counted from 0."""
        domains = np.searchsorted(self.training_domains, self.domains[rows])
        known = (self.inputs.labels[rows], self.positions[rows], domains)
        labels, positions, numbers = (as_tensor(values, device) for values in known)
        return labels, positions, numbers


def folded(inputs: Inputs, domains: np.ndarray, unseen: int, left: list[int], share: float, seed: int) -> Fold:
    """Train on the domains `left`, with a share of each held out by the seed; `unseen` is tested on."""
    train, held_out = [], []
    for i in left:
        rows = np.flatnonzero((domains == i) & (inputs.labels >= 0))
        order = np.random.default_rng([seed, SPLIT, i]).permutation(rows)
        count = max(1, round(share * len(rows)))
        held_out.append(np.sort(order[:count]))
        train.append(np.sort(order[count:]))
    tested = np.flatnonzero((domains == unseen) & (inputs.labels >= 0))
    return Fold(inputs, domains, np.concatenate(train), np.concatenate(held_out), tested)


@dataclass
class FoldTraining:
    """One of many trainings.

    Attributes:
        fold: what is trained on and tested on.
        settings: how.
        seed: of the order of samples, augmentation and dropout.
        device: where.
        checkpoints: where a killed one is resumed from.
        report: called with the epochs done.
    """

    fold: Fold
    settings: GeneralizeSettings
    seed: int
    device: torch.device
    checkpoints: Checkpoints
    report: Callable[[int], None]

    def train(self, student: Student) -> list[dict[str, Any]]:
        """Accuracy on the held-out and on the unseen samples after each epoch."""
        student.to(self.device)
        updater, epochs = Updater(student, self.settings), self.settings.epochs
        state = self.checkpoints.resume(student, updater.optimizer)
        samples = AugmentedInputs(self.fold.inputs, self.settings.augment, self.seed)
        for epoch in range(state.epoch + 1, epochs + 1):
            self.report(epoch - 1)
            self._train_epoch(student, updater, samples, epoch)
            state.epoch = epoch
            validation, test = (self.accuracy(student, rows) for rows in (self.fold.held_out, self.fold.unseen))
            state.history.append({"epoch": epoch, "validation": validation, "test": test})
            if epoch < epochs:  # the end itself needs none
                self.checkpoints.save(state, student, updater.optimizer)
        return state.history

    def _train_epoch(self, student: Student, updater: Updater, samples: AugmentedInputs, epoch: int) -> None:
        torch.manual_seed(drawn_seed(self.seed, ORDER, epoch))
        rows = self.fold.train
        order = rows[np.random.default_rng([self.seed, ORDER, epoch, 0]).permutation(len(rows))]
        student.train()
        student.set_epoch(epoch - 1)
        batches = even_batches(order, self.settings.batch_size)
        for number, batch in enumerate(samples.batches(batches, epoch), (epoch - 1) * len(batches)):
            updater.set_rate(rate_factor(self.settings, number, len(batches), self.settings.epochs))
            if len(batch.rows) >= 2:  # batch normalisation needs two
                updater.update(student(as_tensor(batch.inputs, self.device), *self.fold.known(batch.rows, self.device)))

    def accuracy(self, student: Student, rows: np.ndarray) -> float:
        """The share of some rows that is predicted right; NaN where there is none."""
        student.eval()
        labels, batches = self.fold.inputs.labels, even_batches(rows, FORWARD)
        right = seen = 0
        for some, probabilities in forward_pass(student.probabilities, self.fold.inputs, batches, self.device):
            right += int((probabilities.argmax(1).cpu().numpy() == labels[some]).sum())
            seen += len(some)
        return right / seen if seen else float("nan")


def chosen_epoch(history: list[dict[str, Any]], selection: Selection) -> dict[str, Any]:
    """The entry a rule stops at; the earlier one among equals."""
    if selection == "last":
        return history[-1]
    by = "validation" if selection == "validation" else "test"
    return max(history, key=lambda entry: entry[by])

"""One training on several domains, measured after each epoch on what was held out of them and on the unseen domain.

The unseen domain's accuracy is recorded, never looked at by the rule that chooses the epoch, unless that rule is the oracle.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.generalize.arriving import ArrivingHeads
from hardsight.generalize.folds import Fold
from hardsight.generalize.settings import GeneralizeSettings, Selection
from hardsight.generalize.student import Student
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints
from hardsight.training.inputs import even_batches
from hardsight.training.network import FORWARD, as_tensor, forward_pass
from hardsight.training.optimization import Updater, drawn_seed
from hardsight.training.schedule import rate_factor

ORDER, START, ARRIVAL = 2, 3, 4  # streams of random numbers, beside that of folds.py


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
        adapts: whether heads learn from the unseen domain's samples as these arrive.
    """

    fold: Fold
    settings: GeneralizeSettings
    seed: int
    device: torch.device
    checkpoints: Checkpoints
    report: Callable[[int], None]
    adapts: bool = False

    def train(self, student: Student) -> tuple[list[dict[str, Any]], Student]:
        """Accuracy on the held-out and on the unseen samples after each epoch, and the student of the epoch that counts."""
        student.to(self.device)
        chosen = copy.deepcopy(student)
        both = nn.ModuleDict({"student": student, "chosen": chosen})  # what a checkpoint holds
        updater, epochs = Updater(student, self.settings), self.settings.epochs
        state = self.checkpoints.resume(both, updater.optimizer)
        samples = AugmentedInputs(self.fold.inputs, self.settings.augment, self.seed)
        for epoch in range(state.epoch + 1, epochs + 1):
            self.report(epoch - 1)
            self._train_epoch(student, updater, samples, epoch)
            state.epoch = epoch
            validation = self.accuracy(student, self.fold.held_out)
            test = self.accuracy(student, self.fold.unseen, self.adapts)
            state.history.append({"epoch": epoch, "validation": validation, "test": test})
            if chosen_epoch(state.history, self.settings.selection)["epoch"] == epoch:
                chosen.load_state_dict(student.state_dict())
            if epoch < epochs:  # the end itself needs none
                self.checkpoints.save(state, both, updater.optimizer)
        return state.history, chosen

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

    def accuracy(self, student: Student, rows: np.ndarray, arriving: bool = False) -> float:
        """The share of some rows that is predicted right; NaN where there is none.

        Args:
            arriving: whether they come in batches, in an order drawn by the seed, and heads learn from each.
        """
        student.eval()
        labels, batches = self.fold.inputs.labels, even_batches(rows, FORWARD)
        predict: Callable[[Tensor], Tensor] = student.probabilities
        if arriving:
            order = np.random.default_rng([self.seed, ARRIVAL]).permutation(rows)
            batches, predict = even_batches(order, self.settings.tta_batch_size), ArrivingHeads(student, self.settings)
        right = seen = 0
        for some, probabilities in forward_pass(predict, self.fold.inputs, batches, self.device):
            right += int((probabilities.argmax(1).cpu().numpy() == labels[some]).sum())
            seen += len(some)
        return right / seen if seen else float("nan")


def chosen_epoch(history: list[dict[str, Any]], selection: Selection) -> dict[str, Any]:
    """The entry a rule stops at; the earlier one among equals."""
    if selection == "last":
        return history[-1]
    by = "validation" if selection == "validation" else "test"
    return max(history, key=lambda entry: entry[by])

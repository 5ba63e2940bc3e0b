"""One training on several domains, evaluated after each epoch on held-out samples and on the unseen domain.

The accuracy on the unseen domain is recorded, but never used to select the epoch, except by the rule `oracle`. If the domains
are small and `epochs` is not set, the loss on held-out samples decides when to stop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.domains.accuracy import class_accuracies, known_mean
from hardsight.domains.generalization.drm import ArrivingHeads, Student
from hardsight.domains.generalization.folds import Fold
from hardsight.domains.generalization.settings import GeneralizeSettings, Selection
from hardsight.domains.source_training import TrainingLength, is_over
from hardsight.dynamics.gathering import num_processes
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints
from hardsight.training.inputs import even_batches
from hardsight.training.network import FORWARD, as_tensor, forward_pass
from hardsight.training.optimization import Updater, drawn_seed, rate_factor

ORDER, START, ARRIVAL = 2, 3, 4  # streams of random numbers, beside that of folds.py

History = list[dict[str, Any]]  # one entry per epoch


@dataclass(frozen=True, eq=False)
class Predictions:
    """A student's predictions for the m samples that could be read.

    Attributes:
        labels: (m,).
        probabilities: (m, c).
    """

    labels: np.ndarray
    probabilities: np.ndarray

    @property
    def accuracy(self) -> float:
        """The share that is right; NaN of no samples."""
        return float((self.probabilities.argmax(1) == self.labels).mean()) if len(self.labels) else float("nan")

    @property
    def class_accuracy(self) -> float:
        """The mean over classes of the share that is right; NaN of no samples."""
        mean = known_mean(class_accuracies(self.labels, self.probabilities.argmax(1), self.probabilities.shape[1]))
        return float("nan") if mean is None else mean

    @property
    def loss(self) -> float:
        """The mean of -log p of the label; NaN of no samples."""
        own = self.probabilities[np.arange(len(self.labels)), self.labels]
        return float(-np.log(np.maximum(own, np.finfo(np.float32).tiny)).mean()) if len(own) else float("nan")


@dataclass
class FoldTraining:
    """One of many trainings.

    Attributes:
        fold: what is trained on and tested on.
        settings: how.
        length: how long.
        seed: of the order of samples, augmentation and dropout.
        device: where.
        checkpoints: where a killed one is resumed from.
        report: called with the epochs done.
        adapts: whether heads learn from the unseen domain's samples as these arrive.
    """

    fold: Fold
    settings: GeneralizeSettings
    length: TrainingLength
    seed: int
    device: torch.device
    checkpoints: Checkpoints
    report: Callable[[int], None]
    adapts: bool = False

    def train(self, student: Student) -> tuple[History, Student]:
        """Accuracy on the held-out and on the unseen samples after each epoch, and the student of the selected epoch."""
        student.to(self.device)
        chosen = copy.deepcopy(student)
        both = nn.ModuleDict({"student": student, "chosen": chosen})  # what a checkpoint holds
        updater = Updater(student, self.settings)
        state = self.checkpoints.resume(both, updater.optimizer)
        samples = AugmentedInputs(self.fold.inputs, self.settings.augment, self.seed, share=True)
        while not self._over(state.history):
            self.report(state.epoch)
            state.epoch += 1
            self._train_epoch(student, updater, samples, state.epoch)
            state.history.append({"epoch": state.epoch, **self._measured(student)})
            if chosen_epoch(state.history, self.settings.selection)["epoch"] == state.epoch:
                chosen.load_state_dict(student.state_dict())
            if not self._over(state.history):  # not after the last one
                self.checkpoints.save(state, both, updater.optimizer)
        return state.history, chosen

    def _over(self, history: History) -> bool:
        if not self.length.watched:
            return len(history) >= self.length.epochs
        return is_over([entry["validation_loss"] for entry in history], self.length)

    def _train_epoch(self, student: Student, updater: Updater, samples: AugmentedInputs, epoch: int) -> None:
        torch.manual_seed(drawn_seed(self.seed, ORDER, epoch))
        rows = self.fold.train
        order = rows[np.random.default_rng([self.seed, ORDER, epoch, 0]).permutation(len(rows))]
        student.train()
        student.set_epoch(epoch - 1)
        batches = even_batches(order, self.settings.batch_size)
        for number, batch in enumerate(samples.batches(batches, epoch), (epoch - 1) * len(batches)):
            updater.set_rate(rate_factor(self.settings, number, len(batches), self.length.epochs))
            if len(batch.rows) >= 2 or num_processes() > 1:  # batch normalization needs two
                loss = student.domain_loss(as_tensor(batch.inputs, self.device), *self.fold.known(batch.rows, self.device))
                updater.update(loss)

    def _measured(self, student: Student) -> dict[str, float]:
        """One entry of the history, but for its number."""
        held_out = self.predictions(student, self.fold.held_out)
        unseen = self.predictions(student, self.fold.unseen, self.adapts)
        measured = {"validation": held_out.accuracy, "validation_class_accuracy": held_out.class_accuracy}
        if self.length.watched:
            measured["validation_loss"] = held_out.loss
        return {**measured, "test": unseen.accuracy}

    def predictions(self, student: Student, rows: np.ndarray, arriving: bool = False) -> Predictions:
        """A student's predictions for some rows.

        Args:
            arriving: whether they come in batches, in an order drawn by the seed, and heads learn from each.
        """
        student.eval()
        batches = even_batches(rows, FORWARD)
        predict: Callable[[Tensor], Tensor] = student.probabilities
        if arriving:
            order = np.random.default_rng([self.seed, ARRIVAL]).permutation(rows)
            batches, predict = even_batches(order, self.settings.tta_batch_size), ArrivingHeads(student, self.settings)
        labels = [np.zeros(0, np.int64)]
        probabilities = [np.zeros((0, student.objective.classes.num_classes), np.float32)]
        for some, values in forward_pass(predict, self.fold.inputs, batches, self.device, share=not arriving):
            labels.append(self.fold.inputs.labels[some])
            probabilities.append(values.float().cpu().numpy())
        return Predictions(np.concatenate(labels), np.concatenate(probabilities))


def chosen_epoch(history: History, selection: Selection) -> dict[str, Any]:
    """The entry that a rule selects.

    Among equal accuracies on held-out samples, the one with the smallest loss if it was measured, else the first.
    """
    if selection == "last":
        return history[-1]
    if selection == "oracle":
        return max(history, key=lambda entry: entry["test"])
    return max(history, key=lambda entry: (entry["validation"], -entry.get("validation_loss", 0.0)))

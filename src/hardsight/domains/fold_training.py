"""One training on several domains: which samples are trained on, held out and never seen, and the epochs.

After each epoch it is evaluated on held-out samples of the training domains and on the unseen domain.
The accuracy on the unseen domain is recorded, but never used to select the epoch, except by the rule `oracle`. If the domains
are small and `epochs` is not set, the loss on held-out samples decides when to stop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.domains.comparison import class_accuracies, known_mean
from hardsight.domains.drm import DRM, DRMTTA, ArrivingHeads, Student
from hardsight.domains.generalize_result import chosen_epoch
from hardsight.domains.meta_steps import MetaMethod, MetaStep
from hardsight.domains.official_lists import OfficialLists
from hardsight.domains.settings import GeneralizeSettings
from hardsight.domains.training_length import TrainingLength, is_over
from hardsight.dynamics.gathering import num_processes
from hardsight.extraction.feed import Inputs, even_batches
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints, History
from hardsight.training.forward_passes import FORWARD, as_tensor, forward_pass
from hardsight.training.optimization import Updater, drawn_seed, rate_factor

SPLIT, ORDER, START, ARRIVAL = 1, 2, 3, 4  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Fold:
    """What one training sees.

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


@dataclass(frozen=True, eq=False)
class Division:
    """How each domain is divided into samples to train on and samples to hold out.

    Attributes:
        domains: (n,) domain of each sample, counted from 0.
        labels: (n,) samples without a label (-1) play no part.
        share: held out of each training domain, drawn by the seed.
        lists: official lists, which say it instead where they hold anything out.
    """

    domains: np.ndarray
    labels: np.ndarray
    share: float
    lists: OfficialLists | None = None

    def fold(self, inputs: Inputs, unseen: int, left: list[int], seed: int) -> Fold:
        """Train on the domains `left`; `unseen` is tested on."""
        divided = [self._divided(i, seed) for i in left]
        train, held_out = (np.concatenate(parts) for parts in zip(*divided, strict=True))
        tested = self._rows(unseen)
        if self.lists is not None:
            tested = tested[self.lists.test[tested]]
        return Fold(inputs, self.domains, train, held_out, tested)

    def num_train(self, left: list[int]) -> int:
        """How many samples there are to train on, whatever the seed."""
        return sum(len(self._divided(i, 0)[0]) for i in left)

    def _rows(self, domain: int) -> np.ndarray:
        return np.flatnonzero((self.domains == domain) & (self.labels >= 0))

    def _divided(self, domain: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of one domain to train on, and those held out."""
        rows = self._rows(domain)
        if self.lists is not None:
            held_out, rows = rows[self.lists.held_out[rows]], rows[self.lists.train[rows]]
            if len(held_out):
                return rows, held_out
        order = np.random.default_rng([seed, SPLIT, domain]).permutation(rows)
        count = max(1, round(self.share * len(rows)))
        return np.sort(order[count:]), np.sort(order[:count])


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
        method: DRM, or one that makes its own steps; None for plain training on all domains.
    """

    fold: Fold
    settings: GeneralizeSettings
    length: TrainingLength
    seed: int
    device: torch.device
    checkpoints: Checkpoints
    report: Callable[[int], None]
    method: DRM | MetaMethod | None = None

    def train(self, student: Student) -> tuple[History, Student]:
        """Accuracy on the held-out and on the unseen samples after each epoch, and the student of the selected epoch."""
        student.to(self.device)
        chosen = copy.deepcopy(student)
        both = nn.ModuleDict({"student": student, "chosen": chosen})  # what a checkpoint holds
        updater = Updater(student, self.settings)
        state = self.checkpoints.resume(both, updater.optimizer)
        samples = AugmentedInputs(self.fold.inputs, self.settings.augment, self.seed)
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
        batches, draws = even_batches(order, self.settings.batch_size), np.random.default_rng([self.seed, ORDER, epoch, 1])
        for number, batch in enumerate(samples.batches(batches, epoch), (epoch - 1) * len(batches)):
            factor = rate_factor(self.settings, number, len(batches), self.length.epochs)
            updater.set_rate(factor)
            if len(batch.rows) < 2 and num_processes() == 1:  # batch normalization needs two
                continue
            known = as_tensor(batch.inputs, self.device), *self.fold.known(batch.rows, self.device)
            if isinstance(self.method, MetaMethod):
                progress = number / (len(batches) * self.length.epochs)
                self.method.step(MetaStep(student, updater, *known, updater.lr * factor, progress, draws))
            else:
                updater.update(student.domain_loss(*known))

    def _measured(self, student: Student) -> dict[str, float]:
        """One entry of the history, but for its number."""
        held_out = self.predictions(student, self.fold.held_out)
        arriving = self.method if isinstance(self.method, DRMTTA) else None  # how heads learn from what arrives, if they do
        unseen = self.predictions(student, self.fold.unseen, arriving)
        measured = {"validation": held_out.accuracy, "validation_class_accuracy": held_out.class_accuracy}
        if self.length.watched:
            measured["validation_loss"] = held_out.loss
        return {**measured, "test": unseen.accuracy}

    def predictions(self, student: Student, rows: np.ndarray, arriving: DRMTTA | None = None) -> Predictions:
        """A student's predictions for some rows; with `arriving`, they come in an order drawn by the seed, and heads learn."""
        student.eval()
        batches = even_batches(rows, FORWARD)
        predict: Callable[[Tensor], Tensor] = student.probabilities
        if arriving is not None:
            order = np.random.default_rng([self.seed, ARRIVAL]).permutation(rows)
            batches = even_batches(order, arriving.batch_size)
            predict = ArrivingHeads(student, arriving, self.settings.learning_rate)
        labels = [np.zeros(0, np.int64)]
        probabilities = [np.zeros((0, student.objective.classes.num_classes), np.float32)]
        for some, values in forward_pass(predict, self.fold.inputs, batches, self.device, gather=arriving is None):
            labels.append(self.fold.inputs.labels[some])
            probabilities.append(values.float().cpu().numpy())
        return Predictions(np.concatenate(labels), np.concatenate(probabilities))

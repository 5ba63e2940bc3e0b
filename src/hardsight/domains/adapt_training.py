"""The training of one pair of domains and one seed: the source model, then the rounds of a method.

Everything random is a function of seed, round and epoch, so a killed run resumes from its last checkpoint, and on a CPU
ends with the same bytes. Target labels are used only for reporting, never to choose anything.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.special import log_softmax
from torch import Tensor

from hardsight.domains.auto import BEST, CANDIDATES, best_round
from hardsight.domains.comparison import class_accuracies, known_mean
from hardsight.domains.methods import AnyRoundStage, Method, stage_of
from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.domains.pseudo_labels import PseudoLabels
from hardsight.domains.self_training import SelfTraining, self_training_loss
from hardsight.domains.settings import AUTO, AdaptSettings
from hardsight.domains.training_length import TrainingLength, best_epoch, held_out_rows, is_over
from hardsight.domains.validation import SOURCE_LOOKED_AT, class_evenness, nearest_neighbors, validators
from hardsight.dynamics.gathering import num_processes
from hardsight.extraction.feed import InputBatch, Inputs, even_batches
from hardsight.head import Head
from hardsight.table import write_table
from hardsight.threads import even_rows
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints, TrainingState, save_state
from hardsight.training.forward_passes import FORWARD, all_features, as_tensor, forward_pass
from hardsight.training.optimization import Updater, drawn_seed, rate_factor
from hardsight.training.processes import gathered
from hardsight.training.trainee import Trainee

SOURCE, ROUNDS, DRAW, HELD_OUT, PARTS, TARGET = 1, 2, 3, 4, 5, 6  # independent streams of random numbers
TRIED = 2000  # source samples, at most, to test whether they were learned
BatchPair = tuple[InputBatch, InputBatch]  # of the source and of the target
LossOf = Callable[[Tensor, Tensor, Tensor], Tensor]  # (b, c) logits, (b, c) labels, (b,) whether of the target -> the loss
Report = Callable[[int], None]  # called with the epochs or rounds that are done


@dataclass(frozen=True, eq=False)
class TargetView:
    """A model's output on the target: one pass over it, used to select, to evaluate and to write predictions.

    Attributes:
        features: (n, d); NaN where a sample cannot be read.
        head: of the model.
        logits: (n, c).
        labeling: the view that pseudo-labels are chosen by, if not this one: images averaged with their mirror images.
    """

    features: np.ndarray
    head: Head
    logits: np.ndarray
    labeling: TargetView | None = None

    @property
    def readable(self) -> np.ndarray:
        """(n,) whether there are logits at all."""
        return np.asarray(np.isfinite(self.logits).all(1))


@dataclass
class Learning:
    """A learner in training, and how far it has come."""

    learner: Trainee
    updater: Updater
    state: TrainingState
    share_done: float = 0.0  # of all steps, from 0 to 1, before the current one


@dataclass(frozen=True, eq=False)
class Epoch:
    """What one epoch is trained on.

    Attributes:
        source_rows: samples of the source.
        stream: what its random numbers are drawn from: (SOURCE, epoch) or (ROUNDS, round, epoch).
        number: counted through the whole training, from 1.
        total: epochs that the learning-rate schedule is laid over.
        stage: what is done with the target; None for nothing.
        chosen: pseudo-labels of the target; None for none.
    """

    source_rows: np.ndarray
    stream: tuple[int, ...]
    number: int
    total: int
    stage: AnyRoundStage | None = None
    chosen: PseudoLabels | None = None


@dataclass(frozen=True, eq=False)
class RoundsResult:
    """A finished training: the model, its rounds, and its output on the target."""

    learner: Trainee
    history: list[dict[str, Any]]
    view: TargetView


@dataclass
class PairTraining:
    """One pair of domains, one seed: the source model, and each method from it.

    Args:
        source: labeled samples.
        target: samples whose labels, if there are any, are used only for reporting.
        make_learner: `DomainPair.make_learner` (adapt_models.py).
    """

    source: Inputs
    target: Inputs
    num_classes: int
    settings: AdaptSettings
    seed: int
    make_learner: Callable[[], Trainee]
    device: torch.device
    nearest: np.ndarray | None = None  # (n, k) of target samples: set in adapt_models.py, else by the first model evaluated

    def __post_init__(self) -> None:
        self.source_batches = AugmentedInputs(self.source, self.settings.augment, self.seed)
        target_augment = self.settings.target_augment or self.settings.augment
        self.target_batches = AugmentedInputs(self.target, target_augment, self.seed)

    # ---- the source model ----

    def train_source(self, folder: Path, report: Report) -> RoundsResult:
        """The source model, what it reaches on the target, and how well it learned the source.

        For a small source, a part is held out first to find how long to train; then all of it is trained on.
        """
        length, checkpoints = self.settings.source_length(len(self.source)), Checkpoints(folder / "checkpoints")
        held_out = held_out_rows(self.source.labels, [self.seed, HELD_OUT]) if length.watched else np.zeros(0, np.int64)
        epochs, accuracy = length.epochs, None
        if len(held_out):
            epochs, accuracy = self._watched_epochs(folder, report, length, held_out)
        learning = self._begin(checkpoints)
        for number in range(learning.state.epoch + 1, epochs + 1):
            report(length.passes - length.epochs + number - 1)
            self._source_epoch(learning, number, length)
            if number < epochs:  # not after the last one
                checkpoints.save(learning.state, learning.learner, learning.updater.optimizer)
        if accuracy is None:
            _, accuracy = self._on_source(learning.learner, even_rows(len(self.source), TRIED))
        view = self.view(learning.learner)
        learned = {"epochs": epochs, "held_out": len(held_out), "accuracy": accuracy}
        evaluated = self._evaluated(learning.learner, view)
        return RoundsResult(learning.learner, [{"round": 0, "portion": None, **evaluated, "source": learned}], view)

    def _watched_epochs(
        self, folder: Path, report: Report, length: TrainingLength, held_out: np.ndarray
    ) -> tuple[int, float | None]:
        """How many passes over the rest predict the held-out samples best, and their mean class accuracy then."""
        checkpoints = Checkpoints(folder / "checkpoints" / "held-out")
        learning = self._begin(checkpoints)
        rest, history = np.setdiff1d(np.arange(len(self.source)), held_out), learning.state.history
        while not is_over([entry["loss"] for entry in history], length):
            report(len(history))
            self._source_epoch(learning, len(history) + 1, length, rest)
            loss, accuracy = self._on_source(learning.learner, held_out)
            history.append({"loss": loss, "accuracy": accuracy})
            checkpoints.save(learning.state, learning.learner, learning.updater.optimizer)
        best = best_epoch([entry["loss"] for entry in history])
        return best, history[best - 1]["accuracy"]

    def _source_epoch(self, learning: Learning, number: int, length: TrainingLength, among: np.ndarray | None = None) -> None:
        """One pass over the source. The schedule always spans the maximum number of passes: how many are best was found with
        these learning rates, and holds for no others."""
        rows = self._source_rows(1.0, SOURCE, number, among)
        self._train(learning, Epoch(rows, (SOURCE, number), number, length.epochs))
        learning.state.epoch = number

    def _on_source(self, learner: Trainee, rows: np.ndarray) -> tuple[float, float | None]:
        """Mean loss and mean class accuracy of a model on source samples, those that can be read."""
        learner.eval()
        losses, labels, predicted = [0.0], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for some, logits in forward_pass(learner.logits, self.source, even_batches(rows, FORWARD), self.device):
            log_p, own = log_softmax(logits.double().cpu().numpy(), axis=1), self.source.labels[some]
            losses += (-log_p[np.arange(len(own)), own]).tolist()
            labels, predicted = [*labels, own], [*predicted, log_p.argmax(1)]
        accuracies = class_accuracies(np.concatenate(labels), np.concatenate(predicted), self.num_classes)
        return sum(losses) / max(1, len(losses) - 1), known_mean(accuracies)

    # ---- the rounds ----

    def adapt(
        self, folder: Path, method: Method, start: dict[str, Tensor], view: TargetView | None, report: Report
    ) -> RoundsResult:
        """The last stage of a method, from the model of the stages before it.

        Args:
            folder: where the rounds and the checkpoints go.
            start: the state of that model.
            view: its view of the target, if known.
        """
        s, checkpoints = self.settings, Checkpoints(folder / "checkpoints")
        stage = stage_of(method.stages[-1], s.method_options)
        assert isinstance(stage, AnyRoundStage)
        learning = self._begin(checkpoints, start, stage)
        view = view if learning.state.epoch == 0 else None
        for number in range(learning.state.epoch + 1, s.rounds + 1):
            report(number - 1)
            before = view or self.view(learning.learner)
            entry, view = self._round(learning, number, (method.stages[-1], stage), before, folder)
            learning.state.epoch = number
            learning.state.history.append(entry)
            if AUTO in s.methods and method.name in CANDIDATES and best_round(learning.state.history) == number:
                save_state(folder / BEST, stage.kept(learning.learner))
            if number < s.rounds:
                checkpoints.save(learning.state, learning.learner, learning.updater.optimizer)
        learner = stage.kept(learning.learner)
        return RoundsResult(learner, learning.state.history, view or self.view(learner))

    def _round(
        self, learning: Learning, number: int, named: tuple[str, AnyRoundStage], view: TargetView, folder: Path
    ) -> tuple[dict[str, Any], TargetView]:
        """Select, train, evaluate: the entry of the round, and the view that the next one selects from."""
        s, (name, stage) = self.settings, named
        portion = s.portion.at(number)
        rows = self._source_rows(s.source_portion.at(number), ROUNDS, number)
        chosen = stage.choose(name, view, portion)
        selected: dict[str, Any] = {}
        if isinstance(stage, SelfTraining) and chosen is not None:
            columns, selected["selection"] = stage.described(chosen, view, portion, self.target.labels)
            folder.mkdir(parents=True, exist_ok=True)
            write_table(pa.table({**id_and_label(self.target), **columns}), folder / f"round={number:02d}.parquet")
        for epoch in range(1, s.epochs + 1):
            done = (number - 1) * s.epochs + epoch - 1
            self._train(learning, Epoch(rows, (ROUNDS, number, epoch), done + 1, s.rounds * s.epochs, stage, chosen))
        learner = stage.kept(learning.learner)
        view = self.view(learner)
        return {"round": number, "portion": portion, **self._evaluated(learner, view), **selected}, view

    # ---- one epoch ----

    def _train(self, learning: Learning, epoch: Epoch) -> None:
        """One pass over some source samples and the target samples that the stage trains on."""
        stage, shape = epoch.stage, (len(self.target), self.num_classes)
        if isinstance(stage, PairedMethod):
            ours, theirs = self._paired(epoch)
            step: Callable[[BatchPair], None] = partial(self._paired_step, learning, stage)
        else:
            rows, labels = np.zeros(0, np.int64), np.zeros(shape, np.float32)
            if stage is not None:
                rows, labels = stage.target(epoch.chosen, shape, learning.learner.batch_norm)
            ours, theirs = self._mixed(epoch, rows)
            step = partial(self._mixed_step, learning, self_training_loss if stage is None else stage.loss, labels)
        learning.learner.train()
        torch.manual_seed(drawn_seed(self.seed, *epoch.stream))
        source, target = self.source_batches.batches(ours, epoch.number), self.target_batches.batches(theirs, epoch.number)
        for number, pair in enumerate(zip(source, target, strict=True), (epoch.number - 1) * len(ours)):
            learning.updater.set_rate(rate_factor(self.settings, number, len(ours), epoch.total))
            learning.share_done = number / (epoch.total * len(ours))
            step(pair)

    def _mixed(self, epoch: Epoch, target_rows: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Rows of the source and of the target, step by step: batches of both together, shuffled."""
        rows, count = epoch.source_rows, len(epoch.source_rows)
        order = np.random.default_rng([self.seed, DRAW, *epoch.stream]).permutation(count + len(target_rows))
        batches = even_batches(order, self.settings.batch_size)
        return [rows[some[some < count]] for some in batches], [target_rows[some[some >= count] - count] for some in batches]

    def _mixed_step(self, learning: Learning, loss_of: LossOf, labels: np.ndarray, pair: BatchPair) -> None:
        """Down the loss of a batch; `labels` (n, c) are those of the target, a row of zeros for none."""
        source, target = pair
        inputs = np.concatenate([source.inputs, target.inputs])  # (b, ...), of several processes this one's share
        if not len(inputs) and num_processes() == 1:
            return
        known = np.eye(self.num_classes, dtype=np.float32)[self.source.labels[source.rows]]  # (b, c) one-hot
        soft = as_tensor(np.concatenate([known, labels[target.rows]]), self.device)
        is_target = torch.arange(len(soft), device=self.device) >= len(source.rows)
        logits, soft, on_target = gathered(learning.learner.logits(as_tensor(inputs, self.device)), soft, is_target.int())
        learning.updater.update(loss_of(logits, soft, on_target > 0))

    def _paired(self, epoch: Epoch) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Rows of the source and as many of the target, step by step: half a batch of each."""
        count, size = len(epoch.source_rows), max(1, self.settings.batch_size // 2)
        ours, theirs = (np.random.default_rng([self.seed, which, *epoch.stream]) for which in (DRAW, TARGET))
        passes = [theirs.permutation(len(self.target)) for _ in range(math.ceil(count / len(self.target)))]
        shuffled = epoch.source_rows[ours.permutation(count)]
        return even_batches(shuffled, size), even_batches(np.concatenate(passes)[:count], size)

    def _paired_step(self, learning: Learning, method: PairedMethod, pair: BatchPair) -> None:
        """The method's own step; none where no image of a domain could be read."""
        source, target = pair
        if min(len(source.rows), len(target.rows)) == 0 and num_processes() == 1:
            return
        labels = as_tensor(self.source.labels[source.rows], self.device)
        inputs = as_tensor(source.inputs, self.device), labels, as_tensor(target.inputs, self.device)
        method.step(Step(learning.learner, learning.updater, *inputs, progress=learning.share_done))

    def _source_rows(self, portion: float, stream: int, number: int, among: np.ndarray | None = None) -> np.ndarray:
        """Source samples of a round, drawn without replacement; where classes are to be balanced, as many of each."""
        rows = np.arange(len(self.source)) if among is None else among
        labels = self.source.labels[rows]
        count = max(1, int(math.floor(portion * len(labels) + 1e-9)))
        rng = np.random.default_rng([self.seed, stream, number, DRAW])
        if not self.settings.balance:
            return rows[np.sort(rng.permutation(len(labels))[:count])]
        present = np.unique(labels)
        each = max(1, round(count / len(present)))
        drawn = []
        for k in present:
            own = np.flatnonzero(labels == k)
            passes = [rng.permutation(own) for _ in range(math.ceil(each / len(own)))]  # small classes are repeated
            drawn.append(np.concatenate(passes)[:each])
        return rows[np.concatenate(drawn)]

    # ---- output on the target, and evaluation ----

    def view(self, learner: Trainee) -> TargetView:
        """One pass over the target."""
        features = all_features(learner, self.target, self.device)
        head = copy.deepcopy(learner.head).like(features)  # as it is now: training continues
        plain = TargetView(features, head, head.logits(features))
        if not self.settings.flip_labels:
            return plain
        mirrored = all_features(learner, self.target, self.device, mirrored=True)
        log_p = [log_softmax(logits.astype(np.float64), axis=1) for logits in (plain.logits, head.logits(mirrored))]
        together = TargetView((features + mirrored) / 2, head, np.logaddexp(*log_p) - np.log(2))  # log of the mean of both p
        return replace(plain, labeling=together)

    def _evaluated(self, learner: Trainee, view: TargetView) -> dict[str, Any]:
        """Accuracy, if labels are known, and the validators, which need none."""
        rows = even_rows(len(self.source), SOURCE_LOOKED_AT)
        ours, labels = all_features(learner, self.source, self.device, rows), self.source.labels[rows]
        if self.nearest is None:
            self.nearest = nearest_neighbors(view.features)
        looked_at = validators(view.logits, view.features, view.head, ours, labels, self.nearest)
        predicted = np.where(view.readable, view.logits.argmax(1), -1)
        evenness = class_evenness(predicted, self.num_classes) if view.readable.any() else None
        return {**self.accuracy_of(predicted), "validators": looked_at, "evenness": evenness}

    def accuracy_of(self, predicted: np.ndarray) -> dict[str, Any]:
        """Accuracy on the target, class by class, of (n,) predictions; nothing where its labels are not known."""
        accuracies = class_accuracies(self.target.labels, predicted, self.num_classes)
        return {"accuracy": known_mean(accuracies), "class_accuracy": accuracies}

    def _begin(
        self, checkpoints: Checkpoints, start: dict[str, Tensor] | None = None, stage: AnyRoundStage | None = None
    ) -> Learning:
        """A training at its beginning, or at the newest checkpoint of a killed run."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            learner = self.make_learner().to(self.device)
            if start is not None:
                learner.load_state_dict(start)
            if stage is not None:
                torch.manual_seed(drawn_seed(self.seed, PARTS))
                learner.own.update(stage.parts(learner.num_features, self.num_classes))
                learner.to(self.device)
        learning = Learning(learner, Updater(learner, self.settings), TrainingState())
        learning.state = checkpoints.resume(learning.learner, learning.updater.optimizer)
        return learning


def id_and_label(inputs: Inputs) -> dict[str, pa.Array]:
    """The first columns of a table of samples."""
    return {"id": pa.array(inputs.ids, pa.string()), "label": pa.array(inputs.labels, mask=inputs.labels < 0)}

"""The loop: train on the source, then select, train on what was selected, and select again.

Everything random is a function of seed, round and epoch, so a run that is killed is resumed from its last checkpoint and on
a CPU ends with the same bytes. Target labels are used only for reporting; nothing is chosen by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.special import log_softmax
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from hardsight.adapt.learner import Learner
from hardsight.adapt.measures import class_accuracies, mean_accuracy, sample_columns, selection_statistics
from hardsight.adapt.objective import self_training_loss
from hardsight.adapt.selection import REGULARISED, PseudoLabels, select_pseudo_labels
from hardsight.adapt.settings import SOURCE_ONLY, AdaptSettings
from hardsight.files.reading import read_json
from hardsight.files.writing import write_json
from hardsight.head import Head
from hardsight.table import write_table
from hardsight.training.augmentation import AugmentedInputs
from hardsight.training.checkpoint import Checkpoints, TrainingState
from hardsight.training.inputs import Inputs, even_batches
from hardsight.training.network import all_features, as_tensor
from hardsight.training.optimization import Updater, drawn_seed, moving_average
from hardsight.training.schedule import rate_factor

SOURCE, ROUNDS, DRAW = 1, 2, 3  # streams of random numbers that must not meet

Report = Callable[[str, int], None]  # the method, and how many of its epochs or rounds are done


@dataclass(frozen=True, eq=False)
class TargetView:
    """What a model makes of the target: one pass over it, which selects, is evaluated and is written down.

    Attributes:
        features: (n, d); NaN where a sample cannot be read.
        head: of the model.
        logits: (n, c).
    """

    features: np.ndarray
    head: Head
    logits: np.ndarray

    @property
    def readable(self) -> np.ndarray:
        """(n,) whether there are logits at all."""
        finite: np.ndarray = np.isfinite(self.logits).all(1)
        return finite


@dataclass
class Learning:
    """A learner in training, its moving average if there is one, and how far it has come."""

    learner: Learner
    average: AveragedModel | None
    updater: Updater
    state: TrainingState

    @property
    def judge(self) -> Learner:
        """The one that selects and is evaluated."""
        judge = self.learner if self.average is None else self.average.module
        assert isinstance(judge, Learner)
        return judge

    @property
    def modules(self) -> nn.ModuleDict:
        """Everything a checkpoint holds."""
        return nn.ModuleDict({"learner": self.learner} | ({} if self.average is None else {"average": self.average}))


@dataclass(frozen=True, eq=False)
class Epoch:
    """What one epoch is trained on.

    Attributes:
        source_rows: samples of the source.
        chosen: pseudo-labels of the target; None for none.
        mrkld: weight of CRST's regulariser.
        stream: what its random numbers are drawn from: (SOURCE, epoch) or (ROUNDS, round, epoch).
        number: counted through the whole training, from 1.
    """

    source_rows: np.ndarray
    chosen: PseudoLabels | None
    mrkld: float
    stream: tuple[int, ...]
    number: int


@dataclass(frozen=True, eq=False)
class Result:
    """The end of one training: the model, what each round selected and reached, and what the model makes of the target."""

    learner: Learner
    history: list[dict[str, Any]]
    view: TargetView


@dataclass
class SelfTraining:
    """One pair of domains, one seed: the source model, and each method from it.

    Args:
        source: labeled samples.
        target: samples whose labels, if there are any, are used only for reporting.
        make: a fresh learner.
        report: told what is going on.
    """

    source: Inputs
    target: Inputs
    num_classes: int
    settings: AdaptSettings
    seed: int
    make: Callable[[], Learner]
    device: torch.device
    report: Report

    def __post_init__(self) -> None:
        self.source_batches = AugmentedInputs(self.source, self.settings.augment, self.seed)
        self.target_batches = AugmentedInputs(self.target, self.settings.target_augment or self.settings.augment, self.seed)

    # ---- the source model ----

    def train_source(self, folder: Path) -> Result:
        """The source model, and what it reaches on the target."""
        epochs, checkpoints = self.settings.source_epochs or 0, Checkpoints(folder / "checkpoints")
        learning = self._begin(checkpoints, self.settings.source_lr, None)
        for number in range(learning.state.epoch + 1, epochs + 1):
            self.report(SOURCE_ONLY, number - 1)
            learning.updater.set_rate(rate_factor(self.settings, number - 1, 1, epochs))
            self._train(learning, Epoch(self._source_rows(1.0, SOURCE, number), None, 0.0, (SOURCE, number), number))
            learning.state.epoch = number
            if number < epochs:  # the end itself needs none
                checkpoints.save(learning.state, learning.modules, learning.updater.optimizer)
        view = self.view(learning.learner)
        return Result(learning.learner, [{"round": 0, "portion": None, **self._evaluated(view)}], view)

    # ---- self-training ----

    def adapt(self, folder: Path, method: str, start: dict[str, Tensor], start_view: TargetView | None = None) -> Result:
        """One method from the source model.

        Args:
            folder: where the rounds and the checkpoints go.
            start: the source model's state.
            start_view: what the source model makes of the target, if that is known already.
        """
        s, checkpoints = self.settings, Checkpoints(folder / "checkpoints")
        learning = self._begin(checkpoints, None, start)
        mrkld = s.mrkld if method in REGULARISED else 0.0
        view = start_view if learning.state.epoch == 0 else None
        for number in range(learning.state.epoch + 1, s.rounds + 1):
            self.report(method, number - 1)
            portion = s.portion.at(number)
            rows = self._source_rows(s.source_portion.at(number), ROUNDS, number)
            view = view or self.view(learning.judge)
            chosen = self._select(view, method, portion)
            statistics = self._write_selection(view, chosen, portion, folder / f"round={number:02d}.parquet")
            for epoch in range(1, s.epochs + 1):
                if epoch > 1 and s.relabel:
                    chosen = self._select(self.view(learning.judge), method, portion)
                done = (number - 1) * s.epochs + epoch - 1
                learning.updater.set_rate(rate_factor(s, done, 1, s.rounds * s.epochs))
                self._train(learning, Epoch(rows, chosen, mrkld, (ROUNDS, number, epoch), done + 1))
            view = self.view(learning.judge)  # evaluated now, and selected from in the next round
            learning.state.epoch = number
            learning.state.history.append({"round": number, "portion": portion, **self._evaluated(view), "selection": statistics})
            if number < s.rounds:
                checkpoints.save(learning.state, learning.modules, learning.updater.optimizer)
        return Result(learning.judge, learning.state.history, view or self.view(learning.judge))

    def _select(self, view: TargetView, method: str, portion: float) -> PseudoLabels:
        s = self.settings
        return select_pseudo_labels(
            view.logits, view.features, view.head, portion, method, rule=s.rule, alpha=s.lrent, group_by=s.group_by
        )

    def _write_selection(self, view: TargetView, chosen: PseudoLabels, portion: float, path: Path) -> dict[str, Any]:
        """The pseudo-labels of a round as a table, and statistics of them."""
        plain = select_pseudo_labels(view.logits, None, None, portion, "cbst", rule=self.settings.rule)
        columns = sample_columns(view.features, view.head, chosen.proposed)
        statistics = selection_statistics(chosen, columns, self.target.labels)
        statistics["not_selected_by_cbst"] = int((chosen.kept & ~plain.kept).sum())
        statistics["only_selected_by_cbst"] = int((plain.kept & ~chosen.kept).sum())
        table = {
            **self._id_and_label(),
            "predicted": pa.array(chosen.predicted, mask=chosen.predicted < 0),
            "pseudo_label": pa.array(chosen.proposed, mask=~chosen.kept),
            "proposed": pa.array(chosen.proposed, mask=chosen.proposed < 0),
            "kept": chosen.kept,
            "kept_by_cbst": plain.kept,
            "why": pa.array(chosen.why, pa.string()),
            **{name: pa.array(values, from_pandas=True) for name, values in columns.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(pa.table(table), path)
        return statistics

    # ---- one epoch ----

    def _train(self, learning: Learning, epoch: Epoch) -> None:
        """One pass over some source samples and the selected target samples, mixed."""
        learner, source_rows = learning.learner, epoch.source_rows
        target_rows, labels = self._target(learner, epoch.chosen)
        order = np.random.default_rng([self.seed, DRAW, *epoch.stream]).permutation(len(source_rows) + len(target_rows))
        batches = even_batches(order, self.settings.batch_size)
        ours = [source_rows[some[some < len(source_rows)]] for some in batches]
        theirs = [target_rows[some[some >= len(source_rows)] - len(source_rows)] for some in batches]
        learner.train()
        torch.manual_seed(drawn_seed(self.seed, *epoch.stream))
        pairs = zip(
            self.source_batches.batches(ours, epoch.number), self.target_batches.batches(theirs, epoch.number), strict=True
        )
        for source, target in pairs:
            inputs = [batch.inputs for batch in (source, target) if len(batch.rows)]
            if not inputs:
                continue
            known = np.eye(self.num_classes, dtype=np.float32)[self.source.labels[source.rows]]  # (b, c) one-hot
            soft = as_tensor(np.concatenate([known, labels[target.rows]]), self.device)
            is_target = torch.arange(len(soft), device=self.device) >= len(source.rows)
            logits = learner(as_tensor(np.concatenate(inputs), self.device))
            learning.updater.update(self_training_loss(logits, soft, is_target, epoch.mrkld))
            if learning.average is not None:
                learning.average.update_parameters(learner)

    def _target(self, learner: Learner, chosen: PseudoLabels | None) -> tuple[np.ndarray, np.ndarray]:
        """The target rows that pass through the network, and (n, c) labels, zeros where not selected.

        A sample without a label has no gradient, but batch normalisation sees it: there, as in the papers, all of them
        pass through. A network without it, or with frozen statistics, does not notice, and is spared the work.
        """
        if chosen is None:
            return np.zeros(0, np.int64), np.zeros((0, self.num_classes), np.float32)
        if chosen.labels.ndim == 2:
            labels = chosen.labels.astype(np.float32)
        else:
            labels = np.zeros((len(chosen.labels), self.num_classes), np.float32)
            labels[chosen.kept, chosen.labels[chosen.kept]] = 1
        return (np.arange(len(labels)) if learner.batch_norm else np.flatnonzero(chosen.kept)), labels

    def _source_rows(self, portion: float, stream: int, number: int) -> np.ndarray:
        """Source samples of a round, drawn without replacement; where classes are to be balanced, as many of each."""
        labels = self.source.labels
        count = max(1, int(math.floor(portion * len(labels) + 1e-9)))
        rng = np.random.default_rng([self.seed, stream, number, DRAW])
        if not self.settings.balance:
            return np.sort(rng.permutation(len(labels))[:count])
        present = np.unique(labels)
        each = max(1, round(count / len(present)))
        drawn = []
        for k in present:
            own = np.flatnonzero(labels == k)
            passes = [rng.permutation(own) for _ in range(math.ceil(each / len(own)))]  # a small class is gone through again
            drawn.append(np.concatenate(passes)[:each])
        return np.concatenate(drawn)

    # ---- what a model makes of the target ----

    def view(self, learner: Learner) -> TargetView:
        """One pass over the target."""
        features, head = all_features(learner, self.target, self.device), learner.head
        return TargetView(features, head, head.logits(features))

    def _evaluated(self, view: TargetView) -> dict[str, Any]:
        """Accuracy on the target, class by class; nothing where its labels are not known."""
        predicted = np.where(view.readable, view.logits.argmax(1), -1)
        accuracies = class_accuracies(self.target.labels, predicted, self.num_classes)
        return {"accuracy": mean_accuracy(accuracies), "class_accuracy": accuracies}

    def write_predictions(self, view: TargetView, folder: Path) -> None:
        """predictions.parquet: what a model makes of each target sample."""
        log_p = log_softmax(view.logits.astype(np.float64), axis=1)  # (n, c)
        table = {
            **self._id_and_label(),
            "predicted": pa.array(log_p.argmax(1), mask=~view.readable),
            "confidence": pa.array(np.exp(log_p.max(1)), mask=~view.readable),
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_table(pa.table(table), folder / "predictions.parquet")

    def _id_and_label(self) -> dict[str, pa.Array]:
        labels = self.target.labels
        return {"id": pa.array(self.target.ids, pa.string()), "label": pa.array(labels, mask=labels < 0)}

    def _begin(self, checkpoints: Checkpoints, lr: float | None, start: dict[str, Tensor] | None) -> Learning:
        """A training at its beginning, or at the newest checkpoint of a killed run."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            learner = self.make().to(self.device)
        if start is not None:
            learner.load_state_dict(start)
        average = moving_average(learner, self.settings.ema) if start is not None and self.settings.ema else None
        learning = Learning(learner, average, Updater(learner, self.settings, lr), TrainingState())
        learning.state = checkpoints.resume(learning.modules, learning.updater.optimizer)
        return learning


def finished(folder: Path) -> list[dict[str, Any]] | None:
    """The rounds of a part of a run that is complete."""
    path = folder / "rounds.json"
    return read_json(path) if path.is_file() else None


def finish(folder: Path, history: list[dict[str, Any]]) -> None:
    """Mark a part as complete; its checkpoints are not needed any more."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "rounds.json", history)
    Checkpoints(folder / "checkpoints").remove()

"""The loop: train on the source, then select, train on what was selected, and select again.

Everything random is a function of seed, round and epoch, so a run that is killed goes on from its last checkpoint and on
a CPU ends with the same bytes. Labels of the target are looked at for the report only; nothing is chosen by them.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from hardsight.adapt.learner import Learner, follow
from hardsight.adapt.measures import class_accuracies, mean_accuracy, sample_columns, selection_statistics
from hardsight.adapt.objective import self_training_loss
from hardsight.adapt.selection import REGULARISED, PseudoLabels, select_pseudo_labels
from hardsight.adapt.settings import AdaptSettings
from hardsight.errors import TrainingError
from hardsight.files.writing import write_json
from hardsight.table import write_table
from hardsight.training.augmentation import Augmentation, parse_augmentation, sample_keys
from hardsight.training.checkpoint import Progress, load_checkpoint, newest_checkpoint, save_checkpoint
from hardsight.training.inputs import Inputs

FORWARD = 512  # samples at a time where nothing is learned
CHECKPOINT_SECONDS = 5.0  # no checkpoint is written sooner after the one before: a round on features takes half a second
SOURCE, ROUNDS, DRAW = 1, 2, 3  # streams of random numbers that must not meet

Report = Callable[[str, int, int], None]  # words, done, in all


@dataclass
class Standing:
    """A training in progress: the learner, its moving average if there is one, and what has happened so far."""

    learner: Learner
    average: Learner | None
    optimizer: torch.optim.Optimizer
    progress: Progress

    @property
    def judge(self) -> Learner:
        """The one that selects and is measured."""
        return self.learner if self.average is None else self.average

    @property
    def modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"learner": self.learner} | ({} if self.average is None else {"average": self.average}))


@dataclass
class SelfTraining:
    """One pair of domains, one seed: the source model, and each method from it.

    Args:
        source: labeled samples.
        target: samples whose labels, if there are any, only report.
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
    augment: Augmentation = field(init=False)

    def __post_init__(self) -> None:
        self.augment = parse_augmentation(self.settings.augment)
        self.source_keys, self.target_keys = sample_keys(self.source.ids), sample_keys(self.target.ids)

    # ---- the source model ----

    def train_source(self, folder: Path) -> tuple[Learner, list[dict[str, Any]]]:
        """The source model, and what it reaches on the target."""
        epochs, lr = self.settings.source_epochs or 0, self.settings.source_lr or self.settings.learning_rate
        now = self._begin(folder, lr, None)
        for epoch in range(now.progress.epoch + 1, epochs + 1):
            self.report("source", epoch - 1, epochs)
            rows = self._source_rows(1.0, SOURCE, epoch)
            self._epoch(now, rows, None, lr * self._factor((epoch - 1) / epochs), 0.0, (SOURCE, epoch))
            now.progress.epoch = epoch
            self._checkpoint(folder, now, last=epoch == epochs)
        return now.learner, [{"round": 0, "portion": None, **self._evaluate(now.learner)}]

    # ---- self-training ----

    def adapt(self, folder: Path, method: str, start: dict[str, Tensor]) -> tuple[Learner, list[dict[str, Any]]]:
        """One method from the source model: the learner at the end, and what each round selected and reached."""
        now, s = self._begin(folder, self.settings.learning_rate, start), self.settings
        alpha = s.mrkld if method in REGULARISED else 0.0
        for number in range(now.progress.epoch + 1, s.rounds + 1):
            self.report(method, number - 1, s.rounds)
            portion = s.portion.at(number)
            rows = self._source_rows(s.source_portion.at(number), ROUNDS, number)
            chosen, told = self._select(now.judge, method, portion, folder / f"round={number:02d}.parquet")
            for epoch in range(1, s.epochs + 1):
                if epoch > 1 and s.relabel:
                    chosen = self._chosen(now.judge, method, portion)[0]
                rate = s.learning_rate * self._factor((number - 1 + (epoch - 1) / s.epochs) / s.rounds)
                self._epoch(now, rows, chosen, rate, alpha, (ROUNDS, number, epoch))
            now.progress.epoch = number
            now.progress.history.append({"round": number, "portion": portion, **self._evaluate(now.judge), "selection": told})
            self._checkpoint(folder, now, last=number == s.rounds)
        return now.judge, now.progress.history

    def _chosen(self, learner: Learner, method: str, portion: float) -> tuple[PseudoLabels, np.ndarray, np.ndarray]:
        """Pseudo-labels, and the features and logits they were chosen by."""
        s, head = self.settings, learner.head
        features = self.features(learner, self.target)
        logits = head.logits(features)
        options: dict[str, Any] = {"rule": s.rule, "alpha": s.lrent, "group_by": s.group_by}
        return select_pseudo_labels(logits, features, head, portion, method, **options), features, logits

    def _select(self, learner: Learner, method: str, portion: float, path: Path) -> tuple[PseudoLabels, dict[str, Any]]:
        """The pseudo-labels of a round, and what can be said of them; the whole table goes to `path`."""
        chosen, features, logits = self._chosen(learner, method, portion)
        plain = select_pseudo_labels(logits, None, None, portion, "cbst", rule=self.settings.rule)
        columns = sample_columns(features, learner.head, chosen.proposed)
        told = selection_statistics(chosen, columns, self.target.labels)
        told["not_selected_by_cbst"] = int((chosen.kept & ~plain.kept).sum())
        told["only_selected_by_cbst"] = int((plain.kept & ~chosen.kept).sum())
        labels = self.target.labels
        table = {
            "id": pa.array(self.target.ids, pa.string()),
            "label": pa.array(labels, mask=labels < 0),
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
        return chosen, told

    # ---- one epoch ----

    def _epoch(
        self, now: Standing, source_rows: np.ndarray, chosen: PseudoLabels | None, rate: float, alpha: float, at: tuple[int, ...]
    ) -> None:
        """One pass over some source samples and the selected target samples, mixed."""
        learner, optimizer = now.learner, now.optimizer
        target_rows, labels = self._target(learner, chosen)
        order = np.random.default_rng([self.seed, DRAW, *at]).permutation(len(source_rows) + len(target_rows))
        batches = np.array_split(order, max(1, math.ceil(len(order) / self.settings.batch_size)))
        ours = [source_rows[some[some < len(source_rows)]] for some in batches]
        theirs = [target_rows[some[some >= len(source_rows)] - len(source_rows)] for some in batches]
        for group in optimizer.param_groups:
            group["lr"] = rate
        learner.train()
        torch.manual_seed(int(np.random.default_rng([self.seed, *at]).integers(2**31)))  # for dropout
        number = at[-1] if at[0] == SOURCE else (at[1] - 1) * self.settings.epochs + at[2]
        source_batches = self._batches(self.source, ours, self.source_keys, number)
        target_batches = self._batches(self.target, theirs, self.target_keys, number)
        for (rows, inputs), (more_rows, more_inputs) in zip(source_batches, target_batches, strict=True):
            given = np.zeros((len(rows), self.num_classes), np.float32)
            given[np.arange(len(rows)), self.source.labels[rows]] = 1
            soft = torch.from_numpy(np.concatenate([given, labels[more_rows]])).to(self.device)
            is_target = torch.arange(len(soft), device=self.device) >= len(rows)
            parts = [part for part in (inputs, more_inputs) if len(part)]
            if not parts:
                continue
            batch = torch.from_numpy(np.ascontiguousarray(np.concatenate(parts))).to(self.device)
            loss = self_training_loss(learner(batch), soft, is_target, alpha)
            if not math.isfinite(float(loss.detach())):
                raise TrainingError(f"the loss became {float(loss.detach())}: try a smaller lr than {rate:g}.")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if now.average is not None:
                follow(now.average, learner, self.settings.ema)

    def _target(self, learner: Learner, chosen: PseudoLabels | None) -> tuple[np.ndarray, np.ndarray]:
        """The target rows that pass through the network, and (n, c) labels, zeros where not selected.

        A sample without a label pulls at nothing, but batch normalisation sees it: there, as in the papers, all of them
        pass through. A network without it does not notice, and is spared the work.
        """
        if chosen is None:
            return np.zeros(0, np.int64), np.zeros((0, self.num_classes), np.float32)
        if chosen.labels.ndim == 2:
            labels = chosen.labels.astype(np.float32)
        else:
            labels = np.zeros((len(chosen.labels), self.num_classes), np.float32)
            labels[chosen.kept, chosen.labels[chosen.kept]] = 1
        return (np.arange(len(labels)) if learner.batch_norm else np.flatnonzero(chosen.kept)), labels

    def _batches(
        self, inputs: Inputs, rows: list[np.ndarray], keys: np.ndarray, epoch: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for batch in inputs.batches(rows):
            if len(batch.rows):
                yield batch.rows, self.augment(batch.inputs, keys[batch.rows], self.seed, epoch)
            else:
                yield batch.rows, np.zeros((0, 1), np.float32)

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

    def _factor(self, done: float) -> float:
        """The learning rate's share when `done` of the training is done."""
        return 0.5 * (1 + math.cos(math.pi * done)) if self.settings.schedule == "cosine" else 1.0

    # ---- looking ----

    @torch.no_grad()
    def features(self, learner: Learner, inputs: Inputs) -> np.ndarray:
        """(n, d) features; NaN where a sample cannot be read."""
        learner.eval()
        found = np.full((len(inputs), learner.last.in_features), np.nan, np.float32)
        for batch in inputs.batches(np.array_split(np.arange(len(inputs)), max(1, math.ceil(len(inputs) / FORWARD)))):
            if len(batch.rows):
                found[batch.rows] = learner.features(torch.from_numpy(batch.inputs).to(self.device)).float().cpu().numpy()
        return found

    def _evaluate(self, learner: Learner) -> dict[str, Any]:
        """Accuracy on the target, class by class; nothing where its labels are not known."""
        head = learner.head
        logits = head.logits(self.features(learner, self.target))
        predicted = np.where(np.isfinite(logits).all(1), logits.argmax(1), -1)
        accuracies = class_accuracies(self.target.labels, predicted, self.num_classes)
        return {"accuracy": mean_accuracy(accuracies), "class_accuracy": accuracies}

    def write_predictions(self, learner: Learner, folder: Path) -> None:
        """predictions.parquet: what a model makes of the target."""
        log_p = self._log_softmax(learner)  # (n, c)
        finite = np.isfinite(log_p).all(1)
        predicted, labels = log_p.argmax(1), self.target.labels
        table = {
            "id": pa.array(self.target.ids, pa.string()),
            "label": pa.array(labels, mask=labels < 0),
            "predicted": pa.array(predicted, mask=~finite),
            "confidence": pa.array(np.exp(log_p.max(1)), mask=~finite),
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_table(pa.table(table), folder / "predictions.parquet")

    def _log_softmax(self, learner: Learner) -> np.ndarray:
        logits = learner.head.logits(self.features(learner, self.target)).astype(np.float64)
        top = logits.max(1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))

    # ---- checkpoints ----

    def _begin(self, folder: Path, rate: float, start: dict[str, Tensor] | None) -> Standing:
        """Where a training stands: at its beginning, or at the newest checkpoint of a killed run."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            learner = self.make().to(self.device)
        if start is not None:
            learner.load_state_dict(start)
        average = learner.averaged() if start is not None and self.settings.ema else None
        standing = Standing(learner, average, make_optimizer(learner, self.settings, rate), Progress())
        number, _ = newest_checkpoint(folder / "checkpoints")
        if number:
            standing.progress = load_checkpoint(folder / "checkpoints", number, standing.modules, standing.optimizer)
        self._last_checkpoint = time.monotonic()
        return standing

    def _checkpoint(self, folder: Path, standing: Standing, last: bool) -> None:
        """Write down where the training stands, if the last time is some seconds ago; the end itself needs none."""
        if last or time.monotonic() - self._last_checkpoint < CHECKPOINT_SECONDS:
            return
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        save_checkpoint(folder / "checkpoints", standing.progress, standing.modules, standing.optimizer)
        self._last_checkpoint = time.monotonic()


def make_optimizer(learner: Learner, settings: AdaptSettings, rate: float) -> torch.optim.Optimizer:
    """SGD with Nesterov's momentum or AdamW; matrices and filters decay, biases and norms do not."""
    decaying = [p for p in learner.parameters() if p.requires_grad and p.ndim >= 2]
    plain = [p for p in learner.parameters() if p.requires_grad and p.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": decaying, "weight_decay": settings.weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=rate)
    return torch.optim.SGD(groups, lr=rate, momentum=settings.momentum, nesterov=settings.uses_nesterov)


def finished(folder: Path) -> list[dict[str, Any]] | None:
    """The rounds of a part of a run that is complete."""
    path = folder / "rounds.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def finish(folder: Path, history: list[dict[str, Any]]) -> None:
    """Mark a part as complete; its checkpoints have done their work."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "rounds.json", history)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)

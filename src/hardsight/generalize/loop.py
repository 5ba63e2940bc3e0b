"""One training on several domains, measured after each epoch on what was held out of them and on the unseen domain.

The unseen domain's accuracy is recorded, never looked at by the rule that chooses the epoch, unless that rule is the oracle.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hardsight.errors import TrainingError
from hardsight.generalize.settings import GeneralizeSettings, Selection
from hardsight.generalize.student import Student
from hardsight.training.augmentation import parse_augmentation, sample_keys
from hardsight.training.checkpoint import Progress, load_checkpoint, newest_checkpoint, save_checkpoint
from hardsight.training.inputs import Inputs

FORWARD = 512
CHECKPOINT_SECONDS = 5.0
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


def train(
    fold: Fold, student: Student, settings: GeneralizeSettings, seed: int, device: torch.device, folder: Path | None,
    report: Callable[[int], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Accuracy on the held-out and on the unseen samples after each epoch. `folder` is for checkpoints; None for none."""
    student.to(device)
    s, labels = settings, fold.inputs.labels
    decaying = [p for p in student.parameters() if p.ndim >= 2]
    plain = [p for p in student.parameters() if p.ndim < 2]
    groups = [{"params": decaying, "weight_decay": s.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=s.learning_rate, momentum=s.momentum, nesterov=s.uses_nesterov)
    progress = Progress()
    number = newest_checkpoint(folder)[0] if folder is not None and folder.is_dir() else 0
    if number and folder is not None:
        progress = load_checkpoint(folder, number, student, optimizer)
    augment, keys, last = parse_augmentation(s.augment), sample_keys(fold.inputs.ids), time.monotonic()
    position = {domain: i for i, domain in enumerate(np.unique(fold.domains[fold.train]))}
    for epoch in range(progress.epoch + 1, s.epochs + 1):
        report(epoch - 1)
        torch.manual_seed(int(np.random.default_rng([seed, ORDER, epoch]).integers(2**31)))
        order = fold.train[np.random.default_rng([seed, ORDER, epoch, 0]).permutation(len(fold.train))]
        student.train()
        student.set_epoch(epoch - 1)
        for batch in fold.inputs.batches(np.array_split(order, max(1, math.ceil(len(order) / s.batch_size)))):
            if len(batch.rows) < 2:  # batch normalisation needs two
                continue
            inputs = torch.from_numpy(np.ascontiguousarray(augment(batch.inputs, keys[batch.rows], seed, epoch))).to(device)
            at = torch.from_numpy(np.searchsorted(fold.train, batch.rows)).to(device)
            own = torch.tensor([position[domain] for domain in fold.domains[batch.rows]], device=device)
            loss = student(inputs, torch.from_numpy(labels[batch.rows]).to(device), at, own)
            if not math.isfinite(float(loss.detach())):
                raise TrainingError(
                    f"the loss became {float(loss.detach())} in epoch {epoch}: try a smaller lr than {s.learning_rate:g}."
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        progress.epoch = epoch
        progress.history.append(
            {"epoch": epoch, "validation": _accuracy(student, fold, fold.held_out, device),
             "test": _accuracy(student, fold, fold.unseen, device)}
        )  # fmt: skip
        if folder is not None and epoch < s.epochs and time.monotonic() - last >= CHECKPOINT_SECONDS:
            folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(folder, progress, student, optimizer)
            last = time.monotonic()
    return progress.history


def chosen_epoch(history: list[dict[str, Any]], selection: Selection) -> dict[str, Any]:
    """The entry a rule stops at; the earlier one among equals."""
    if selection == "last":
        return history[-1]
    by = "validation" if selection == "validation" else "test"
    return max(history, key=lambda entry: entry[by])


@torch.no_grad()
def _accuracy(student: nn.Module, fold: Fold, rows: np.ndarray, device: torch.device) -> float:
    assert isinstance(student, Student)
    student.eval()
    right = seen = 0
    for batch in fold.inputs.batches(np.array_split(rows, max(1, math.ceil(len(rows) / FORWARD)))):
        if len(batch.rows):
            predicted = student.probabilities(torch.from_numpy(batch.inputs).to(device)).argmax(1).cpu().numpy()
            right += int((predicted == fold.inputs.labels[batch.rows]).sum())
            seen += len(batch.rows)
    return right / seen if seen else float("nan")

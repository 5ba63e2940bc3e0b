"""`run`: train a network with any loss, and keep every sample's story. One plain loop, on Accelerate.

Everything random is drawn from seed, epoch and sample, and everything is written by the one write rule. So a training
that is killed at any moment goes on from its last checkpoint, and on a CPU ends with the same bytes as if nothing had
happened. With `torchrun` or `accelerate launch` several processes share each batch.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.data import parse_degradations
from hardsight.errors import InputError, MissingExtra, require

require("torch", extra="torch", purpose="hardsight.training.run")
require("accelerate", extra="torch", purpose="hardsight.training.run")

# ruff: noqa: E402
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import set_seed

from hardsight.files.heads import load_head
from hardsight.head import Head
from hardsight.models.network import torch_device
from hardsight.models.trainable import open_trainable
from hardsight.threads import num_threads
from hardsight.training.augmentation import parse_augmentation
from hardsight.training.loop import Report, Training
from hardsight.training.objective import loss_name, with_defaults
from hardsight.training.schedule import Schedule
from hardsight.training.sets import Said, open_sets
from hardsight.training.settings import PRECISIONS, RATES, Settings
from hardsight.training.teacher import open_teacher

TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",), "mlflow": ("mlflow",)}


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        directory: the run.
        head: what the trained network predicts with.
        history: one entry per epoch: {"epoch": 1, "lr": ..., "train": {"accuracy": ..., "avh": ..., ...}, "test": ...}.
        is_main_process: false in all but one of several processes.
    """

    directory: Path
    head: Head
    history: list[dict[str, Any]]
    is_main_process: bool = True


def run(
    data: Any,
    model: Any,
    output: str | os.PathLike[str],
    *,
    loss: str = "softmax",
    loss_options: Mapping[str, Any] | None = None,
    model_options: Mapping[str, Any] | None = None,
    weights: str | os.PathLike[str] | None = None,
    pretrained: bool = False,
    size: int | None = None,
    watch: Mapping[str, Any] | None = None,
    degradations: Sequence[str] = (),
    every: int | None = None,
    at_start: bool = False,
    epochs: int = 10,
    batch_size: int = 128,
    optimizer: str = "sgd",
    lr: float | None = None,
    head_rate: float = 1.0,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 5e-4,
    schedule: Schedule = "constant",
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    warmup: float = 0.0,
    clip: float | None = None,
    augment: str = "none",
    seed: int = 0,
    precision: str = "float32",
    device: str = "auto",
    workers: int | None = None,
    limit: int | None = None,
    split: str | None = None,
    labels_from: str | None = None,
    snapshot: bool = True,
    strict: bool = False,
    tracker: str | None = None,
    teacher: Any = None,
    progress: Report | None = None,
    say: Said | None = None,
) -> Trained:
    """Train a network and write a run: its model, head, snapshot, and the dynamics of every sample.

    Args:
        data: what `hardsight train` takes as DATA, an `ImageData`, or `(inputs, labels)` or `(inputs, labels, ids)` arrays
            that go into the network as they are.
        model: a network by name (see `hardsight.models.trainable`), or an nn.Module.
        output: run directory; one that was interrupted goes on.
        loss: a name from `hardsight.training.objective.LOSSES`.
        loss_options: the loss's own, such as {"scale": 20}.
        model_options: arguments of the network, such as {"num_features": 2}.
        weights, pretrained: what to start from: a file, or what timm or torchvision releases.
        size: pixels a side, if not the network's own.
        watch: held-out sets by name, evaluated after each epoch; by default the data's own other splits; {} for none.
        degradations: such as "contrast=0.3,0.6": watched images once more at each level.
        every: evaluate the watched sets also every so many training steps.
        at_start: evaluate them also before the first step, as epoch 0.
        epochs, batch_size: how long, and how many samples per step over all processes. Batches of an epoch differ in
            size by one at most, so that none is too small for batch normalisation.
        optimizer: "sgd" or "adamw"; lr is 0.01 or 0.001 where none is given.
        head_rate: the loss's own parameters, such as class vectors, learn at so many times the rate.
        momentum, nesterov: of sgd.
        weight_decay: on matrices and filters; biases, norms and log-variances do not decay.
        schedule, milestones, gamma, warmup: see `hardsight.training.schedule.rate_factor`.
        clip: longest gradient.
        augment: "flip,crop", "flip,crop=2" or "none".
        seed: all that is random.
        precision: "float32", "bfloat16", or "float16" on a GPU.
        device: "auto", "cpu", "cuda", "mps". Where a launcher starts several processes, each takes its own.
        workers: decoding threads.
        limit, split, labels_from: see `hardsight.data.open_data`; the limit holds for each set.
        snapshot: keep the features of every sample at the end.
        strict: stop at the first image that cannot be read.
        tracker: "tensorboard", "wandb" or "mlflow".
        teacher: for the loss dual_head: a run, or any other model that `open_model` opens, with the same classes.
        progress: called with steps done, steps in all, and the epoch's numbers so far in words.
        say: called with sentences for the user.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> points = np.concatenate([rng.normal(-1, 1, (50, 3)), rng.normal(1, 1, (50, 3))])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = run((points, np.repeat([0, 1], 50)), "sphere_mlp", folder, loss="avh", epochs=3, lr=0.1)
        >>> [entry["epoch"] for entry in done.history], done.head.kind
        ([1, 2, 3], 'angular')
    """
    name = loss_name(loss)
    settings = Settings(
        loss=name,
        loss_options=with_defaults(name, loss_options or {}, epochs),
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        lr=RATES.get(optimizer, 0.01) if lr is None else lr,
        head_rate=head_rate,
        momentum=momentum,
        nesterov=nesterov,
        weight_decay=weight_decay,
        schedule=schedule,
        milestones=tuple(milestones),
        gamma=gamma,
        warmup=warmup,
        clip=clip,
        augment=parse_augmentation(augment),
        every=every,
        seed=seed,
        precision=precision,
        snapshot=snapshot,
        strict=strict,
        degradations=tuple(str(one) for one in parse_degradations(degradations)),
        at_start=at_start,
    )
    _check_tracker(tracker)
    accelerator = _accelerator(settings, device, tracker, Path(output))
    say = say if say is not None and accelerator.is_main_process else _silent
    sets = open_sets(data, watch, settings, limit=limit, split=split, labels_from=labels_from, say=say)
    set_seed(seed)  # what the network starts from
    source = open_trainable(
        model,
        sets.num_classes,
        options=dict(model_options or {}),
        weights=None if weights is None else Path(weights),
        pretrained=pretrained,
    )
    inputs, preprocessing = sets.prepared(source, size, workers or num_threads(), settings)
    taught_by = open_teacher(teacher, name, preprocessing, sets.class_names, str(accelerator.device))
    loop = Training(accelerator, settings, source, inputs, sets, preprocessing, say, progress, taught_by)
    loop.arrange_and_run(Path(output))
    return _finished(Path(output), accelerator.is_main_process)


def _accelerator(settings: Settings, device: str, tracker: str | None, output: Path) -> Accelerator:
    """Accelerate as these settings want it; it keeps the first ones it saw unless told to forget them."""
    AcceleratorState._reset_state()
    GradientState._reset_state()
    chosen = torch_device(device)
    if settings.precision == "float16" and chosen.type == "cpu":
        raise InputError("precision float16 needs a GPU; on a CPU use bfloat16.")
    return Accelerator(
        cpu=chosen.type == "cpu",
        mixed_precision=PRECISIONS[settings.precision],
        log_with=tracker,
        project_dir=output / "tracker" if tracker else None,
    )


def _check_tracker(tracker: str | None) -> None:
    if tracker is None:
        return
    if tracker not in TRACKERS:
        raise InputError(f"tracker must be one of {', '.join(TRACKERS)}, got {tracker!r}.")
    if not any(_installed(module) for module in TRACKERS[tracker]):
        raise MissingExtra(f"the tracker {tracker} needs {tracker}: pip install {tracker}")


def _installed(module: str) -> bool:
    """Whether there is a package of this name; a folder such as ./wandb, which wandb leaves behind, is none."""
    found = importlib.util.find_spec(module)
    return found is not None and found.origin is not None


def _finished(output: Path, is_main_process: bool) -> Trained:
    told = json.loads((output / "run.json").read_text("utf-8"))
    head, _ = load_head(output / "head.safetensors")
    return Trained(output, head, told["counts"]["history"], is_main_process)


def _silent(sentence: str) -> None:
    pass

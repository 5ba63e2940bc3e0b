"""`train`: train a network with any loss, and record the dynamics of every sample. One plain loop, on Accelerate.

Everything random is drawn from seed, epoch and sample, and everything is written by the one write rule. So a training
that is killed at any moment resumes from its last checkpoint, and on a CPU ends with the same bytes as if nothing had
happened. With `torchrun` or `accelerate launch` several processes share each batch.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hardsight.errors import InputError, MissingExtra, did_you_mean, require_installed
from hardsight.files.heads import load_head
from hardsight.files.run import check_run_directory, read_manifest
from hardsight.head import Head
from hardsight.models.network_names import check_network_name
from hardsight.models.opening import check_model_name
from hardsight.models.weights import check_weights_file
from hardsight.options import takes
from hardsight.result import RunResult
from hardsight.screen import Progress, Say
from hardsight.training.loss_names import loss_name
from hardsight.training.sets import open_sets
from hardsight.training.settings import TrainSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.option_types import TrainOptions


COMMAND = "hardsight train"
TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",), "mlflow": ("mlflow",)}


class Trained(RunResult):
    """A finished training.

    Attributes:
        table: a row per epoch and set: split, epoch, lr, n, accuracy, and means of avh, norm and loss.
        run: its directory.
        head: what the trained network predicts with.
        history: one entry per epoch: {"epoch": 1, "lr": ..., "train": {"accuracy": ..., "avh": ..., ...}, "test": ...}.
        notes: what was found in the data, one sentence each.
        is_main_process: false in all but one of several processes.
    """

    files, by = ("epochs",), "epoch"
    shown = ("split", "epoch", "accuracy", "loss", "avh", "norm")

    def __init__(
        self, run: Path, head: Head, history: list[dict[str, Any]], notes: Sequence[str] = (), is_main_process: bool = True
    ) -> None:
        rows = [
            {"split": split, "epoch": entry["epoch"], "lr": entry["lr"], **means}
            for entry in history
            for split, means in entry.items()
            if isinstance(means, dict)
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        super().__init__(run, {"epochs": pa.table({name: [row.get(name) for row in rows] for name in names})}, notes)
        self.head, self.history, self.is_main_process = head, history, is_main_process

    @property
    def summary(self) -> dict[str, Any]:
        """The last epoch: {"epoch": 10, "train": {"accuracy": ..., ...}, "test": ...}."""
        return dict(self.history[-1]) if self.history else {}

    def figures(self) -> dict[str, Figure]:
        """Mean norm, AVH, accuracy and confidence of each set over the epochs."""
        from hardsight.dynamics.curves import read_curves
        from hardsight.render.dynamics import curves_figure

        columns = ("norm", "avh", "correct", "confidence")
        splits = dict.fromkeys(self.table["split"].to_pylist()) if self.history else {}
        return {split: curves_figure(read_curves(self.run, split=split), columns, title=split) for split in splits}


@takes(TrainSettings)
def train(
    data: Any,
    model: Any,
    output: str | os.PathLike[str],
    *,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Unpack[TrainOptions],
) -> Trained:
    """Train a network and write a run: its model, head, snapshot, and the dynamics of every sample.

    Batches of an epoch differ in size by one at most, so that none is too small for batch normalization. Where a launcher
    starts several processes, each takes its own device.

    Args:
        data: what `hardsight train` takes as DATA, an `ImageData`, or `(inputs, labels)` or `(inputs, labels, ids)` arrays
            that go into the network as they are.
        model: a network by name (see `hardsight.models.network_names`), or an nn.Module.
        output: run directory; an interrupted run is resumed.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, steps in all, and the epoch's metrics so far.
        say: called with messages for the user.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> points = np.concatenate([rng.normal(-1, 1, (50, 3)), rng.normal(1, 1, (50, 3))])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = train((points, np.repeat([0, 1], 50)), "feature_head", folder, loss="avh", model_options={"num_inputs": 3})
        >>> len(done.history), done.head.kind
        (10, 'angular')
    """
    settings = TrainSettings.given(settings, options)
    for library in ("torch", "accelerate"):
        require_installed(library, extra="torch", purpose="hardsight.train")
    _check_tracker(settings.tracker)
    check_network_name(model)
    check_weights_file(settings.weights)
    loss = loss_name(settings.loss)
    from hardsight.training.loop import start_training  # loads torch, which takes seconds
    from hardsight.training.objective import check_loss_options, loss_class

    check_loss_options(loss, settings.loss_options)
    _check_teacher(settings.teacher, loss, needed="teacher_logits" in loss_class(loss).forward_needs)
    check_run_directory(output, COMMAND)
    sets = open_sets(data, settings)
    is_main_process = start_training(settings, sets, model, Path(output), say, progress)
    return read_trained(Path(output), sets.notes, is_main_process)


def _check_teacher(spec: Any, loss: str, *, needed: bool) -> None:
    """Refuse a teacher without a loss for it, a loss without its teacher, and a text that names no model."""
    if needed and spec is None:
        raise InputError(f"the loss {loss} needs a teacher: name a run or a model.")
    if spec is not None and not needed:
        raise InputError(f"a teacher goes with the loss dual_head, not with {loss}.")
    check_model_name(spec)


def _check_tracker(tracker: str | None) -> None:
    if tracker is None:
        return
    if tracker not in TRACKERS:
        raise InputError(f"tracker must be one of {', '.join(TRACKERS)}, got {tracker!r}.{did_you_mean(tracker, TRACKERS)}")
    if not any(_installed(module) for module in TRACKERS[tracker]):
        raise MissingExtra(f"the tracker {tracker} needs {tracker}: pip install {tracker}")


def _installed(module: str) -> bool:
    """Whether there is a package of this name; a folder such as ./wandb, which wandb leaves behind, is none."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def read_trained(directory: Path, notes: Sequence[str] = (), is_main_process: bool = True) -> Trained:
    """A finished training from its run directory."""
    head, _ = load_head(directory / "head.safetensors")
    return Trained(directory, head, read_manifest(directory)["counts"]["history"], notes, is_main_process)

"""`train`: train a network with any loss, and record the dynamics of every sample. One plain loop, on Accelerate.

The options are checked here; the data is opened (sets.py), trained on (loop.py), and what was trained is written (results.py).

Everything random is drawn from seed, epoch and sample, and everything is written by the one write rule. So a training
that is killed at any moment resumes from its last checkpoint, and on a CPU ends with the same bytes as if nothing had
happened. With `torchrun` or `accelerate launch` several processes share each batch.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hardsight.errors import InputError, MissingExtra, check_choice, require_installed
from hardsight.files.run import check_run_directory
from hardsight.models.network_names import check_network_name
from hardsight.models.opening import check_model_name
from hardsight.models.weights import check_weights_file
from hardsight.options import takes
from hardsight.screen import Progress, Say
from hardsight.training.loss_names import check_loss_options, loss_class, loss_name
from hardsight.training.sets import open_sets
from hardsight.training.settings import COMMAND, TrainSettings

if TYPE_CHECKING:
    from hardsight.option_types import TrainOptions
    from hardsight.training.results import Trained


TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",), "mlflow": ("mlflow",)}


@takes(TrainSettings)
def train(
    data: Any,
    output: str | os.PathLike[str],
    *,
    model: Any,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Unpack[TrainOptions],
) -> Trained:
    """Train a network and write a run: its model, head, snapshot, and the dynamics of every sample.

    Batches of an epoch differ in size by one at most, so that none is too small for batch normalization. Where a launcher
    starts several processes, each takes its own device.

    Args:
        data: what `hardsight train` takes as DATA, an `ImageData`, a Snapshot, a frame with a column label, or
            `(inputs, labels)` or `(inputs, labels, ids)` arrays that go into the network as they are.
        output: run directory; an interrupted run is resumed.
        model: a network by name (see `hardsight.models.network_names`), or an nn.Module.
        settings: all options below as one object; options given beside it override its own.
        progress: called with steps done, steps in all, and the epoch's metrics so far.
        say: called with messages for the user.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> data = np.concatenate([rng.normal(-1, 1, (50, 3)), rng.normal(1, 1, (50, 3))]), np.repeat([0, 1], 50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = train(data, folder, model="feature_head", loss="avh", model_options={"num_inputs": 3})
        >>> len(done.history), done.head.kind
        (10, 'angular')
    """
    settings = TrainSettings.given(settings, options)
    for library in ("torch", "accelerate"):
        require_installed(library, extra="torch", purpose=COMMAND)
    _check_tracker(settings.tracker)
    check_network_name(model)
    check_weights_file(settings.weights)
    loss = loss_name(settings.loss)
    from hardsight.training.loop import start_training  # loads torch, which takes seconds
    from hardsight.training.results import read_trained

    check_loss_options(loss, settings.loss_options)
    _check_teacher(settings.teacher, loss, needed="teacher_logits" in loss_class(loss).forward_needs)
    check_run_directory(output, COMMAND)
    sets = open_sets(data, settings)
    start_training(settings, sets, model, Path(output), say, progress)
    return read_trained(Path(output), sets.notes)


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
    check_choice(tracker, TRACKERS, "tracker")
    if not any(_installed(module) for module in TRACKERS[tracker]):
        raise MissingExtra(f"the tracker {tracker} needs {tracker}: pip install {tracker}")


def _installed(module: str) -> bool:
    """Whether there is a package of this name; a folder such as ./wandb, which wandb leaves behind, is none."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None

"""Checkpoints: the state of a training after an epoch, `checkpoints/epoch=0003.safetensors` and a JSON, written last.

The JSON says what the tensors belong to and their checksum, so a checkpoint is complete or does not exist. The order of
samples, their augmentation, dropout and the learning rate are functions of seed, epoch and step: they have no
state to save.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hardsight.dynamics.gathering import rank
from hardsight.errors import FileError, RunError
from hardsight.files.checksums import sha256
from hardsight.files.heads import write_safetensors
from hardsight.files.reading import read_json
from hardsight.files.writing import write_json
from hardsight.screen import Say
from hardsight.training.processes import decided_by_first, wait

History = list[dict[str, Any]]  # one entry per round or epoch of a training
HEAD = "objective.classes."  # beginning of the names of the head's tensors in a `Trainee`
KEPT = 2  # the last one, and the one before should the last be damaged
SECONDS_BETWEEN = 5.0  # for trainings whose epochs take a moment: no checkpoint is written sooner after the one before


@dataclass
class TrainingState:
    """How far a training has come, as plain values.

    Attributes:
        epoch: epochs finished.
        step: training steps made.
        history: one entry per epoch: its means on each set.
        broken: id -> (reason, message) of samples that could not be read.
        scaler: state of the gradient scaler, in float16.
    """

    epoch: int = 0
    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    broken: dict[str, list[str]] = field(default_factory=dict)
    scaler: dict[str, Any] | None = None


def save_checkpoint(folder: Path, state: TrainingState, network: nn.Module, optimizer: torch.optim.Optimizer) -> Path:
    """Write the checkpoint of an epoch, then remove all but the last two."""
    name = folder / f"epoch={state.epoch:04d}.safetensors"
    tensors = {f"network.{key}": x for key, x in network.state_dict().items()}
    tensors |= {f"optimizer.{index}.{key}": x for index, key, x in _optimizer_tensors(optimizer)}
    write_safetensors(name, tensors)
    write_json(name.with_suffix(".json"), {"schema": 1, "sha256": sha256(name), **asdict(state)})
    for old in _checkpoints_in(folder)[:-KEPT]:
        old.with_suffix(".json").unlink(missing_ok=True)
        old.unlink(missing_ok=True)
    return name


def newest_checkpoint(folder: Path) -> tuple[int, list[str]]:
    """The epoch of the newest checkpoint that is whole (0 if none is), and a sentence for each that is not."""
    notes: list[str] = []
    for name in reversed(_checkpoints_in(folder)):
        try:
            description = read_json(name.with_suffix(".json"))
            if description["sha256"] == sha256(name):
                return int(description["epoch"]), notes
            notes.append(f"{name} is damaged (its checksum differs): falling back to the one before")
        except (FileError, OSError, ValueError, KeyError, TypeError) as error:
            notes.append(f"{name} is damaged ({type(error).__name__}): falling back to the one before")
    return 0, notes


def load_checkpoint(folder: Path, epoch: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingState:
    """Restore a network and its optimizer to their state after an epoch."""
    name = folder / f"epoch={epoch:04d}.safetensors"
    try:
        description = read_json(name.with_suffix(".json"))
        tensors = load_file(name)
        network.load_state_dict(_under("network.", tensors))
        _load_optimizer(optimizer, _under("optimizer.", tensors))
        return TrainingState(**{key: description[key] for key in asdict(TrainingState())})
    except (FileError, OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise RunError(f"{name} does not fit this training: {error}. Remove the run's directory to start over.") from error


class Checkpoints:
    """The checkpoints of a training: resumed from, saved now and then, removed at the end.

    Args:
        folder: of this training alone; made when the first checkpoint is written.
        between: seconds that pass between two checkpoints, at least. Default: SECONDS_BETWEEN.
    """

    def __init__(self, folder: Path, between: float | None = None) -> None:
        self.folder, self.saved_at = folder, time.monotonic()
        self.between = SECONDS_BETWEEN if between is None else between

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer, say: Say = lambda note: None) -> TrainingState:
        """Restore network and optimizer from the newest checkpoint, and return its state; a new state if there is none."""
        epoch, notes = (0, []) if rank() else newest_checkpoint(self.folder)
        for note in notes:
            say(note)
        epoch = decided_by_first(epoch, next(network.parameters()).device)
        return load_checkpoint(self.folder, epoch, network, optimizer) if epoch else TrainingState()

    def save(self, state: TrainingState, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write a checkpoint, unless the last one was written a moment ago."""
        if rank() or time.monotonic() - self.saved_at < self.between:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(self.folder, state, network, optimizer)
        self.saved_at = time.monotonic()

    def remove(self) -> None:
        """The training is complete and its result is written; where there are several processes, all wait for that."""
        wait()
        if not rank():
            shutil.rmtree(self.folder, ignore_errors=True)


def save_state(path: Path, learner: nn.Module) -> None:
    """The tensors of a learner, without those that only a method's training needs; in the file, its head is called `last`."""
    tensors = [(name, x) for name, x in learner.state_dict().items() if not name.startswith("own.")]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_safetensors(path, {f"last.{name.removeprefix(HEAD)}" if name.startswith(HEAD) else name: x for name, x in tensors})


def load_state(path: Path) -> dict[str, Tensor]:
    """What `save_state` wrote, for `load_state_dict`."""
    tensors = load_file(path)
    return {f"{HEAD}{name.removeprefix('last.')}" if name.startswith("last.") else name: x for name, x in tensors.items()}


def finished(path: Path) -> History | None:
    """The history of a training of a comparison, if it is complete: it is not trained again."""
    history = read_json(path) if path.is_file() else None
    wait()  # all processes have looked before one of them writes it
    return history


def finish(path: Path, history: History) -> None:
    """Mark a training as complete; its checkpoints are not needed any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, history)
    Checkpoints(path.parent / "checkpoints").remove()


def _checkpoints_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch=*.safetensors"))


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)}


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> list[tuple[int, str, Tensor]]:
    """(parameter number, name, tensor) of everything an optimizer remembers: momenta, moments, steps."""
    state = optimizer.state_dict()["state"]
    return [(index, key, x) for index, entry in state.items() for key, x in entry.items() if isinstance(x, Tensor)]


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, x in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = x
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

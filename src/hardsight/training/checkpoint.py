"""Where a training stands after an epoch: `checkpoints/epoch=0003.safetensors`, and a JSON beside it, written last.

The JSON says what the tensors belong to and their checksum, so a checkpoint is there whole or not at all. The order of
samples, their augmentation, dropout and the learning rate are functions of seed, epoch and step: there is no state of
theirs to save.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hardsight.errors import RunError
from hardsight.files.checksums import sha256
from hardsight.files.tensors import write_safetensors
from hardsight.files.writing import write_json

KEPT = 2  # the last one, and the one before should the last be damaged


@dataclass
class Progress:
    """What has happened so far, as plain values.

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


def save_checkpoint(folder: Path, progress: Progress, trainee: nn.Module, optimizer: torch.optim.Optimizer) -> Path:
    """Write the checkpoint of an epoch, then remove all but the last two."""
    name = folder / f"epoch={progress.epoch:04d}.safetensors"
    tensors = {f"trainee.{key}": x for key, x in trainee.state_dict().items()}
    tensors |= {f"optimizer.{index}.{key}": x for index, key, x in _optimizer_tensors(optimizer)}
    write_tensors(name, tensors)
    write_json(name.with_suffix(".json"), {"schema": 1, "sha256": sha256(name), **asdict(progress)})
    for old in _found(folder)[:-KEPT]:
        old.with_suffix(".json").unlink(missing_ok=True)
        old.unlink(missing_ok=True)
    return name


def newest_checkpoint(folder: Path) -> tuple[int, list[str]]:
    """The epoch of the newest checkpoint that is whole (0 if none is), and a sentence for each that is not."""
    notes: list[str] = []
    for name in reversed(_found(folder)):
        try:
            told = json.loads(name.with_suffix(".json").read_text("utf-8"))
            if told["sha256"] == sha256(name):
                return int(told["epoch"]), notes
            notes.append(f"{name} is damaged (its checksum differs): falling back to the one before")
        except (OSError, ValueError, KeyError, TypeError) as error:
            notes.append(f"{name} is damaged ({type(error).__name__}): falling back to the one before")
    return 0, notes


def load_checkpoint(folder: Path, epoch: int, trainee: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Bring a trainee and its optimizer to where they were after an epoch."""
    name = folder / f"epoch={epoch:04d}.safetensors"
    try:
        told = json.loads(name.with_suffix(".json").read_text("utf-8"))
        tensors = load_file(name)
        trainee.load_state_dict(_under("trainee.", tensors))
        _load_optimizer(optimizer, _under("optimizer.", tensors))
        return Progress(**{key: told[key] for key in asdict(Progress())})
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise RunError(f"{name} does not fit this training: {error}. Remove the run's directory to start over.") from error


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file of tensors on any device."""
    write_safetensors(path, tensors)


def _found(folder: Path) -> list[Path]:
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

"""What decides a training, beside its data and its network: checked once, at the door."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from hardsight.errors import InputError
from hardsight.training.augmentation import Augmentation
from hardsight.training.schedule import Schedule

OPTIMIZERS = ("sgd", "adamw")
PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}  # ours, and Accelerate's word for it
RATES = {"sgd": 0.01, "adamw": 1e-3}  # learning rates where none is given


@dataclass(frozen=True)
class Settings:
    """See `hardsight.training.run` for what each one means."""

    loss: str
    loss_options: dict[str, Any]
    epochs: int
    batch_size: int
    optimizer: str
    lr: float
    head_rate: float
    momentum: float
    nesterov: bool
    weight_decay: float
    schedule: Schedule
    milestones: tuple[float, ...]
    gamma: float
    warmup: float
    clip: float | None
    augment: Augmentation
    every: int | None
    seed: int
    precision: str
    snapshot: bool
    strict: bool
    degradations: tuple[str, ...] = field(default=())
    at_start: bool = False

    def __post_init__(self) -> None:
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        _one_of("precision", self.precision, tuple(PRECISIONS))
        _one_of("schedule", self.schedule, get_args(Schedule))
        for name, value, least in (("epochs", self.epochs, 1), ("batch_size", self.batch_size, 1), ("every", self.every, 1)):
            if value is not None and (isinstance(value, bool) or int(value) != value or value < least):
                raise InputError(f"{name} must be a whole number of {least} or more, got {value!r}.")
        for name in ("lr", "head_rate", "gamma"):
            if not (0 < getattr(self, name) < math.inf):
                raise InputError(f"{name} must be a positive number, got {getattr(self, name)!r}.")
        for name in ("momentum", "weight_decay", "warmup"):
            if not (0 <= getattr(self, name) < math.inf):
                raise InputError(f"{name} must be a number of 0 or more, got {getattr(self, name)!r}.")
        if self.clip is not None and not (0 < self.clip < math.inf):
            raise InputError(f"clip must be a positive length, got {self.clip!r}.")
        if self.nesterov and self.momentum == 0:
            raise InputError("nesterov needs a momentum above 0.")
        if any(not 0 <= at for at in self.milestones):
            raise InputError(f"milestones are epochs of 0 or more, got {self.milestones}.")
        if self.milestones and self.schedule != "step":
            raise InputError(f"milestones go with schedule 'step', not with {self.schedule!r}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for start.json."""
        plain = asdict(self)
        return {
            **plain,
            "augment": str(self.augment),
            "milestones": list(self.milestones),
            "degradations": list(self.degradations),
        }


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")


def read_options(texts: Any) -> dict[str, Any]:
    """Options from `key=value` texts: numbers, true, false and none as such, several numbers with commas as a tuple.

    Example:
        >>> read_options(["scale=10", "covariance=shared", "bounds=-4,4", "bias=false"])
        {'scale': 10, 'covariance': 'shared', 'bounds': (-4, 4), 'bias': False}
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip().isidentifier():
            raise InputError(f"an option is written key=value, as in scale=10, got {text!r}.")
        if key.strip() in found:
            raise InputError(f"the option {key.strip()} is given twice.")
        parts = tuple(_value(part.strip()) for part in value.split(","))
        found[key.strip()] = parts if len(parts) > 1 else parts[0]
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

"""What decides a self-training, beside its data and its network: checked once, at the door."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from hardsight.adapt.selection import GroupBy, check_method
from hardsight.adapt.thresholds import Rule
from hardsight.domains.scaling import Standardize
from hardsight.errors import InputError

Schedule = Literal["constant", "cosine"]
Optimizer = Literal["sgd", "adamw"]
SOURCE_ONLY = "source"  # the method that does nothing
RECIPES: dict[str, dict[str, Any]] = {  # what is used where nothing else is asked for
    "features": {"optimizer": "sgd", "lr": 0.03, "weight_decay": 0.05, "source_epochs": 8},
    "images": {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 5e-4, "source_epochs": 8},
}


@dataclass(frozen=True)
class Portions:
    """A portion that grows round by round: used first, then raised.

    Example:
        >>> growing = Portions.read("0.2:0.05:0.3", "portion")
        >>> [round(growing.at(number), 2) for number in (1, 2, 3, 4)]
        [0.2, 0.25, 0.3, 0.3]
    """

    start: float
    step: float = 0.0
    stop: float = 1.0

    @classmethod
    def read(cls, text: Any, name: str) -> Portions:
        """`start:step:stop`, one number for all rounds, or the three as a tuple."""
        if isinstance(text, Portions):
            return text
        parts = str(text).split(":") if isinstance(text, (str, int, float)) else list(text)
        try:
            numbers = [float(part) for part in parts]
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} is written start:step:stop, as in 0.2:0.05:0.5, or as one number; got {text!r}.") from error
        if len(numbers) == 1:
            numbers = [numbers[0], 0.0, numbers[0]]
        if len(numbers) != 3 or not all(0 <= number <= 1 for number in numbers) or numbers[2] < numbers[0]:
            raise InputError(f"{name} is written start:step:stop with 0 <= start <= stop <= 1, got {text!r}.")
        return cls(*numbers)

    def at(self, round_number: int) -> float:
        """The portion of a round, counted from 1."""
        return min(self.start + (round_number - 1) * self.step, self.stop)

    def __str__(self) -> str:
        return f"{self.start:g}:{self.step:g}:{self.stop:g}"


@dataclass(frozen=True)
class Settings:
    """See `hardsight.adapt.run` for what each one means."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    rounds: int
    epochs: int
    source_epochs: int
    portion: Portions
    source_portion: Portions
    standardize: Standardize
    hidden: int
    balance: bool
    relabel: bool
    ema: float
    rule: Rule
    group_by: GroupBy
    lrent: float
    mrkld: float
    optimizer: Optimizer
    lr: float
    source_lr: float
    momentum: float
    weight_decay: float
    schedule: Schedule
    batch_size: int
    augment: str

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("epochs", 1), ("source_epochs", 0), ("batch_size", 1), ("hidden", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of {least} or more, got {value!r}.")
        for name in ("lr", "source_lr", "lrent"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a positive number, got {getattr(self, name)!r}.")
        for name in ("mrkld", "momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a number of 0 or more, got {getattr(self, name)!r}.")
        if not 0 <= self.ema < 1:
            raise InputError(f"ema must be 0 (none) or more and below 1, got {self.ema!r}.")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in get_args(allowed):
                raise InputError(f"{name} must be one of {', '.join(get_args(allowed))}, got {getattr(self, name)!r}.")
        for name, values in (("methods", self.methods), ("seeds", self.seeds)):
            if not values:
                raise InputError(f"there must be at least one of {name}.")
            if len(set(values)) != len(values):
                raise InputError(f"{name} must be different ones, got {', '.join(map(str, values))}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for start.json."""
        return {**asdict(self), "portion": str(self.portion), "source_portion": str(self.source_portion)} | {
            "methods": list(self.methods),
            "seeds": list(self.seeds),
        }


_CHOICES: dict[str, Any] = {
    "standardize": Standardize,
    "schedule": Schedule,
    "optimizer": Optimizer,
    "rule": Rule,
    "group_by": GroupBy,
}


def read_methods(methods: Any) -> tuple[str, ...]:
    """Methods by name, with `source` for none at all; a text has commas between them."""
    names = methods.split(",") if isinstance(methods, str) else list(methods)
    return tuple(SOURCE_ONLY if str(name).strip() == SOURCE_ONLY else check_method(name) for name in names)

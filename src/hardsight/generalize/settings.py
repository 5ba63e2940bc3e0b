"""What decides a comparison on unseen domains, checked at the door."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from hardsight.errors import InputError

Selection = Literal["validation", "last", "oracle"]
DRM = "drm"


@dataclass(frozen=True)
class Settings:
    """See `hardsight.generalize.run` for what each one means."""

    losses: tuple[str, ...]
    loss_options: dict[str, dict[str, Any]]
    scales: tuple[float, ...]
    seeds: tuple[int, ...]
    epochs: int
    batch_size: int
    selection: Selection
    held_out: float
    standardize: bool
    hidden: int
    lr: float
    momentum: float
    weight_decay: float
    augment: str

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "hidden"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of 1 or more, got {value!r}.")
        if not 0 < self.lr < math.inf:
            raise InputError(f"lr must be a positive number, got {self.lr!r}.")
        for name in ("momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a number of 0 or more, got {getattr(self, name)!r}.")
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out must be between 0 and 1, got {self.held_out!r}.")
        if self.selection not in get_args(Selection):
            raise InputError(f"selection must be one of {', '.join(get_args(Selection))}, got {self.selection!r}.")
        if any(not 0 < scale < math.inf for scale in self.scales):
            raise InputError(f"scales must be positive numbers, got {self.scales}.")
        if not self.losses or len(set(self.losses)) != len(self.losses):
            raise InputError(f"losses must be different ones, at least one, got {', '.join(self.losses) or 'none'}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for start.json."""
        return {**asdict(self), "losses": list(self.losses), "seeds": list(self.seeds), "scales": list(self.scales)}


def parts_of(name: str) -> tuple[str, bool]:
    """The loss of a name, and whether it has a head per domain: `drm` and `drm+softmax`, `drm+avh`, ..."""
    if name == DRM:
        return "softmax", True
    return (name.removeprefix(f"{DRM}+"), True) if name.startswith(f"{DRM}+") else (name, False)

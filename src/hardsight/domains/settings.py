"""The options that adapt and generalize share: seeds, the network for images, the head on features, how it learns."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hardsight.errors import InputError
from hardsight.options import option
from hardsight.training.settings import LearningOptions, NetworkOptions, OptimizerOptions, ResourceOptions, group

Standardize = Literal["domain", "source", "none"]


def read_list(value: Any, name: str) -> list[Any]:
    """Comma-separated text, or a sequence, as a list."""
    if isinstance(value, str):
        return value.split(",")
    if not isinstance(value, Iterable):
        raise InputError(f"{name} must be comma-separated text or a list, got {value!r}.")
    return list(value)


def read_seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves: a sequence, or comma-separated text.

    Example:
        >>> read_seeds(3), read_seeds("3"), read_seeds("5,7")
        ((0, 1, 2), (0, 1, 2), (5, 7))
    """
    if isinstance(value, str):
        try:
            listed = [int(part) for part in value.split(",") if part.strip()]
        except ValueError as error:
            raise InputError(f"seeds must be a number of seeds or comma-separated seeds, got {value!r}.") from error
        value = listed if "," in value or not listed else listed[0]
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if int(value) < 1:
            raise InputError(f"seeds must be 1 or more, got {value}.")
        return tuple(range(int(value)))
    seeds = tuple(read_list(value, "seeds"))
    if not all(isinstance(seed, numbers.Integral) and int(seed) >= 0 for seed in seeds):
        raise InputError(f"seeds must be whole numbers of 0 or more, got {value!r}.")
    return tuple(int(seed) for seed in seeds)


def check_different(name: str, values: tuple[Any, ...]) -> None:
    """Check that there is at least one value, and no value twice."""
    if not values:
        raise InputError(f"there must be at least one of {name}.")
    if len(set(values)) != len(values):
        raise InputError(f"{name} must be distinct, got {', '.join(map(str, values))}.")


@dataclass(frozen=True)
class NesterovByDefault(OptimizerOptions):
    """Those of a comparison: Nesterov momentum, where there is momentum."""

    nesterov: bool | None = OptimizerOptions.redefine("nesterov", None)


@dataclass(frozen=True)
class DomainOptions(NetworkOptions, LearningOptions, ResourceOptions):
    """Options of a comparison over domains and seeds."""

    FOR_IMAGES: ClassVar[tuple[str, ...]] = ("model", *(field.name for field in NetworkOptions.fields()), "augment")
    FOR_FEATURES: ClassVar[tuple[str, ...]] = ("hidden",)
    seeds: tuple[int, ...] = option(1, "Number of seeds, counted from 0, or comma-separated seeds.", read=read_seeds)
    model: Any = option(None, "Network for images: lenet, mnist_cnn, timm:NAME, ..., or a trained run.", metavar="MODEL")
    hidden: int = option(512, "Hidden units of the head that is trained on features.", least=1)
    optimizer_options: OptimizerOptions = LearningOptions.redefine(
        "optimizer_options", NesterovByDefault(), read=group(NesterovByDefault)
    )

    def check(self) -> None:
        """Check the seeds, and the precision on a CPU."""
        super().check()
        check_different("seeds", self.seeds)
        if self.precision == "float16" and self.device == "cpu":  # of device auto, torch knows
            raise InputError("precision float16 needs a GPU; on a CPU use bfloat16.")

    def given_among(self, names: tuple[str, ...]) -> list[str]:
        """Those of these options that differ from their defaults and are not `none`."""
        default = {field.name: field.default for field in self.fields()}
        return [name for name in names if getattr(self, name) not in (default[name], "none")]

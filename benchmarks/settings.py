"""Options of `python -m benchmarks hardness` and `bench clean`, defined once. Nothing heavy is imported, so `--help` is fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.domains.settings import check_different, read_seeds
from hardsight.errors import InputError
from hardsight.options import Options, common, option
from hardsight.training.settings import read_numbers

SETS = ("digits", "mnist", "cifar10")
MISLABELED = ("uniform", "pair", "adjacent", "instance")  # training samples with wrong labels
ODD = ("near", "far", "shift", "zoom", "crop", "duplicate")  # held-out samples unlike the others
PARTS = ("injected", "people", "speed", "counts")
LABEL_SETS = ("random1", "random2", "random3")  # of CIFAR-10N: the first for tuning, the others for reporting


def _words(name: str, known: tuple[str, ...]) -> Callable[[Any], tuple[str, ...]]:
    """A reader of comma-separated words, or a sequence; each must be known."""

    def read(value: Any) -> tuple[str, ...]:
        parts = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else list(value)
        unknown = [part for part in parts if part not in known]
        if unknown:
            raise InputError(f"{name} must be of {', '.join(known)}, got {unknown[0]!r}.")
        return tuple(parts)

    return read


def _rates(value: Any) -> tuple[float, ...]:
    return read_numbers(value, "rates", "shares such as 0.1")


@dataclass(frozen=True)
class StudyOptions(Options):
    """Which images, how many of them, and how many seeds."""

    data: Path | None = option(
        None, "Directory with mnist.npz, cifar10_train.npz or cifar10n_train.npz. Default: only the built-in digits.", read=Path
    )
    sets: tuple[str, ...] = option(
        (), f"Comma-separated sets of images: {', '.join(SETS)}. Default: all available.", read=_words("sets", SETS)
    )
    seeds: tuple[int, ...] = option(5, "Number of seeds, counted from 0, or comma-separated seeds.", read=read_seeds)
    limit: int | None = common("limit", help="Use only N samples of each set, spread evenly over it. Default: 5000.", least=20)
    quick: bool = option(False, "Try it: one seed, few samples and few epochs. The numbers mean little.")

    def check(self) -> None:
        """Check that there are seeds, that they are unique, and that the directory exists."""
        super().check()
        check_different("seeds", self.seeds)
        if self.data is not None and not self.data.is_dir():
            raise InputError(f"{self.data} is not a directory.")

    @property
    def used_seeds(self) -> tuple[int, ...]:
        """The seeds; in a quick trial, only the first."""
        return self.seeds[:1] if self.quick else self.seeds

    @property
    def used_limit(self) -> int | None:
        """The limit; in a quick trial, 600 unless given."""
        return 600 if self.quick and self.limit is None else self.limit


@dataclass(frozen=True)
class HardnessSettings(StudyOptions):
    """The options of `python -m benchmarks hardness`."""

    kinds: tuple[str, ...] = option(
        (),
        f"Comma-separated kinds of hardness: {', '.join((*MISLABELED, *ODD))}. Default: all.",
        read=_words("kinds", (*MISLABELED, *ODD)),
    )
    rates: tuple[float, ...] = option("0.05,0.1,0.3", "Comma-separated shares of hard samples.", read=_rates)
    top: int = option(5, "Number of scores to print for each kind; AVH is always among them.", least=1)

    def check(self) -> None:
        """Rates must be above 0 and at most 0.5."""
        super().check()
        check_different("rates", self.rates)
        if not all(0 < rate <= 0.5 for rate in self.rates):
            raise InputError(f"rates must be above 0 and at most 0.5, got {', '.join(f'{rate:g}' for rate in self.rates)}.")

    @property
    def used_kinds(self) -> tuple[str, ...]:
        """The requested kinds, or all."""
        return self.kinds or (*MISLABELED, *ODD)

    @property
    def used_rates(self) -> tuple[float, ...]:
        """The rates; in a quick trial 0.1 if it is among them, otherwise the first."""
        return self.rates if not self.quick else (0.1 if 0.1 in self.rates else self.rates[0],)


@dataclass(frozen=True)
class CleanBenchSettings(StudyOptions):
    """The options of `python -m benchmarks clean`."""

    parts: tuple[str, ...] = option(
        ",".join(PARTS),
        "Comma-separated parts: injected (injected label noise), people (CIFAR-10N: human labels), speed, counts (how many "
        "labels are wrong, over many settings).",
        read=_words("parts", PARTS),
    )
    label_sets: tuple[str, ...] = option(
        ",".join(LABEL_SETS), "Comma-separated label sets of CIFAR-10N.", read=_words("label_sets", LABEL_SETS)
    )
    rounds: int = option(1, "Number of interleaved rounds of the timings; the median of their ratios is reported.", least=1)

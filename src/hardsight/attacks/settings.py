"""The options of `hardsight attack`, each defined once. Nothing here imports NumPy or torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hardsight.errors import InputError, did_you_mean
from hardsight.extraction.settings import ExtractSettings, PreprocessingOptions
from hardsight.options import Options, common, option
from hardsight.training.settings import NetworkOptions

METHODS = ("fgsm", "pgd")


def _methods(value: Any) -> tuple[str, ...]:
    """Names of attacks, each once."""
    names = [name.strip().lower() for name in value.split(",")] if isinstance(value, str) else [str(name) for name in value]
    for name in names:
        if name not in METHODS:
            raise InputError(f"methods must be one or more of {', '.join(METHODS)}, got {name!r}.{did_you_mean(name, METHODS)}")
    if not names:
        raise InputError(f"methods must be one or more of {', '.join(METHODS)}, got none.")
    return tuple(dict.fromkeys(names))


def _epsilons(value: Any) -> tuple[float, ...]:
    """How far a pixel may move, each once, in rising order. 8/255 is read, too; 0 is the clean input, which is always there."""
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, (int, float)) else list(value)
    epsilons = sorted({_epsilon(part) for part in parts} - {0.0})
    if not epsilons:
        raise InputError(f"epsilon must be above 0 and at most 1, for pixels of 0 to 1, got {value!r}.")
    return tuple(epsilons)


def _epsilon(part: Any) -> float:
    try:
        above, _, below = part.partition("/") if isinstance(part, str) else (part, "", "")
        number = float(above) / (float(below) if below else 1.0)
    except (TypeError, ValueError, ZeroDivisionError):
        number = math.nan
    if not 0 <= number <= 1:
        hint = " Write 8/255 for 8 gray levels." if math.isfinite(number) and number > 1 else ""
        raise InputError(f"epsilon must be above 0 and at most 1, for pixels of 0 to 1, got {part!r}.{hint}")
    return number


@dataclass(frozen=True)
class AttackSettings(Options):
    """Options of an attack: how, how far, on which images and on which model."""

    methods: Any = option("fgsm", "Comma-separated attacks: fgsm (one step), pgd (many).", read=_methods, metavar="[fgsm|pgd]")
    epsilon: Any = option(
        "0.1,0.2,0.3", "Comma-separated perturbation limits, for pixels in 0..1; fractions such as 8/255 are allowed.",
        read=_epsilons, metavar="E,E,..",
    )  # fmt: skip
    steps: int = option(10, "Steps of pgd.", least=1)
    step_size: float | None = option(None, "Step of pgd, for pixels in 0..1. Default: 2.5 epsilon / steps.", above=0, most=1)
    random_start: bool = option(True, "Start pgd from a random point within epsilon.", flag="--random-start/--no-random-start")
    seed: int = common("seed")
    trajectories: int = option(
        100, "Number of samples whose path in angle and norm is traced as epsilon grows; 0 for none.", least=0
    )
    path_steps: int = option(30, "Steps of each traced path, up to the largest epsilon.", least=1)
    data: Any = option(None, "Images to attack. Default: those that RUN was made from.", metavar="DATA", decides=False)
    split: str | None = option(None, "Split of the images to attack. Default: test, else val, else all.", decides=False)
    labels_from: Any = common("labels_from")
    limit: int | None = common("limit", decides=False)
    first: int | None = common("first", decides=False)
    model: Any = option(
        None, "Model to attack, as for extract, where RUN holds features but no model.", metavar="MODEL", decides=False
    )
    weights: Any = option(None, "Weights of the model: .safetensors, or .pt with tensors only.", metavar="FILE", decides=False)
    num_classes: int | None = ExtractSettings.redefine("num_classes", None)
    head: str | None = common("head_layer")
    batch_size: int = option(128, "Images per step.", least=1)
    device: Any = common("device", decides=False)
    workers: int | None = option(None, "Decoding threads. Default: one per core.", least=1, decides=False)
    preprocessing: PreprocessingOptions = NetworkOptions.redefine(  # what it results in is recorded as a whole
        "preprocessing", PreprocessingOptions(), decides=False
    )

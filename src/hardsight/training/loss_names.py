"""The losses by name, and the options of each; objective.py, which needs torch, has what they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from hardsight.errors import InputError, did_you_mean

LOSS_OPTIONS = {
    "softmax": "bias",
    "avh": "scale",
    "lgm": "alpha likelihood covariance prior bounds warmup_epochs step_up",
    "gm": "likelihood covariance prior bounds warmup_epochs step_up",
    "center": "pull rate bias",
    "l_softmax": "m base gamma power smallest",
    "a_softmax": "m base gamma power smallest",
    "normface": "scale learn_scale",
    "normalized_softmax": "scale learn_scale",
    "cosface": "margin scale",
    "arcface": "margin scale",
    "dual_head": "distill temperature hidden bias",
    "comp_sum": "tau",
    "truncated_gce": "q k warmup_epochs",
    "znorm": "sharpness target",
    "ldr": "temperature margin normalize",
    "aldr": "start alpha margin normalize",
    "ens": "",
    "contrastive": "margin mining weight",
    "triplet": "margin mining weight",
    "proto_triplet": "margin weight",
    "icnn": "neighbors weight",
    "supcon": "temperature projection weight",
    "smooth_adversarial": "tau rho nu radius step steps low high",
}
LOSS_NAMES = tuple(LOSS_OPTIONS)
MINING = {"contrastive": ("all", "hard"), "triplet": ("all", "semihard", "hard")}
ABOVE_ZERO = frozenset("scale temperature sharpness start rho radius step".split())  # in every loss that has one of them
FROM_ZERO = frozenset("likelihood pull rate distill tau nu warmup_epochs weight projection".split())
WHOLE = frozenset("m projection neighbors steps".split())
NUMBERS = ABOVE_ZERO | FROM_ZERO | WHOLE | frozenset("alpha base gamma power smallest margin q k".split())


def loss_name(text: str) -> str:
    """A name of LOSS_NAMES from what a user typed.

    Example:
        >>> loss_name("L-Softmax")
        'l_softmax'
    """
    name = text.strip().lower().replace("-", "_")
    if name not in LOSS_NAMES:
        raise InputError(f"loss must be one of {', '.join(LOSS_NAMES)}, got {text!r}.{did_you_mean(name, LOSS_NAMES)}")
    return name


def check_loss_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that a loss of LOSS_NAMES does not have, or a value that no loss can have there."""
    known = LOSS_OPTIONS[name].split()
    for option, value in options.items():
        if option not in known:
            listed = ", ".join(known) or "none"
            raise InputError(f"the loss {name} has no option {option!r}; it has: {listed}.{did_you_mean(option, known)}")
        if option in NUMBERS:
            _check_number(option, value, above_zero=option in ABOVE_ZERO or (option == "margin" and "weight" in known))
        if option == "mining" and not callable(value) and value not in MINING[name]:
            near = did_you_mean(str(value), MINING[name])
            raise InputError(f"mining must be one of {', '.join(MINING[name])}, or a miner, got {value!r}.{near}")


def _check_number(option: str, value: Any, above_zero: bool) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if above_zero and not (number and value > 0):
        raise InputError(f"{option} must be a positive number, got {value}.")
    if option in FROM_ZERO and not (number and value >= 0):
        raise InputError(f"{option} must be a number >= 0, got {value}.")
    if not number:
        raise InputError(f"{option} must be a number, got {value}.")
    if option in WHOLE and value != int(value):
        raise InputError(f"{option} must be a whole number, got {value}.")

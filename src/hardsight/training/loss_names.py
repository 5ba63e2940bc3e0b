"""The losses by name, and the options of each; objective.py, which needs torch, has what they stand for."""

from __future__ import annotations

from collections.abc import Iterable

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
    "ldr": "temperature margin normalise",
    "aldr": "start alpha margin normalise",
    "ens": "",
    "contrastive": "margin mining weight",
    "triplet": "margin mining weight",
    "proto_triplet": "margin weight",
    "icnn": "neighbours weight",
    "supcon": "temperature projection weight",
    "smooth_adversarial": "tau rho nu radius step steps low high",
}
LOSS_NAMES = tuple(LOSS_OPTIONS)


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


def check_loss_options(name: str, options: Iterable[str]) -> None:
    """Refuse an option that a loss of LOSS_NAMES does not have."""
    known = LOSS_OPTIONS[name].split()
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise InputError(f"the loss {name} has no option {option!r}; it has: {listed}.{did_you_mean(option, known)}")

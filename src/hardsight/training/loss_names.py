"""The losses by name; objective.py, which needs torch, has what they stand for."""

from __future__ import annotations

from difflib import get_close_matches

from hardsight.errors import InputError

LOSS_NAMES = (
    "softmax", "avh", "lgm", "gm", "center", "l_softmax", "a_softmax", "normface", "normalized_softmax", "cosface", "arcface",
    "dual_head", "comp_sum", "truncated_gce", "znorm", "ldr", "aldr", "ens", "contrastive", "triplet", "proto_triplet", "icnn",
    "supcon", "smooth_adversarial",
)  # fmt: skip


def loss_name(text: str) -> str:
    """A name of LOSS_NAMES from what a user typed.

    Example:
        >>> loss_name("L-Softmax")
        'l_softmax'
    """
    name = text.strip().lower().replace("-", "_")
    if name not in LOSS_NAMES:
        close = get_close_matches(name, LOSS_NAMES, n=1)
        near = f" Did you mean {close[0]}?" if close else ""
        raise InputError(f"loss must be one of {', '.join(LOSS_NAMES)}, got {text!r}.{near}")
    return name

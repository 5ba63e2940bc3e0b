"""The losses by name, and their options: the class of a loss, which needs torch, says which; here they are checked."""

from __future__ import annotations

import importlib
import math
import types
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from hardsight.errors import InputError, check_choice, did_you_mean

if TYPE_CHECKING:
    from hardsight.losses.contract import Loss

LOSSES = {  # name -> its module in hardsight.losses and its class: a new loss is a file there, and a line here
    "softmax": "softmax:SoftmaxLoss",
    "avh": "avh:AVHLoss",
    "lgm": "lgm:LGMLoss",
    "gm": "lgm:GMLoss",
    "center": "center:CenterLoss",
    "l_softmax": "multiplied_angle:LSoftmaxLoss",
    "a_softmax": "multiplied_angle:ASoftmaxLoss",
    "normface": "normface:NormFaceLoss",
    "normalized_softmax": "normface:NormalizedSoftmaxLoss",
    "cosface": "cosface:CosFaceLoss",
    "arcface": "arcface:ArcFaceLoss",
    "dual_head": "dual_head:DualHeadLoss",
    "comp_sum": "comp_sum:CompSumLoss",
    "truncated_gce": "comp_sum:TruncatedGCELoss",
    "znorm": "znorm:ZNormLoss",
    "ldr": "ldr:LDRLoss",
    "aldr": "ldr:ALDRLoss",
    "ens": "ens:EnsLoss",
    "contrastive": "contrastive:ContrastiveLoss",
    "triplet": "triplet:TripletLoss",
    "proto_triplet": "proto_triplet:ProtoTripletLoss",
    "icnn": "icnn:ICNNLoss",
    "supcon": "supcon:SupConLoss",
    "smooth_adversarial": "smooth_adversarial:SmoothAdversarialCompSumLoss",
}


def loss_name(text: str) -> str:
    """A key of LOSSES from what a user typed.

    Example:
        >>> loss_name("L-Softmax")
        'l_softmax'
    """
    name = text.strip().lower().replace("-", "_")
    check_choice(name, LOSSES, "loss")
    return name


def loss_class(name: str) -> type[Loss]:
    """The class of a loss of LOSSES."""
    module, _, kind = LOSSES[name].partition(":")
    found: type[Loss] = getattr(importlib.import_module(f"hardsight.losses.{module}"), kind)
    return found


def loss_options(name: str) -> dict[str, Any]:
    """Option -> its type, of a loss of LOSSES.

    Example:
        >>> loss_options("cosface")
        {'margin': <class 'float'>, 'scale': <class 'float'>}
    """
    return loss_class(name).options()


def with_defaults(name: str, options: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """The options of a loss, and those that depend on how long the training is."""
    return {**loss_class(name).default_options(epochs), **options}


def check_loss_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that a loss does not have, or a value of another type; the constructor checks its range."""
    option_types = loss_options(name)
    for option, value in options.items():
        if option not in option_types:
            listed = ", ".join(option_types) or "none"
            raise InputError(f"the loss {name} has no option {option!r}; it has: {listed}.{did_you_mean(option, option_types)}")
        hint = option_types[option]
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        if words and not callable(value):
            check_choice(value, words, option)
        if {int, float} & set(kinds) and not (value is None and type(None) in kinds):
            _check_number(option, value, whole=float not in kinds)


def _check_number(option: str, value: Any, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"{option} must be a number, got {value}.")
    if whole and value % 1:
        raise InputError(f"{option} must be a whole number, got {value}.")

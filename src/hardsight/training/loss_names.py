"""The losses by name; objective.py, which needs torch, has their options."""

from __future__ import annotations

from typing import Literal

from hardsight.errors import InputError, did_you_mean

Family = Literal["head", "logits", "pairs", "inputs"]

LOSSES: dict[str, tuple[Family, str]] = {  # name -> what it is computed from, and its class in hardsight.losses
    "softmax": ("head", "SoftmaxLoss"),
    "avh": ("head", "AVHLoss"),
    "lgm": ("head", "LGMLoss"),
    "gm": ("head", "GMLoss"),
    "center": ("head", "CenterLoss"),
    "l_softmax": ("head", "LSoftmaxLoss"),
    "a_softmax": ("head", "ASoftmaxLoss"),
    "normface": ("head", "NormFaceLoss"),
    "normalized_softmax": ("head", "NormalizedSoftmaxLoss"),
    "cosface": ("head", "CosFaceLoss"),
    "arcface": ("head", "ArcFaceLoss"),
    "dual_head": ("head", "DualHeadLoss"),
    "comp_sum": ("logits", "CompSumLoss"),
    "truncated_gce": ("logits", "TruncatedGCELoss"),
    "znorm": ("logits", "ZNormLoss"),
    "ldr": ("logits", "LDRLoss"),
    "aldr": ("logits", "ALDRLoss"),
    "ens": ("logits", "EnsLoss"),
    "contrastive": ("pairs", "ContrastiveLoss"),
    "triplet": ("pairs", "TripletLoss"),
    "proto_triplet": ("pairs", "ProtoTripletLoss"),
    "icnn": ("pairs", "ICNNLoss"),
    "supcon": ("pairs", "SupConLoss"),
    "smooth_adversarial": ("inputs", "SmoothAdversarialCompSumLoss"),
}


def loss_name(text: str) -> str:
    """A key of LOSSES from what a user typed.

    Example:
        >>> loss_name("L-Softmax")
        'l_softmax'
    """
    name = text.strip().lower().replace("-", "_")
    if name not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, got {text!r}.{did_you_mean(name, LOSSES)}")
    return name

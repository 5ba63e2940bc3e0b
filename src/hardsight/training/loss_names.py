"""The losses by name; their classes, which need torch, have their options and families."""

from __future__ import annotations

from hardsight.errors import InputError, did_you_mean

LOSSES = {  # name -> its module in hardsight.losses and its class: a new loss is a file there, and a line here
    "softmax": "softmax:SoftmaxLoss",
    "avh": "avh:AVHLoss",
    "lgm": "lgm:LGMLoss",
    "gm": "lgm:GMLoss",
    "center": "center:CenterLoss",
    "l_softmax": "l_softmax:LSoftmaxLoss",
    "a_softmax": "a_softmax:ASoftmaxLoss",
    "normface": "normface:NormFaceLoss",
    "normalized_softmax": "normface:NormalizedSoftmaxLoss",
    "cosface": "cosface:CosFaceLoss",
    "arcface": "arcface:ArcFaceLoss",
    "dual_head": "dual_head:DualHeadLoss",
    "comp_sum": "comp_sum:CompSumLoss",
    "truncated_gce": "truncated_gce:TruncatedGCELoss",
    "znorm": "znorm:ZNormLoss",
    "ldr": "ldr:LDRLoss",
    "aldr": "aldr:ALDRLoss",
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
    if name not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, got {text!r}.{did_you_mean(name, LOSSES)}")
    return name

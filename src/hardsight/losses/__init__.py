"""Losses, one per file: a function that reads like the paper, and a thin module that owns the parameters.

Heads own class vectors and take (features, labels). Logit losses take (logits, labels). Pair losses take
(features, labels). Others document their inputs. docs/losses.md has the paper, formula and defaults of each.
"""

from hardsight.errors import require

require("torch", extra="torch", purpose="hardsight.losses")

# ruff: noqa: E402
from hardsight.losses.a_softmax import ASoftmaxLoss, a_softmax_loss
from hardsight.losses.aldr import ALDRLoss
from hardsight.losses.arcface import ArcFaceLoss, arcface_loss
from hardsight.losses.avh import AVHLoss, avh_logits, avh_loss, smallest_scale
from hardsight.losses.center import CenterLoss, center_loss
from hardsight.losses.comp_sum import CompSumLoss, comp_sum_loss
from hardsight.losses.contract import HeadLoss
from hardsight.losses.contrastive import ContrastiveLoss, contrastive_loss
from hardsight.losses.cosface import CosFaceLoss, cosface_loss
from hardsight.losses.dual_head import DualHeadLoss, aligned_sum, binary_kl_loss
from hardsight.losses.ens import EnsLoss, ens_loss
from hardsight.losses.icnn import ICNNLoss, icnn_loss, icnn_scores
from hardsight.losses.l_softmax import LSoftmaxLoss, l_softmax_loss
from hardsight.losses.ldr import LDRLoss, ldr_loss
from hardsight.losses.lgm import GMLoss, LGMLoss, lgm_loss
from hardsight.losses.naive_bayes import GaussianNaiveBayes
from hardsight.losses.normalized_softmax import NormalizedSoftmaxLoss, cosine_prototypes
from hardsight.losses.normface import NormFaceLoss, normface_loss
from hardsight.losses.proto_triplet import ProtoTripletLoss, proto_triplet_loss
from hardsight.losses.smooth_adversarial import SmoothAdversarialCompSumLoss, smooth_adversarial_comp_sum_loss
from hardsight.losses.softmax import SoftmaxLoss, softmax_loss
from hardsight.losses.supcon import SupConLoss, info_nce_loss, supcon_loss
from hardsight.losses.triplet import TripletLoss, triplet_loss
from hardsight.losses.truncated_gce import TruncatedGCELoss, truncated_gce_loss
from hardsight.losses.znorm import ZNormLoss, znorm_loss
from hardsight.losses.znorm_linear import ZNormLinearLoss

__all__ = [
    "ALDRLoss",
    "ASoftmaxLoss",
    "AVHLoss",
    "ArcFaceLoss",
    "CenterLoss",
    "CompSumLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "DualHeadLoss",
    "EnsLoss",
    "GMLoss",
    "GaussianNaiveBayes",
    "HeadLoss",
    "ICNNLoss",
    "LDRLoss",
    "LGMLoss",
    "LSoftmaxLoss",
    "NormFaceLoss",
    "NormalizedSoftmaxLoss",
    "ProtoTripletLoss",
    "SmoothAdversarialCompSumLoss",
    "SoftmaxLoss",
    "SupConLoss",
    "TripletLoss",
    "TruncatedGCELoss",
    "ZNormLinearLoss",
    "ZNormLoss",
    "a_softmax_loss",
    "aligned_sum",
    "arcface_loss",
    "avh_logits",
    "avh_loss",
    "binary_kl_loss",
    "center_loss",
    "comp_sum_loss",
    "contrastive_loss",
    "cosface_loss",
    "cosine_prototypes",
    "ens_loss",
    "icnn_loss",
    "icnn_scores",
    "info_nce_loss",
    "l_softmax_loss",
    "ldr_loss",
    "lgm_loss",
    "normface_loss",
    "proto_triplet_loss",
    "smallest_scale",
    "smooth_adversarial_comp_sum_loss",
    "softmax_loss",
    "supcon_loss",
    "triplet_loss",
    "truncated_gce_loss",
    "znorm_loss",
]

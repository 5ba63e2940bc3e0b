from .arcface import ArcFaceLoss, arcface_loss
from .avh import AVHLoss, avh_logits, avh_loss, smallest_scale
from .center import CenterLoss, center_loss
from .comp_sum import CompSumLoss, TruncatedGCELoss, comp_sum_loss, truncated_gce_loss
from .contract import HeadLoss
from .contrastive import ContrastiveLoss, contrastive_loss
from .cosface import CosFaceLoss, cosface_loss
from .dual_head import DualHeadLoss, binary_kl_loss
from .ens import EnsLoss, ens_loss
from .icnn import ICNNLoss, icnn_loss, icnn_scores
from .ldr import ALDRLoss, LDRLoss, ldr_loss
from .lgm import GMLoss, LGMLoss, lgm_loss
from .multiplied_angle import ASoftmaxLoss, LSoftmaxLoss, a_softmax_loss, l_softmax_loss
from .normface import NormalizedSoftmaxLoss, NormFaceLoss, cosine_prototypes, normface_loss
from .proto_triplet import ProtoTripletLoss, proto_triplet_loss
from .smooth_adversarial import Search, SmoothAdversarialCompSumLoss, smooth_adversarial_comp_sum_loss, worst_inputs
from .softmax import SoftmaxLoss, softmax_loss
from .supcon import SupConLoss, info_nce_loss, supcon_loss
from .triplet import TripletLoss, triplet_loss
from .znorm import ZNormLoss, znorm_loss

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
    "HeadLoss",
    "ICNNLoss",
    "LDRLoss",
    "LGMLoss",
    "LSoftmaxLoss",
    "NormFaceLoss",
    "NormalizedSoftmaxLoss",
    "ProtoTripletLoss",
    "Search",
    "SmoothAdversarialCompSumLoss",
    "SoftmaxLoss",
    "SupConLoss",
    "TripletLoss",
    "TruncatedGCELoss",
    "ZNormLoss",
    "a_softmax_loss",
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
    "worst_inputs",
    "znorm_loss",
]

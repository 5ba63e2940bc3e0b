"""The losses by name, each as one module that a training can minimize: from features and labels to a number.

Heads are used as they are; dual_head also takes a teacher's logits. Logit losses get a linear layer of their own, and so
does smooth_adversarial, which asks the network itself. Pair losses are added, with a weight, to softmax cross-entropy,
which alone learns class vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor, nn

from hardsight import losses
from hardsight.head import Head
from hardsight.losses.contract import HeadLoss, check_not_negative
from hardsight.training.loss_names import check_loss_options

Family = Literal["head", "logits", "pairs", "inputs"]

LOSSES: dict[str, tuple[Family, type[nn.Module]]] = {
    "softmax": ("head", losses.SoftmaxLoss),
    "avh": ("head", losses.AVHLoss),
    "lgm": ("head", losses.LGMLoss),
    "gm": ("head", losses.GMLoss),
    "center": ("head", losses.CenterLoss),
    "l_softmax": ("head", losses.LSoftmaxLoss),
    "a_softmax": ("head", losses.ASoftmaxLoss),
    "normface": ("head", losses.NormFaceLoss),
    "normalized_softmax": ("head", losses.NormalizedSoftmaxLoss),
    "cosface": ("head", losses.CosFaceLoss),
    "arcface": ("head", losses.ArcFaceLoss),
    "dual_head": ("head", losses.DualHeadLoss),
    "comp_sum": ("logits", losses.CompSumLoss),
    "truncated_gce": ("logits", losses.TruncatedGCELoss),
    "znorm": ("logits", losses.ZNormLoss),
    "ldr": ("logits", losses.LDRLoss),
    "aldr": ("logits", losses.ALDRLoss),
    "ens": ("logits", losses.EnsLoss),
    "contrastive": ("pairs", losses.ContrastiveLoss),
    "triplet": ("pairs", losses.TripletLoss),
    "proto_triplet": ("pairs", losses.ProtoTripletLoss),
    "icnn": ("pairs", losses.ICNNLoss),
    "supcon": ("pairs", losses.SupConLoss),
    "smooth_adversarial": ("inputs", losses.SmoothAdversarialCompSumLoss),
}
IN_THE_HEAD = ("weight", "bias", "log_variance", "log_prior")  # of a loss with class vectors
PAIR_WEIGHT = {"supcon": 1.0}  # of a pair loss beside cross-entropy; of the others:
OTHER_PAIR_WEIGHT = 0.1


class Objective(nn.Module):
    """A loss by name, with the class vectors that it trains.

    Args:
        name: a key of LOSSES.
        num_features, num_classes: d and c.
        num_samples: how many training samples there are, for losses that keep something of each.
        options: the loss's own, such as {"scale": 20}; of a pair loss also `weight`, its part beside cross-entropy.
    """

    def __init__(self, name: str, num_features: int, num_classes: int, num_samples: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.name, options = name, dict(options)
        self.family, kind = LOSSES[name]
        weight = PAIR_WEIGHT.get(name, OTHER_PAIR_WEIGHT)
        check_loss_options(name, options)
        self.pair_weight = check_not_negative("weight", options.pop("weight", weight)) if self.family == "pairs" else 0.0
        if self.family == "head":
            classes = kind(num_features, num_classes, **options)
            self.extra: nn.Module | None = None
        else:
            classes = losses.SoftmaxLoss(num_features, num_classes)
            self.extra = _extra(kind, num_samples, num_features, options)
        assert isinstance(classes, HeadLoss)
        self.classes = classes

    def forward(self, features: Tensor, labels: Tensor, rows: Tensor, teacher_logits: Tensor | None = None) -> Tensor:
        """(n, d) features, (n,) labels and which training samples these are -> the mean loss."""
        if isinstance(self.classes, losses.DualHeadLoss):
            return self.classes(features, labels, teacher_logits)
        if self.extra is None:
            return self.classes(features, labels)
        if self.family == "pairs":
            return self.classes(features, labels) + self.pair_weight * self.extra(features, labels)
        logits = self.classes.logits(features)
        if isinstance(self.extra, losses.ALDRLoss):
            return self.extra(logits, labels, rows)
        return self.extra(logits, labels)

    def of_inputs(self, features_of: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """For the family "inputs": a network up to its features, what goes into it, and labels -> (n,) losses."""
        assert self.extra is not None
        return self.extra(lambda moved: self.classes.logits(features_of(moved)), inputs, labels)

    def set_epoch(self, epoch: float) -> None:
        """Tell the epoch, from 0 on, to losses that warm up."""
        for loss in (self.classes, self.extra):
            if isinstance(loss, (losses.LGMLoss, losses.TruncatedGCELoss)):
                loss.set_epoch(epoch)

    def lambdas(self, rows: Tensor) -> Tensor | None:
        """(b,) what ALDR keeps of some training samples; None for other losses."""
        return self.extra.temperatures[rows] if isinstance(self.extra, losses.ALDRLoss) else None

    def kept(self) -> dict[str, Tensor]:
        """What the loss has beside its head: centers, a second head, the lambdas of the training samples in their order.

        A projection is dropped.
        """
        in_the_head = {f"classes.{name}" for name in IN_THE_HEAD}
        state = {name: x for name, x in self.state_dict().items() if name not in in_the_head and x.ndim}
        state = {name: x for name, x in state.items() if not name.startswith("extra.projection.")}
        return {name.partition(".")[2]: x for name, x in state.items()}

    @property
    def head(self) -> Head:
        """What the trained network predicts with."""
        return self.classes.head


def _extra(kind: type[nn.Module], num_samples: int, num_features: int, options: dict[str, Any]) -> nn.Module:
    if kind is losses.ALDRLoss:
        return kind(num_samples, **options)
    if kind is losses.SupConLoss:
        return kind(num_features=num_features, **options)
    return kind(**options, reduction="none") if kind is losses.SmoothAdversarialCompSumLoss else kind(**options)


def with_defaults(name: str, options: Mapping[str, Any], epochs: int) -> dict[str, Any]:
    """The options of a loss, and those that depend on how long the training is."""
    if name == "truncated_gce":  # 40 of 120 epochs in the paper; without any, nothing would ever be learned
        return {"warmup_epochs": epochs / 3, **options}
    return dict(options)

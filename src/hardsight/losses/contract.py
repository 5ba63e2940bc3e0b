"""Shared by all losses: their base classes, with the hooks of a training, input checks, precision and reduction.

Four families. **Heads** own class vectors and take `(features, labels)`. **Logit losses** take `(logits, labels)`.
**Pair losses** take `(features, labels)` and compare the samples of a batch. **Input losses** run the network themselves:
`(model, inputs, labels)`.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, TypedDict, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.checks import counted_from_one
from hardsight.errors import InputError, check_choice
from hardsight.head import Head

Family = Literal["head", "logits", "pairs", "inputs"]
Reduction = Literal["mean", "sum", "none"]


class Reducing(TypedDict, total=False):
    """How the (n,) losses of a batch are reduced: the last options of every loss with class vectors (see `reduce`)."""

    reduction: Reduction
    class_weight: Tensor | None


class Loss(nn.Module):
    """A loss, and what a training tells it and asks of it; a hook does nothing unless a loss needs it.

    Args:
        reduction: "mean" over the batch, "sum", or "none" for one loss per sample.

    Attributes:
        family: what it is computed from.
        forward_needs: what `forward` takes beside labels: "indices" of the training samples, "teacher_logits".
        without_range: options of an input loss for inputs that are not pixels of 0..1.
        not_options: keyword arguments of the constructor that a training sets, or that a subclass fixes.
    """

    family: ClassVar[Family]
    forward_needs: ClassVar[tuple[str, ...]] = ()
    without_range: ClassVar[dict[str, None]] = {}
    not_options: ClassVar[tuple[str, ...]] = ("num_features", "reduction", "class_weight", "generator")

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction, self.epoch = check_reduction(reduction), 0.0

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Option -> its type, from the keyword arguments of the constructor and of those it passes options on to."""
        options: dict[str, Any] = {}
        for kind in cls.__mro__:
            if "__init__" in vars(kind):
                parameters = inspect.signature(vars(kind)["__init__"], eval_str=True).parameters.values()
                for p in parameters:
                    if p.kind is p.KEYWORD_ONLY and p.name not in cls.not_options:
                        options.setdefault(p.name, p.annotation)
                if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                    break
        return options

    @classmethod
    def default_options(cls, epochs: int) -> dict[str, Any]:
        """Options whose default depends on how long the training is."""
        return {}

    def set_epoch(self, epoch: float) -> None:
        """Set the epoch, counted from 0, for a loss that warms up."""
        self.epoch = epoch

    def per_sample(self, indices: Tensor) -> dict[str, Tensor]:
        """Column of the dynamics -> (b,) what the loss keeps of these training samples."""
        return {}

    def extra_state(self) -> dict[str, Tensor]:
        """What a run keeps of the loss beside its head, such as centers."""
        return {name: x for name, x in self.state_dict().items() if x.ndim}


class LogitLoss(Loss):
    """A loss of (n, c) logits and (n,) labels."""

    family = "logits"


class PairLoss(Loss):
    """A loss of (n, d) features and (n,) labels that compares samples; a training adds it to softmax cross-entropy.

    Attributes:
        pair_weight: its weight there, unless the option `weight` sets another.
    """

    family = "pairs"
    pair_weight: ClassVar[float] = 0.1

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Those of the constructor, and the weight."""
        return {**super().options(), "weight": float}


class HeadLoss(Loss, ABC):
    """A loss that owns class vectors: `weight` (c, d), one row per class, as in `nn.Linear`.

    Args:
        num_features: d, the length of a feature.
        num_classes: c, the number of classes.
        reduction: "mean" over the batch, "sum", or "none" for one loss per sample.
        class_weight: (c,) weight of the samples of each class; "mean" is then the weighted mean, as in torch.
    """

    family = "head"
    in_head: ClassVar[tuple[str, ...]] = ("weight", "bias", "log_variance", "log_prior")  # tensors that `head` has
    class_weight: Tensor | None

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        reduction: Reduction = "mean",
        class_weight: Tensor | Sequence[float] | None = None,
    ) -> None:
        super().__init__(reduction=reduction)
        check_positive("num_features", num_features)
        if num_classes < 2:
            raise InputError(f"a loss needs at least two classes, got num_classes = {num_classes}.")
        self.weight = nn.Parameter(torch.empty(num_classes, num_features))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # like nn.Linear
        # Not in the state dict: it belongs to the data, and this keeps the state dict compatible with nn.Linear.
        self.register_buffer("class_weight", as_class_weight(class_weight, num_classes), persistent=False)

    @property
    def num_classes(self) -> int:
        """c, the number of class vectors."""
        return self.weight.shape[0]

    @property
    def num_features(self) -> int:
        """d, the length of a class vector."""
        return self.weight.shape[1]

    @property
    def reducing(self) -> Reducing:
        """The `reduce` options of this loss."""
        return {"reduction": self.reduction, "class_weight": self.class_weight}

    def extra_state(self) -> dict[str, Tensor]:
        """What a run keeps of the loss beside its head."""
        return {name: x for name, x in super().extra_state().items() if name not in self.in_head}

    @abstractmethod
    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """(n, d) features, (n,) labels -> the loss, with its margin."""

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """(n, d) features -> (n, c) logits for prediction, without the margin."""

    @property
    @abstractmethod
    def head(self) -> Head:
        """The same logits as a `hardsight.Head`, with the current parameters."""

    def load_linear(self, linear: nn.Linear) -> Self:
        """Copy the class vectors of a trained linear layer, and its bias if this loss has one."""
        if linear.weight.shape != self.weight.shape:
            raise InputError(f"this loss has weight {tuple(self.weight.shape)}, the linear layer {tuple(linear.weight.shape)}.")
        with torch.no_grad():
            self.weight.copy_(linear.weight)
            bias = getattr(self, "bias", None)
            if bias is not None:
                bias.zero_() if linear.bias is None else bias.copy_(linear.bias)
        return self

    def extra_repr(self) -> str:
        """Arguments shown by `print`."""
        return f"{self.num_features}, {self.num_classes}, reduction={self.reduction!r}"


def reduce(losses: Tensor, labels: Tensor, reduction: Reduction = "mean", class_weight: Tensor | None = None) -> Tensor:
    """(n,) losses -> their mean or sum, or the losses unchanged; with class weights as in `F.cross_entropy`."""
    if class_weight is None:
        return reduce_plain(losses, reduction)
    weight = class_weight.to(losses)[labels]  # (n,)
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduce_plain(losses, reduction)


def cross_entropy(logits: Tensor, labels: Tensor, reduction: Reduction = "mean", class_weight: Tensor | None = None) -> Tensor:
    """`F.cross_entropy` with the arguments of `reduce`."""
    return F.cross_entropy(logits, labels, class_weight, reduction=reduction)


def reduce_plain(losses: Tensor, reduction: Reduction) -> Tensor:
    """Any losses -> their mean or sum, or the losses unchanged."""
    return losses if check_reduction(reduction) == "none" else losses.mean() if reduction == "mean" else losses.sum()


def in_full_precision(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one precision, at least float32: bfloat16 cannot distinguish angles below 5 degrees from 0."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)


def check_batch(features: Tensor, labels: Tensor, num_features: int, num_classes: int) -> None:
    """Check that features (n, d) and labels (n,) match each other and the class vectors."""
    if features.ndim != 2 or features.shape[1] != num_features:
        raise InputError(f"features must have shape (n, {num_features}), got {tuple(features.shape)}.")
    check_labels(labels, len(features), num_classes)


def checked_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """(n, c) logits in full precision, after checking that they match the (n,) labels."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise InputError(f"logits must have shape (n, c) with at least two classes, got {tuple(logits.shape)}.")
    check_labels(labels, len(logits), logits.shape[1])
    return in_full_precision(logits)[0]


def checked_pairs(features: Tensor, labels: Tensor) -> Tensor:
    """(n, d) features in full precision, after checking that they match the (n,) labels, which may be any integers."""
    if features.ndim != 2:
        raise InputError(f"features must have shape (n, d), got {tuple(features.shape)}.")
    check_labels(labels, len(features), None)
    return in_full_precision(features)[0]


def check_labels(labels: Tensor, num_samples: int, num_classes: int | None) -> None:
    """(n,) class indices. Their range is checked on the CPU only; on a GPU that would synchronize at every step."""
    if labels.shape != (num_samples,):
        raise InputError(f"there must be one label per sample, got labels {tuple(labels.shape)} for {num_samples} samples.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels must be class indices, got {labels.dtype}.")
    if num_classes is None or labels.device.type != "cpu" or not num_samples:
        return
    low, high = (int(x) for x in labels.aminmax())
    if low < 0 or high >= num_classes:
        hint = " Leave unlabeled samples (-1) out of the batch." if low == -1 else counted_from_one(labels.numpy(), num_classes)
        raise InputError(f"labels must be 0 to {num_classes - 1}, got {low} to {high}.{hint}")


def as_class_weight(class_weight: Tensor | Sequence[float] | None, num_classes: int) -> Tensor | None:
    """(c,) class weights as a validated tensor."""
    if class_weight is None:
        return None
    weight = torch.as_tensor(class_weight, dtype=torch.get_default_dtype()).detach().clone()
    if weight.shape != (num_classes,) or not bool((weight.isfinite() & (weight >= 0)).all()):
        raise InputError(f"class_weight must hold {num_classes} finite numbers >= 0, got shape {tuple(weight.shape)}.")
    return weight


def check_reduction(reduction: Reduction) -> Reduction:
    """The reduction, if it is valid."""
    check_choice(reduction, get_args(Reduction), "reduction")
    return reduction


def check_positive(name: str, value: float) -> float:
    """The value, if it is finite and above 0."""
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{name} must be a positive number, got {value}.")
    return value


def check_not_negative(name: str, value: float) -> float:
    """The value, if it is finite and at least 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"{name} must be a number >= 0, got {value}.")
    return value

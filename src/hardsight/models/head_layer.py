"""A `Head` of any kind as the last layer of a network, so that a trained network is one module from images to logits.

Its logits have gradients everywhere, as those of the losses that it was trained with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import ARRAYS, Head, Kind
from hardsight.losses.avh import avh_logits
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.gaussian_logits import gaussian_logits
from hardsight.models.networks import FeatureHead

UNBOUNDED = (-float("inf"), float("inf"))  # log-variances of a Head are not clipped


@dataclass(frozen=True)
class HeadShape:
    """What a config.json says of a head, in plain values: its kind and the shapes of its arrays."""

    kind: Kind
    num_features: int
    num_classes: int
    scale: float | None = None  # of a cosine or angular head
    bias: bool = False  # whether there is one
    log_variance: str | None = None  # "shared" (d,) or "per_class" (c, d)
    log_prior: bool = False  # whether there is one

    def __post_init__(self) -> None:
        if self.log_variance not in (None, "shared", "per_class"):
            raise InputError(f"log_variance must be shared, per_class or nothing, got {self.log_variance!r}.")


class HeadLayer(nn.Module):
    """(b, d) features -> (b, c) logits."""

    bias: Tensor | None
    log_variance: Tensor | None
    log_prior: Tensor | None

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        c, d = shape.num_classes, shape.num_features
        self.kind, self.scale = shape.kind, shape.scale
        self.weight = nn.Parameter(torch.ones(c, d))
        self.register_parameter("bias", nn.Parameter(torch.zeros(c)) if shape.bias else None)
        variances = {None: None, "shared": (d,), "per_class": (c, d)}[shape.log_variance]
        self.register_parameter("log_variance", None if variances is None else nn.Parameter(torch.zeros(variances)))
        self.register_parameter("log_prior", nn.Parameter(torch.zeros(c)) if shape.log_prior else None)

    @classmethod
    def of(cls, head: Head) -> Self:
        """The layer that computes what this head computes."""
        layer = cls(HeadShape(**shape_of(head)))
        with torch.no_grad():
            for name in ARRAYS:
                value = getattr(head, name)
                if value is not None:
                    getattr(layer, name).copy_(torch.as_tensor(value))
        return layer

    @property
    def head(self) -> Head:
        """The head that computes what this layer computes."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return Head(self.kind, scale=self.scale, **{name: x if x is None else x.detach() for name, x in arrays.items()})

    def forward(self, features: Tensor) -> Tensor:
        """(b, d) features -> (b, c) logits."""
        scale = 1.0 if self.scale is None else self.scale
        if self.kind == "linear":
            return F.linear(features, self.weight, self.bias)
        if self.kind == "cosine":
            return scale * cosines(features, self.weight)
        if self.kind == "angular":
            return avh_logits(features, self.weight, scale=scale)
        anyone = torch.zeros(len(features), dtype=torch.int64, device=features.device)
        logits, _ = gaussian_logits(features, self.weight, self.log_variance, anyone, bounds=UNBOUNDED)
        return logits if self.log_prior is None else logits + self.log_prior


def shape_of(head: Head) -> dict[str, Any]:
    """The `HeadShape` of a head, as plain values for a config.json."""
    variance = None if head.log_variance is None else "shared" if head.log_variance.ndim == 1 else "per_class"
    sizes = head.kind, head.num_features, head.num_classes, head.scale
    return asdict(HeadShape(*sizes, head.bias is not None, variance, head.log_prior is not None))


@dataclass(frozen=True)
class HiddenLayer:
    """A hidden layer before the head of a network, as a config.json has it.

    Attributes:
        layer: the last layer of the network, which it takes the place of; the head is then `layer`.head.
        num_inputs: what that layer was given.
        num_features: hidden units.
    """

    layer: str
    num_inputs: int
    num_features: int

    def put_into(self, module: nn.Module) -> FeatureHead:
        """A head of two layers in the place of the last one; its second layer is to be replaced, too."""
        both = FeatureHead(1, self.num_inputs, self.num_features)
        module.set_submodule(self.layer, both, strict=True)
        return both

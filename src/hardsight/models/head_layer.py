"""A `Head` of any kind as the last layer of a network, so that a trained network is one module from images to logits.

Its logits have gradients everywhere, as those of the losses that it was trained with.
"""

from __future__ import annotations

from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import Head, Kind
from hardsight.losses.avh import avh_logits
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.gaussian_logits import gaussian_logits

UNBOUNDED = (-float("inf"), float("inf"))  # log-variances of a Head are what they are


class HeadLayer(nn.Module):
    """(b, d) features -> (b, c) logits.

    Args:
        kind: as of a `Head`.
        num_features, num_classes: d and c.
        scale: of a cosine or angular head.
        bias, log_prior: whether there is one.
        log_variance: None, "shared" (d,) or "per_class" (c, d).
    """

    bias: Tensor | None
    log_variance: Tensor | None
    log_prior: Tensor | None

    def __init__(
        self,
        kind: Kind,
        num_features: int,
        num_classes: int,
        *,
        scale: float | None = None,
        bias: bool = False,
        log_variance: str | None = None,
        log_prior: bool = False,
    ) -> None:
        super().__init__()
        if log_variance not in (None, "shared", "per_class"):
            raise InputError(f"log_variance must be shared, per_class or nothing, got {log_variance!r}.")
        c, d = num_classes, num_features
        self.kind, self.scale = kind, scale
        self.weight = nn.Parameter(torch.ones(c, d))
        self.register_parameter("bias", nn.Parameter(torch.zeros(c)) if bias else None)
        shape = (d,) if log_variance == "shared" else (c, d)
        self.register_parameter("log_variance", None if log_variance is None else nn.Parameter(torch.zeros(shape)))
        self.register_parameter("log_prior", nn.Parameter(torch.zeros(c)) if log_prior else None)

    @classmethod
    def of(cls, head: Head) -> Self:
        """The layer that computes what this head computes."""
        layer = cls(**shape_of(head))
        with torch.no_grad():
            for name in ("weight", "bias", "log_variance", "log_prior"):
                value = getattr(head, name)
                if value is not None:
                    getattr(layer, name).copy_(torch.as_tensor(value))
        return layer

    @property
    def head(self) -> Head:
        arrays = {name: getattr(self, name) for name in ("weight", "bias", "log_variance", "log_prior")}
        return Head(self.kind, scale=self.scale, **{name: x if x is None else x.detach() for name, x in arrays.items()})

    def forward(self, features: Tensor) -> Tensor:
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
    """The arguments of `HeadLayer` for this head, as plain values for a config.json."""
    variance = head.log_variance
    return {
        "kind": head.kind,
        "num_features": head.num_features,
        "num_classes": head.num_classes,
        "scale": head.scale,
        "bias": head.bias is not None,
        "log_variance": None if variance is None else "shared" if variance.ndim == 1 else "per_class",
        "log_prior": head.log_prior is not None,
    }

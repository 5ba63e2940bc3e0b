"""Prepare domains for a network: the network itself, preprocessed images, standardized features.

The mean and spread of a feature differ from domain to domain more than its meaning does: after
standardizing each domain by its own mean and deviation, they look alike, and no labels are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardsight.data import ImageData
from hardsight.data.dataset import num_classes
from hardsight.domains.settings import DomainOptions, Standardize
from hardsight.extraction.inputs import Data
from hardsight.snapshot import Snapshot
from hardsight.threads import num_threads

if TYPE_CHECKING:
    from hardsight.domains.alignment import Affine
    from hardsight.extraction.feed import ImageInputs
    from hardsight.models.trainable import Trainable
    from hardsight.training.trainee import TrainedNetwork


def network_for(data: Data, settings: DomainOptions, num_inputs: int = 0) -> Trainable:
    """The network to train on some data: that of `model` on images, a head of `hidden` units on features of this number."""
    from hardsight.models.trainable import open_trainable
    from hardsight.training.trainee import open_network

    if isinstance(data, Snapshot):
        options = {"num_inputs": num_inputs, "num_features": settings.hidden}
        return open_trainable("feature_head", num_classes(data), options=options)
    return open_network(settings.model, num_classes(data), settings)


def image_inputs(network: Trainable, settings: DomainOptions, *domains: ImageData) -> list[ImageInputs]:
    """Images of each domain as inputs of a network, sized as the first domain needs it."""
    from hardsight.extraction.feed import ImageInputs, sized

    preprocessing = sized(network.preprocessing, domains[0], settings.chosen_preprocessing())
    return [ImageInputs(data, preprocessing, workers=settings.workers or num_threads()) for data in domains]


@dataclass(frozen=True, eq=False)
class Standard:
    """x -> (x - mean) / deviation, for the features of one domain."""

    mean: np.ndarray  # (d,)
    deviation: np.ndarray  # (d,)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((features - self.mean) / self.deviation, np.float32)

    def folded(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A linear layer on standardized features -> the same layer on features as they were."""
        scaled = weight / self.deviation  # (h, d)
        return scaled.astype(np.float32), (bias - scaled @ self.mean).astype(np.float32)


def standards(source: np.ndarray, target: np.ndarray, how: Standardize) -> tuple[Standard, Standard]:
    """How to standardize the (n, d) features of the source and of the target."""
    if how == "none":
        nothing = Standard(np.zeros(source.shape[1], np.float32), np.ones(source.shape[1], np.float32))
        return nothing, nothing
    first = _standard(source)
    return first, _standard(target) if how == "domain" else first


def _standard(features: np.ndarray) -> Standard:
    mean, deviation = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a feature that never changes becomes 0
    return Standard(mean.astype(np.float32), deviation.astype(np.float32))


def on_raw_features(network: TrainedNetwork, *maps: Standard | Affine) -> TrainedNetwork:
    """A `feature_head` trained on features after these maps, the first one first -> one that takes features as they were."""
    import torch

    weight, bias = network.state["hidden.weight"].cpu().numpy(), network.state["hidden.bias"].cpu().numpy()
    for how in reversed(maps):
        weight, bias = how.folded(weight, bias)
    network.state |= {"hidden.weight": torch.from_numpy(weight), "hidden.bias": torch.from_numpy(bias)}
    network.config["arguments"] = {**network.config["arguments"], "num_inputs": int(weight.shape[1])}
    return network

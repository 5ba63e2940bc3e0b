"""The contract every opened model keeps, whatever library runs it.

Its implementations: `Network` (network.py, torch), `OnnxModel` (onnx_model.py), `LinearEstimator` (linear_estimator.py,
scikit-learn) and `Embedder` (embedder.py, a backbone for its features). What all of them share is here: `check` calls their
`_find_head`, and calling a model their `_run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.labels import distinct_names
from hardsight.models.matching import way_forward
from hardsight.models.preprocessing import Preprocessing
from hardsight.threads import one_core_products

LATER_TOLERANCE = 1e-2  # of the largest output; the first images are held to a tenth of it
CHECKED_IMAGES = 16  # enough to tell one layer from another, few enough to cost nothing


class BuiltNetwork(NamedTuple):
    """A torch module as a library or a trained directory gives it, with what that knows about its inputs and classes."""

    module: Any  # an nn.Module: this file does not import torch
    preprocessing: Preprocessing | None = None
    class_names: tuple[str, ...] | None = None
    released: str | None = None  # what the library calls the weights that it fetched


@dataclass(frozen=True)
class ModelOptions:
    """How an opened model runs: the options of `open_model` that every kind of model gets to see."""

    head: str | None = None
    device: str = "auto"
    precision: str = "float32"
    num_classes: int | None = None


class Model(ABC):
    """A classifier cut before its last linear layer.

    Calling it turns a batch of images, (b, C, H, W) float32 as `preprocessing` makes them, into its
    (b, d) features and (b, c) logits, both float32.

    Attributes:
        name: as the user would recognize it.
        preprocessing: how a picture becomes one row of a batch. Assign a changed copy to override it:
            `model.preprocessing = dataclasses.replace(model.preprocessing, size=(64, 64))`.
        class_names: one per class, if the model knows them.
    """

    def __init__(self, name: str, preprocessing: Preprocessing, class_names: tuple[str, ...] | None = None) -> None:
        self.name = name
        self.preprocessing = preprocessing
        self.class_names = None if class_names is None else tuple(distinct_names(class_names))
        self._head: Head | None = None
        self._check_every_batch = True  # but not where the user chose the layer, or where precision is reduced

    @property
    def head(self) -> Head:
        """How the features become the logits; known once `check` has seen a batch."""
        if self._head is None:
            raise InputError(f"the head of {self.name} is found on its first batch: call model.check(batch) before model.head.")
        return self._head

    @property
    def classifies(self) -> bool:
        """Whether there is a head; an embedder may have none."""
        return True

    @property
    def num_features(self) -> int:
        """Features of an image, d; known once `check` has seen a batch."""
        return self.head.num_features

    @property
    def layer_name(self) -> str | None:
        """What --head-layer calls the last linear layer; None for a model that is nothing else."""
        layer = getattr(self, "layer", None)
        return getattr(layer, "name", layer)

    @property
    def watched(self) -> dict[str, np.ndarray]:
        """Name -> (b, d) features of the layers that `watch` named, of the last batch; a new dict each time."""
        return {}

    def watch(self, layers: Sequence[str], batch: np.ndarray) -> None:
        """Keep the features of further layers of every batch from now on; they are tried on this one."""
        raise InputError(f"{self.name} has no layers that could be named: --layers {','.join(layers)} is for torch networks.")

    def check(self, batch: np.ndarray) -> None:
        """Find the head on the first few images of a batch, and prove that it reproduces the model's output."""
        if len(batch) == 0:
            raise InputError(f"{self.name} is checked on its first batch, which must hold at least one image.")
        self._head = self._find_head(batch[:CHECKED_IMAGES])
        self._longest_class_vector = float(np.linalg.norm(to_numpy(self._head.weight), axis=1).max())
        if self.class_names is not None and len(self.class_names) != self._head.num_classes:
            self.class_names = None  # names of another training's classes

    def __call__(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(b, C, H, W) images -> (b, d) features and (b, c) logits. The first call checks the head."""
        if self._head is None:
            self.check(batch)
        features, logits = self._run(batch)
        if self.head.kind == "linear" and self._check_every_batch:
            self._check_again(features, logits)
        return features, logits

    def _check_again(self, features: np.ndarray, logits: np.ndarray) -> None:
        """A ReLU after the layer may cut nothing off on the first batch, and something on this one."""
        with one_core_products():
            expected = np.asarray(self.head.logits(features))
        difference = np.abs(expected - logits).max(initial=0.0)
        rounding = 1e-5 * np.linalg.norm(features, axis=1).max(initial=0.0) * self._longest_class_vector
        if difference > LATER_TOLERANCE * np.abs(logits).max(initial=0.0) + rounding:
            raise InputError(
                f"the last layer of {self.name} gives its output on the first images but not on all, so something that is not "
                f"linear follows it. {way_forward(self.layer_name or 'NAME')}"
            )

    def dropped(self, batch: np.ndarray, seed: int) -> np.ndarray:
        """(b, C, H, W) images -> (b, d) features of one pass with dropout left on, drawn from a seed (MC dropout)."""
        raise InputError(f"{self.name} is no torch network: --passes dropout=N is for networks with dropout layers.")

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """What tells this model from another: kind, name and the sha256 of its weights."""

    @abstractmethod
    def _find_head(self, batch: np.ndarray) -> Head:
        """Locate the last linear layer by running a few images."""

    @abstractmethod
    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One forward pass, after the head was found."""


def refuse(what: str, **options: Any) -> None:
    """Options that mean nothing for this sort of model are refused, not ignored."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} does not apply to {what}.")

"""A network up to its features, and a loss with its class vectors: the module that train, adapt and generalize optimize."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.models.model import Model
from hardsight.models.opening import open_model
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable
from hardsight.training.network import CutNetwork
from hardsight.training.objective import Objective, loss_class
from hardsight.training.processes import gathered


@dataclass(frozen=True)
class LossChoice:
    """A loss by name, and the sizes that it needs.

    Attributes:
        name, options: see `hardsight.training.objective`.
        num_classes, num_samples: of the training data.
    """

    name: str
    options: dict[str, Any]
    num_classes: int
    num_samples: int

    def objective(self, num_features: int) -> Objective:
        """The loss as a module with newly initialized parameters."""
        return Objective(self.name, num_features, self.num_classes, self.num_samples, self.options)


class Trainee(CutNetwork):
    """Images and labels in, the loss of the whole batch and this process's features out.

    Where several processes share a batch, the loss is taken on the features of all of them. So a loss that compares the
    samples of a batch, or moves centers by them, is the same for any number of processes.

    Args:
        source, sample: see `CutNetwork`.
        loss: which one.
        preprocessing: of images, for a loss that moves their pixels.
    """

    heads: tuple[str, ...] = ("objective",)
    mean: Tensor
    std: Tensor

    def __init__(self, source: Trainable, sample: Tensor, loss: LossChoice, preprocessing: Preprocessing | None = None) -> None:
        super().__init__(source, sample)
        kind = loss_class(loss.name)
        if kind.family == "inputs":
            self._know_pixels(preprocessing)
            if preprocessing is None:
                loss = replace(loss, options={**kind.without_range, **loss.options})
        self.objective = loss.objective(self.num_features)

    def keep_class_vectors(self) -> bool:
        """Start from the last layer of an earlier training, if it has as many classes and both or neither are Gaussian."""
        before, classes = self.last_head, self.objective.classes
        if not self.source.learned or self.source.head_hidden is not None:  # features do not reach the old head
            return False
        if tuple(before.weight.shape) != tuple(classes.weight.shape):
            return False
        if (before.kind == "gaussian") != (classes.head.kind == "gaussian"):
            return False
        with torch.no_grad():
            classes.weight.copy_(torch.as_tensor(before.weight))
            bias = getattr(classes, "bias", None)
            if bias is not None and before.bias is not None:
                bias.copy_(torch.as_tensor(before.bias))
        return True

    def _know_pixels(self, preprocessing: Preprocessing | None) -> None:
        """Register how inputs are made from pixels of 0..1."""
        mean, std = ((0.0,), (1.0,)) if preprocessing is None else (preprocessing.mean, preprocessing.std)
        for name, values in (("mean", mean), ("std", std)):
            per_channel = torch.tensor(values) if preprocessing is None else torch.tensor(values)[:, None, None]
            self.register_buffer(name, per_channel, persistent=False)

    def forward(self, images: Tensor, labels: Tensor, rows: Tensor, *teacher_logits: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of all processes' samples together, and the (b, d) features of this one's, detached.

        Args:
            images, labels, rows: of this process; rows say which training samples these are.
            teacher_logits: (b, c), if there is a teacher.
        """
        if self.objective.family == "inputs":
            return self._moving_pixels(images, labels)
        features = self.features(images)
        loss = self.objective(*gathered(features, labels, rows, *teacher_logits))
        return loss, features.detach()

    def _moving_pixels(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """A loss that runs the network several times; each process does so for its own samples."""
        first: list[Tensor] = []  # features of the images as they are

        def features_of(pixels: Tensor) -> Tensor:
            features = self.features((pixels - self.mean) / self.std)
            if not first:
                first.append(features.detach())
            return features

        losses = self.objective.of_inputs(features_of, images * self.std + self.mean, labels)  # (b,)
        return gathered(losses[:, None])[0].mean(), first[0]

    def logits(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, c) logits."""
        return self.objective.classes.logits(self.features(inputs))

    @property
    def head(self) -> Head:
        """What the network predicts with; it shares its arrays with the network."""
        return self.objective.head


def open_teacher(spec: Any, preprocessing: Preprocessing | None, class_names: Sequence[str] | None, device: str) -> Model | None:
    """The teacher, a trained network with the same inputs and classes whose logits another one learns from, if there is one.

    Args:
        spec: a run of `hardsight train`, or anything else that `open_model` opens.
        preprocessing: how the student's images are prepared; None for arrays.
        class_names: of the training data, where they have names.
    """
    if spec is None:
        return None
    teacher = open_model(os.fspath(spec) if isinstance(spec, os.PathLike) else spec, device=device)
    if preprocessing is not None and teacher.preprocessing.as_dict() != preprocessing.as_dict():
        theirs, ours = teacher.preprocessing.as_dict(), preprocessing.as_dict()
        other = next(key for key in ours if theirs[key] != ours[key])
        raise InputError(f"teacher and student must see images alike: {other} is {theirs[other]} and {ours[other]}.")
    if class_names is not None and teacher.class_names is not None and tuple(class_names) != tuple(teacher.class_names):
        raise InputError("the teacher's classes are not those of the training data, or in another order.")
    return teacher


def check_teacher(teacher: Model, inputs: np.ndarray, num_classes: int) -> None:
    """Run a teacher once to check its number of classes."""
    teacher(inputs)
    if teacher.head.num_classes != num_classes:
        raise InputError(f"the teacher knows {teacher.head.num_classes} classes, and the training data has {num_classes}.")


def taught_logits(teacher: Model, inputs: np.ndarray) -> np.ndarray:
    """(b, c) of a batch, which may be empty where its images cannot be read."""
    return teacher(inputs)[1] if len(inputs) else np.zeros((0, teacher.head.num_classes), np.float32)

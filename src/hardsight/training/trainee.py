"""A network whose last layer gave way to a loss: what is trained, as one module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.head import Head
from hardsight.models.head_layer import HeadLayer, shape_of
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, cut_off
from hardsight.training.objective import Objective
from hardsight.training.processes import gathered
from hardsight.training.settings import TrainSettings


class Trainee(nn.Module):
    """Images and labels in, the loss of the whole batch and this process's features out.

    Where several processes share a batch, the loss is taken on the features of all of them. So a loss that compares the
    samples of a batch, or moves centres by them, is the same for any number of processes.

    Args:
        source: the network, whose last layer is taken out; its module becomes part of this one.
        sample: (b, ...) a few inputs, to find that layer by.
        settings: for the loss and its options.
        num_classes, num_samples: of the training data.
        preprocessing: of images, for a loss that moves their pixels.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        source: Trainable,
        sample: Tensor,
        settings: TrainSettings,
        num_classes: int,
        num_samples: int,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__()
        self.source, self.network = source, source.module
        last, self.cut, layer = cut_off(self.network, sample)
        self.layer = last.tap.layer
        options = dict(settings.loss_options)
        if settings.loss == "smooth_adversarial":
            options = self._know_pixels(preprocessing) | options
        self.objective = Objective(settings.loss, last.head.num_features, num_classes, num_samples, options)
        if source.learned:
            self._keep_class_vectors(layer, last.head)

    def _keep_class_vectors(self, layer: nn.Module, before: Head) -> None:
        """Go on from a trained last layer where the new head has as many classes and is Gaussian if it was."""
        classes = self.objective.classes
        same_sort = (before.kind == "gaussian") == (classes.head.kind == "gaussian")
        if not same_sort or tuple(before.weight.shape) != tuple(classes.weight.shape):
            return
        with torch.no_grad():
            classes.weight.copy_(torch.as_tensor(before.weight))
            bias = getattr(classes, "bias", None)
            if bias is not None and before.bias is not None:
                bias.copy_(torch.as_tensor(before.bias))

    def _know_pixels(self, preprocessing: Preprocessing | None) -> dict[str, Any]:
        """How inputs come from pixels of 0..1; where they are no images, the range of an input is not known."""
        mean, std = ((0.0,), (1.0,)) if preprocessing is None else (preprocessing.mean, preprocessing.std)
        for name, values in (("mean", mean), ("std", std)):
            per_channel = torch.tensor(values) if preprocessing is None else torch.tensor(values)[:, None, None]
            self.register_buffer(name, per_channel, persistent=False)
        return {"low": None, "high": None} if preprocessing is None else {}

    def features(self, images: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, d) features."""
        self.network(images)
        features, self.cut.features = self.cut.features, None
        assert features is not None
        return features

    def forward(self, images: Tensor, labels: Tensor, rows: Tensor, *taught: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of all processes' samples together, and the (b, d) features of this one's, detached.

        Args:
            images, labels, rows: of this process; rows say which training samples these are.
            taught: (b, c) logits of a teacher, if there is one.
        """
        if self.objective.family == "inputs":
            return self._moving_pixels(images, labels)
        features = self.features(images)
        loss = self.objective(*gathered(features, labels, rows, *taught))
        return loss, features.detach()

    def _moving_pixels(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """A loss that asks the network again and again; each process asks for its own samples."""
        first: list[Tensor] = []  # features of the images as they are

        def features_of(pixels: Tensor) -> Tensor:
            features = self.features((pixels - self.mean) / self.std)
            if not first:
                first.append(features.detach())
            return features

        each = self.objective.of_inputs(features_of, images * self.std + self.mean, labels)  # (b,)
        return gathered(each[:, None])[0].mean(), first[0]

    @property
    def head(self) -> Head:
        return self.objective.head

    def whole_network(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The trained network from images to logits: its state dict, and what a config.json says of its head."""
        head = self.head
        state = {name: x for name, x in self.network.state_dict().items()}
        state |= {f"{self.layer}.{name}": x for name, x in HeadLayer.of(head).state_dict().items()}
        return state, {"layer": self.layer, **shape_of(head)}


def parameter_groups(trainee: Trainee, settings: TrainSettings) -> list[dict[str, Any]]:
    """Parameters by how they learn.

    Matrices and filters decay; biases, norms and slopes do not. The loss's own parameters learn at `head_rate` times the
    rate, and log-variances at a tenth of that.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, p in trainee.named_parameters():
        if p.requires_grad:
            variance = name.endswith("log_variance")
            share = (settings.head_rate if name.startswith("objective.") else 1.0) * (0.1 if variance else 1.0)
            decay = settings.weight_decay if p.ndim >= 2 and not variance else 0.0
            groups.setdefault((share, decay), []).append(p)
    if not groups:
        raise InputError("the network has no parameter to train.")
    return [
        {"params": members, "lr": settings.learning_rate * share, "share": share, "weight_decay": decay}
        for (share, decay), members in groups.items()
    ]


def make_optimizer(trainee: Trainee, settings: TrainSettings) -> torch.optim.Optimizer:
    groups = parameter_groups(trainee, settings)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.learning_rate)
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=settings.uses_nesterov)

"""The network that train, adapt and generalize train: cut before its last layer, then a loss with its class vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hardsight.head import Head
from hardsight.models.find_head import cut_off
from hardsight.models.head_layer import HeadLayer, HiddenLayer, shape_of
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable
from hardsight.training import processes
from hardsight.training.loss_names import loss_class
from hardsight.training.objective import Objective


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


@dataclass
class TrainedNetwork:
    """A network from inputs to logits, ready to be written.

    Attributes:
        state: its tensors by name.
        config: what model/config.json says.
        head: what it predicts with.
    """

    state: dict[str, Tensor]
    config: dict[str, Any]
    head: Head


class Trainee(nn.Module):
    """Images and labels in, the loss of the whole batch and this process's features out.

    Where several processes share a batch, the loss is taken on the features of all of them. So a loss that compares the
    samples of a batch, or moves centers by them, is the same for any number of processes.

    Args:
        source: the network, whose last layer is taken out; its module becomes part of this one.
        sample: (b, ...) a few inputs, to find that layer by.
        loss: which one.
        preprocessing: of images, for a loss that moves their pixels.

    Attributes:
        heads: names of the submodules that hold class vectors and other parameters of a loss.
        own: networks that only a method's training needs, such as a discriminator.
        last_head: what the network predicted with before it was cut.
        freeze_statistics: keep the running statistics of batch normalization, and normalize by them in training too.
        autocast: the type of the network's forward pass, if it is a shorter one; features are float32 all the same.
    """

    heads: tuple[str, ...] = ("objective", "own")
    freeze_statistics: bool = False
    autocast: torch.dtype | None = None
    mean: Tensor
    std: Tensor

    def __init__(self, source: Trainable, sample: Tensor, loss: LossChoice, preprocessing: Preprocessing | None = None) -> None:
        super().__init__()
        self.source, self.network = source, source.module
        last, self.cut, _ = cut_off(self.network, sample)
        self.layer, self.last_head, self.hidden = last.taps[0].layer, last.head, source.hidden
        if source.head_hidden is not None:
            self.hidden = HiddenLayer(self.layer, last.head.num_features, source.head_hidden)
            self.hidden.put_into(self.network).head = self.cut  # features are taken after its ReLU
            self.layer = f"{self.layer}.head"
        kind = loss_class(loss.name)
        if kind.family == "inputs":
            self._know_pixels(preprocessing)
            if preprocessing is None:
                loss = replace(loss, options={**kind.without_range, **loss.options})
        self.objective = loss.objective(self.num_features)
        self.own = nn.ModuleDict()

    @property
    def num_features(self) -> int:
        """d, the length of a feature."""
        return self.last_head.num_features if self.source.head_hidden is None else self.source.head_hidden

    @property
    def batch_norm(self) -> bool:
        """Whether the samples of a batch are normalized by each other in training."""
        layers = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in self.network.modules())
        return layers and not self.freeze_statistics

    def in_head(self, name: str) -> bool:
        """Whether a parameter is one of the head: of class vectors, of a loss, or of the hidden layer before them."""
        hidden = () if self.hidden is None else (f"network.{self.hidden.layer}.",)
        return name.split(".")[0] in self.heads or name.startswith(hidden)

    def train(self, mode: bool = True) -> Self:
        """Training mode, in which frozen batch normalization stays as in use; or evaluation mode, alike in all processes."""
        super().train(mode)
        if not mode:
            processes.same_in_all(self.buffers())
        if self.freeze_statistics:
            for layer in self.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.eval()
        return self

    def features(self, inputs: Tensor, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """(b, ...) inputs -> (b, d) features; by these parameters in the place of the network's own, if there are any."""
        with contextlib.nullcontext() if self.autocast is None else torch.autocast(inputs.device.type, self.autocast):
            # `self.cut`, a `Cut` (end of models/find_head.py), stands for the last layer and keeps its input: the features.
            if parameters is None:
                self.network(inputs)
            else:
                functional_call(self.network, dict(parameters), (inputs,))
        features, self.cut.features = self.cut.features, None
        assert features is not None
        return features if self.autocast is None else features.float()

    def with_head(self, head: Head, preprocessing: Preprocessing | None, class_names: Sequence[str] | None) -> TrainedNetwork:
        """The whole network again, with a head in the place of its last layer."""
        state = dict(self.network.state_dict())
        state |= {f"{self.layer}.{name}": x for name, x in HeadLayer.of(head).state_dict().items()}
        config: dict[str, Any] = {"factory": self.source.factory, "arguments": self.source.arguments}
        config["head"] = {"layer": self.layer, **shape_of(head)}
        if self.hidden is not None:
            config["hidden"] = asdict(self.hidden)
        if preprocessing is not None:
            config["preprocessing"] = preprocessing.as_dict()
        if class_names is not None:
            config["class_names"] = list(class_names)
        return TrainedNetwork(state, config, head)

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
        loss = self.objective(*processes.gathered(features, labels, rows, *teacher_logits))
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
        return processes.gathered(losses[:, None])[0].mean(), first[0]

    def logits(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, c) logits."""
        return self.objective.classes.logits(self.features(inputs))

    @property
    def head(self) -> Head:
        """What the network predicts with; it shares its arrays with the network."""
        return self.objective.classes.head

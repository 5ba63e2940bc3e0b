"""hardsight's own networks, to be trained by name: `hardsight train DATA --model lenet`.

    lenet, mnist_cnn        28 x 28 gray images
    DigitsCNN               8 x 8 gray images: the network of `hardsight demo`
    cnn10                   color images of any size
    cifar_resnet20 to 110   32 x 32 color images
    feature_head            rows of numbers, such as features of another network

A new one is a class or function here that takes `num_classes`, and its name in network_names.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

CNN10_GROUPS = ((7, 64, 1), (3, 64, 3), (3, 128, 3), (3, 256, 3))  # kernel, channels, convolutions


class LeNet(nn.Module):
    """LeNet in its usual modern form: two 5 x 5 convolutions and poolings, (b, 1, 28, 28) -> (b, c) (LeCun et al., 1998).

    Args:
        num_classes: rows of the head.
        num_features: inputs of the head.
        relu: whether a ReLU follows the features; without it they may point anywhere.
        hidden: units of a layer before them, which few features need; None for none.
        channels: of the two convolutions.
        prelu: a learned slope below zero in the place of every other ReLU.
    """

    convolution: type[nn.Conv2d] = nn.Conv2d  # for subclasses with another one

    def __init__(
        self, num_classes: int = 10, num_features: int = 128, relu: bool = True, hidden: int | None = None,
        channels: Sequence[int] = (20, 50), prelu: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        (first, second), bend = channels, nn.PReLU if prelu else nn.ReLU
        self.trunk = nn.Sequential(
            self.convolution(1, first, 5), nn.MaxPool2d(2), bend(),  # 28 -> 24 -> 12; pooled first: that leaves less to bend
            self.convolution(first, second, 5), nn.MaxPool2d(2), bend(),  # 12 -> 8 -> 4
            nn.Flatten(), *([nn.Linear(16 * second, hidden), bend()] if hidden else []),
            nn.Linear(hidden or 16 * second, num_features), *([nn.ReLU()] if relu else []),
        )  # fmt: skip
        self.head = nn.Linear(num_features, num_classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a step takes two thirds of the time on a CPU

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


class MnistCNN(nn.Module):
    """(b, 1, 28, 28) -> (b, c) logits on `num_features` features that can be drawn (Wan et al., CVPR 2018, figure 1).

    Three pairs of 5 x 5 convolutions with 32, 64 and 128 channels, a learned slope below zero (PReLU) after each, a pooling
    after each pair, and a linear layer to the features. Nothing follows it, so the features fill the whole plane.
    """

    def __init__(self, num_classes: int = 10, num_features: int = 2) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        layers: list[nn.Module] = []
        channels_in = 1
        for channels in (32, 64, 128):
            for _ in range(2):
                layers += [nn.Conv2d(channels_in, channels, 5, padding=2), nn.PReLU()]
                channels_in = channels
            layers.append(nn.MaxPool2d(2))  # 28 -> 14 -> 7 -> 3
        self.trunk = nn.Sequential(*layers, nn.Flatten())  # (b, 1152)
        self.embedding = nn.Linear(128 * 3 * 3, num_features)  # (b, d) the features
        self.head = nn.Linear(num_features, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:  # the default would shrink a digit to nothing
                nn.init.kaiming_normal_(layer.weight, a=0.25)
                nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.embedding(self.trunk(images)))
        return logits


class DigitsCNN(nn.Module):
    """The small CNN of `hardsight demo`: two convolutions on 8 x 8 gray digits, 64 features, a linear head.

    Args:
        num_classes: rows of the head.
        dropout: before the hidden layer and the head.
    """

    convolution: type[nn.Conv2d] = nn.Conv2d  # for subclasses with another one

    def __init__(self, num_classes: int = 10, dropout: float = 0.0) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            self.convolution(1, 16, 3, padding=1),
            nn.ReLU(),
            self.convolution(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),  # (b, 32, 4, 4)
            nn.Flatten() if dropout == 0 else nn.Sequential(nn.Flatten(), nn.Dropout(dropout)),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),  # (b, 64) the features
        )
        self.dropout = nn.Identity() if dropout == 0 else nn.Dropout(dropout)
        self.head = nn.Linear(64, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, 1, 8, 8) -> (b, c)"""
        logits: Tensor = self.head(self.dropout(self.trunk(images)))
        return logits


class CNN10(nn.Module):
    """The network of the AVH paper's domain generalization: (b, 3, size, size) -> (b, c) logits on 512 features.

    [7x7, 64], [3x3, 64] x 3, [3x3, 128] x 3, [3x3, 256] x 3, a 2 x 2 max pooling after each group, then the features; batch
    normalization and ReLU after each (Chen et al., ICML 2020, appendix F). The paper gives neither strides nor padding nor
    the size of the input: here strides are 1, padding keeps the size, and the input is 64 pixels a side by default.
    """

    def __init__(self, num_classes: int = 7, size: int = 64) -> None:
        super().__init__()
        if size < 16:
            raise InputError(f"cnn10 halves its input four times: size must be 16 or more, got {size}.")
        self.preprocessing = Preprocessing(size=(size, size), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        layers: list[nn.Module] = []
        channels_in = 3
        for kernel, channels, convolutions in CNN10_GROUPS:
            for _ in range(convolutions):
                convolution = nn.Conv2d(channels_in, channels, kernel, padding=kernel // 2, bias=False)
                layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
                channels_in = channels
            layers.append(nn.MaxPool2d(2))
        self.trunk = nn.Sequential(*layers, nn.Flatten())
        side = size // 16
        self.embedding = nn.Sequential(nn.Linear(channels_in * side * side, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU())
        self.head = nn.Linear(512, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.embedding(self.trunk(images)))
        return logits


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride, self.added = stride, channels - channels_in

    def forward(self, x: Tensor) -> Tensor:
        """Two convolutions added to a shortcut without parameters."""
        shortcut = x[:, :, :: self.stride, :: self.stride]
        shortcut = F.pad(shortcut, (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))  # zeros as new channels
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + shortcut)


class CifarResNet(nn.Module):
    """A ResNet of 6 `blocks` + 2 layers: (b, 3, 32, 32) -> (b, c) logits (He et al., arXiv:1512.03385, section 4.2).

    Three stages of 16, 32 and 64 channels. The shortcuts have no parameters: where a stage halves the map and doubles the
    channels, every second pixel is kept and the new channels are zeros (option A of the paper).
    """

    def __init__(self, blocks: int, num_classes: int = 10) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(32, 32), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(blocks, 16, 16, stride=1)
        self.layer2 = self._stage(blocks, 16, 32, stride=2)
        self.layer3 = self._stage(blocks, 32, 64, stride=2)
        self.linear = nn.Linear(64, num_classes)
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight)

    @staticmethod
    def _stage(blocks: int, channels_in: int, channels: int, stride: int) -> nn.Sequential:
        first = ResidualBlock(channels_in, channels, stride)
        return nn.Sequential(first, *(ResidualBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        x = F.relu(self.bn1(self.conv1(images)))  # (b, 16, 32, 32)
        x = self.layer3(self.layer2(self.layer1(x)))  # (b, 64, 8, 8)
        features = x.mean(dim=(2, 3))  # (b, 64)
        logits: Tensor = self.linear(features)  # (b, c)
        return logits


class FeatureHead(nn.Module):
    """A head of two layers on rows of numbers: a hidden layer with a ReLU, whose outputs are the features, then the classes.

    What follows a backbone in self-training. It is a network by itself on frozen features, or the end of another one.
    """

    takes_features = True

    def __init__(self, num_classes: int, num_inputs: int, num_features: int = 512) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_inputs, num_features)
        self.relu = nn.ReLU()
        self.head: nn.Module = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, num_inputs) -> (b, c) logits."""
        logits: Tensor = self.head(self.relu(self.hidden(inputs)))
        return logits


# By their names on the command line
lenet, mnist_cnn, cnn10, feature_head = LeNet, MnistCNN, CNN10, FeatureHead
cifar_resnet20 = partial(CifarResNet, 3)
cifar_resnet32 = partial(CifarResNet, 5)
cifar_resnet44 = partial(CifarResNet, 7)
cifar_resnet56 = partial(CifarResNet, 9)
cifar_resnet110 = partial(CifarResNet, 18)

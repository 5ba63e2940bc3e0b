"""The CIFAR ResNets of He et al., Deep Residual Learning for Image Recognition, section 4.2 (arXiv:1512.03385).

6n + 2 layers in three stages of 16, 32 and 64 channels. The shortcuts have no parameters: where a stage halves the
map and doubles the channels, every second pixel is kept and the new channels are zeros (option A of the paper).
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cifar_resnet20", "cifar_resnet32", "cifar_resnet44", "cifar_resnet56", "cifar_resnet110")


class Block(nn.Module):
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
    """A ResNet of 6 `blocks` + 2 layers for 32 x 32 images: (b, 3, 32, 32) -> (b, c) logits."""

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
        first = Block(channels_in, channels, stride)
        return nn.Sequential(first, *(Block(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        x = F.relu(self.bn1(self.conv1(images)))  # (b, 16, 32, 32)
        x = self.layer3(self.layer2(self.layer1(x)))  # (b, 64, 8, 8)
        features = x.mean(dim=(2, 3))  # (b, 64)
        logits: Tensor = self.linear(features)  # (b, c)
        return logits


cifar_resnet20 = partial(CifarResNet, 3)
cifar_resnet32 = partial(CifarResNet, 5)
cifar_resnet44 = partial(CifarResNet, 7)
cifar_resnet56 = partial(CifarResNet, 9)
cifar_resnet110 = partial(CifarResNet, 18)

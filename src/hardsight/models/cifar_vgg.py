"""VGG for 32 x 32 images (Simonyan and Zisserman, arXiv:1409.1556).

3 x 3 convolutions with batch normalization, in groups with a pooling after each. They end at one pixel of 512 channels, which
are the features.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cifar_vgg11", "cifar_vgg13", "cifar_vgg16", "cifar_vgg19")

WIDTHS = (64, 128, 256, 512, 512)


class CifarVGG(nn.Module):
    """(b, 3, 32, 32) -> (b, c) logits. `groups` says how many convolutions there are of each of the `widths`."""

    def __init__(self, groups: tuple[int, ...], num_classes: int = 10, widths: tuple[int, ...] = WIDTHS) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(32, 32), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        layers: list[nn.Module] = []
        channels_in = 3
        for convolutions, channels in zip(groups, widths, strict=True):
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


cifar_vgg11 = partial(CifarVGG, (1, 1, 2, 2, 2))
cifar_vgg13 = partial(CifarVGG, (2, 2, 2, 2, 2))
cifar_vgg16 = partial(CifarVGG, (2, 2, 3, 3, 3))
cifar_vgg19 = partial(CifarVGG, (2, 2, 4, 4, 4))

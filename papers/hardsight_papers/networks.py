"""Networks that only a figure or a table uses, trained as "hardsight_papers.networks:NAME"."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hardsight.models import IMAGENET_MEAN, IMAGENET_STD, DigitsCNN, HeadLayer, LeNet, Preprocessing
from hardsight.training import Trained


class SphereMLP(nn.Module):
    """The AVH paper's toy example: points on a sphere, one hidden layer of two (Chen et al., ICML 2020, appendix A).

    The paper does not say what follows the hidden layer: tanh, leaky_relu or identity. After a plain ReLU, many of the points
    would have two features of 0 and so no direction at all.
    """

    def __init__(self, num_classes: int = 2, activation: str = "tanh") -> None:
        super().__init__()
        after = {"tanh": nn.Tanh(), "leaky_relu": nn.LeakyReLU(0.2), "identity": nn.Identity()}[activation]
        self.hidden = nn.Sequential(nn.Flatten(), nn.Linear(3, 2), after)
        self.head = nn.Linear(2, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, 3) points -> (b, c) logits."""
        logits: Tensor = self.head(self.hidden(inputs))
        return logits


class PlanarLeNet(nn.Module):
    """LeNet with two features and nothing after them: trained in a minute, and its features fill the plane."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(28, 28), channels="L", mean=(0.1307,), std=(0.3081,))
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2),  # 28 -> 14
            nn.Conv2d(16, 32, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2),  # 14 -> 7
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 128),
            nn.PReLU(),
            nn.Linear(128, 2),
        )
        self.head = nn.Linear(2, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


class CifarAlexNet(nn.Module):
    """AlexNet for 32 x 32 images: (b, 3, 32, 32) -> (b, c) logits on 256 features (Krizhevsky et al., NIPS 2012).

    An 11 x 11 convolution of stride 4 leaves 8 x 8 of a CIFAR image; three poolings leave one pixel of 256 channels, which
    are the features. The two wide layers of the original, made for ImageNet, are left out.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.preprocessing = Preprocessing(size=(32, 32), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=5),  # (b, 64, 8, 8)
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 192, 5, padding=2),  # (b, 192, 4, 4)
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(192, 384, 3, padding=1),  # (b, 384, 2, 2)
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),  # (b, 256, 1, 1)
            nn.Flatten(),
        )
        self.head = nn.Linear(256, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) images -> (b, c) logits."""
        logits: Tensor = self.head(self.trunk(images))
        return logits


class CifarVGG(nn.Module):
    """VGG for 32 x 32 images: (b, 3, 32, 32) -> (b, c) logits (Simonyan and Zisserman, arXiv:1409.1556).

    `groups` says how many 3 x 3 convolutions with batch normalization there are of each of the `widths`; a pooling follows each
    group. They end at one pixel, whose channels are the features.
    """

    def __init__(self, groups: tuple[int, ...], num_classes: int, widths: tuple[int, ...]) -> None:
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


def cifar_vgg19(num_classes: int = 10) -> CifarVGG:
    """The 16 convolutions of VGG-19."""
    return CifarVGG((2, 2, 4, 4, 4), num_classes, (64, 128, 256, 512, 512))


def lgm_vgg13(num_classes: int = 100) -> CifarVGG:
    """The 13 convolutions of the L-GM paper's CIFAR-100 network, with an average over the map at the end."""
    return CifarVGG((5, 4, 4), num_classes, (96, 192, 384))


class SphereConv2d(nn.Conv2d):
    """cos of the angle between each patch and each filter: (b, C, H, W) -> (b, filters, H', W') in [-1, 1].

    A patch of zeros has no direction and gives 0. There is no bias: a plane that does not pass through the origin has no angle.

    Example:
        >>> layer = SphereConv2d(1, 1, 2)
        >>> patch = 7 * layer.weight.detach()  # along the filter, at any length
        >>> layer(torch.cat([patch, -patch, 0 * patch])).flatten().round(decimals=3).tolist()
        [1.0, -1.0, 0.0]
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int = 0) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=padding, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """(b, C, H, W) -> (b, filters, H', W')"""
        ones = torch.ones_like(self.weight[:1, :1])  # (1, 1, k, k)
        squares = F.conv2d(images.square().sum(1, keepdim=True), ones, padding=self.padding)  # (b, 1, H', W') of patches
        filters = F.normalize(self.weight.flatten(1)).view_as(self.weight)
        return F.conv2d(images, filters, padding=self.padding) / (squares + 1e-12).sqrt()  # the slope of a root at 0 is infinite


class SphereDigitsCNN(DigitsCNN):
    """The small CNN for 8 x 8 digits with hyperspherical convolutions, which leave norms out."""

    convolution = SphereConv2d


class SphereLeNet(LeNet):
    """LeNet with hyperspherical convolutions."""

    convolution = SphereConv2d


def trained_network(trained: Trained, network: nn.Module) -> nn.Module:
    """A network of this file with what a run has learned: hardsight runs no code that a file names, so we name it here."""
    from safetensors.torch import load_file

    network.head = HeadLayer.of(trained.head)
    network.load_state_dict(load_file(trained.run / "model" / "model.safetensors"))
    return network.eval()

"""AlexNet for 32 x 32 images: the five convolutions of Krizhevsky et al., NIPS 2012, the last of them down to one pixel.

An 11 x 11 convolution of stride 4 leaves 8 x 8 of a CIFAR image; three poolings leave one pixel of 256 channels, which
are the features. The two wide layers of the original, made for ImageNet, are left out.
"""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cifar_alexnet",)


class CifarAlexNet(nn.Module):
    """(b, 3, 32, 32) -> (b, c) logits on 256 features."""

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


cifar_alexnet = CifarAlexNet  # by its name on the command line

"""CNN-10, the network of the AVH paper's domain generalization (Chen et al., ICML 2020, appendix F).

[7x7, 64], [3x3, 64] x 3, [3x3, 128] x 3, [3x3, 256] x 3, a 2 x 2 max pooling after each group, then 512 features; batch
normalization and ReLU after each. The paper gives neither strides nor padding nor the size of the input: here strides
are 1, padding keeps the size, and the input is 64 pixels a side unless `size` says otherwise.
"""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

NETWORKS = ("cnn10",)

GROUPS = ((7, 64, 1), (3, 64, 3), (3, 128, 3), (3, 256, 3))  # kernel, channels, convolutions


class CNN10(nn.Module):
    """(b, 3, size, size) -> (b, c) logits on 512 features."""

    def __init__(self, num_classes: int = 7, size: int = 64) -> None:
        super().__init__()
        if size < 16:
            raise InputError(f"cnn10 halves its input four times: size must be 16 or more, got {size}.")
        self.preprocessing = Preprocessing(size=(size, size), mean=IMAGENET_MEAN, std=IMAGENET_STD)
        layers: list[nn.Module] = []
        channels_in = 3
        for kernel, channels, convolutions in GROUPS:
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


cnn10 = CNN10  # by its name on the command line

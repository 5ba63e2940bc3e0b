"""The CNN whose features can be drawn: 28 x 28 gray digits to two numbers (Wan et al., CVPR 2018, figure 1).

Three pairs of 5 x 5 convolutions with 32, 64 and 128 channels, a learned slope below zero (PReLU) after each, a pooling
after each pair, and a linear layer to the features. Nothing follows it, so the features fill the whole plane.
"""

from __future__ import annotations

from torch import Tensor, nn

from hardsight.models.preprocessing import Preprocessing

NETWORKS = ("mnist_cnn",)  # what a config.json may name


class MnistCNN(nn.Module):
    """(b, 1, 28, 28) -> (b, c) logits, on `num_features` features."""

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


mnist_cnn = MnistCNN  # by its name on the command line

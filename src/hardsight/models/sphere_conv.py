"""Hyperspherical convolution: the angle between a patch and a filter, without their norms (Liu et al., 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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

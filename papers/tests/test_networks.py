"""The networks that only a figure uses."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hardsight_papers.networks import CifarAlexNet, SphereDigitsCNN, SphereLeNet, cifar_vgg19, lgm_vgg13  # noqa: E402


@pytest.mark.parametrize(("make", "side"), [(SphereDigitsCNN, 8), (SphereLeNet, 28)])
def test_hyperspherical_convolutions_are_cosines_of_patches_and_filters(make: Any, side: int) -> None:
    torch.manual_seed(0)
    network = make()
    images = torch.rand(3, 1, side, side)
    images[0] = 0  # no direction
    layers = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)]
    assert len(layers) == 2 and all(layer.bias is None for layer in layers)
    layer = layers[0]
    patches = torch.nn.functional.unfold(images, layer.kernel_size, padding=layer.padding).mT  # (b, places, pixels)
    cosines = torch.nn.functional.cosine_similarity(patches[:, :, None], layer.weight.flatten(1)[None, None], dim=-1, eps=1e-9)
    found = layer(images).flatten(2).mT
    assert torch.allclose(found, cosines, atol=1e-5) and not found[0].any()
    assert torch.allclose(layer(100 * images), layer(images), atol=1e-5)  # norms are left out
    images.requires_grad_()
    network(images).sum().backward()
    assert images.grad.isfinite().all()


@pytest.mark.parametrize(("make", "features", "millions"), [(CifarAlexNet, 256, 2.47), (cifar_vgg19, 512, 20.04)])
def test_the_networks_of_cifar_have_the_size_that_their_ports_count(make: Any, features: int, millions: float) -> None:
    network = make(num_classes=10)
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.006)
    assert network.head.in_features == features and network.eval()(torch.rand(2, 3, 32, 32)).shape == (2, 10)


def test_the_network_of_lgm_has_thirteen_convolutions() -> None:
    layers = [layer for layer in lgm_vgg13(5).modules() if isinstance(layer, torch.nn.Conv2d)]
    assert [(x.kernel_size[0], x.out_channels) for x in layers] == [(3, 96)] * 5 + [(3, 192)] * 4 + [(3, 384)] * 4

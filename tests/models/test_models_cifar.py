"""The CIFAR ResNets of He et al., with published weights where the data directory is there."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from hardsight.models import networks, open_model
from real_data import real


def accuracy(net: str, count: int) -> float:
    """Percent right on the first `count` test images, through the model's own preprocessing."""
    weights, test = real(f"cifar10_{net}.safetensors"), real("cifar10_test.npz")
    model = open_model(f"hardsight.models.networks:cifar_{net}", weights=weights, device="cpu")
    with np.load(test, allow_pickle=False) as data:
        images, labels = data["images"][:count], data["labels"][:count]
    right = 0
    for start in range(0, count, 50):  # what a processor's cache holds: quicker than 500
        part = slice(start, start + 50)
        batch = np.stack([model.preprocessing(Image.fromarray(image)) for image in images[part]])
        features, logits = model(batch)
        assert features.shape == (len(batch), 64)
        right += int((logits.argmax(1) == labels[part]).sum())
    return 100 * right / count


def test_resnet20_on_a_part_of_cifar() -> None:
    assert accuracy("resnet20", 2000) == pytest.approx(91.73, abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("net", "published"), [("resnet20", 91.73), ("resnet32", 92.63)])
def test_published_accuracy(net: str, published: float) -> None:
    assert accuracy(net, 10_000) == pytest.approx(published, abs=0.011)


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_sizes_of_table_6(depth: int, millions: float) -> None:
    net = getattr(networks, f"cifar_resnet{depth}")()
    layers = [m for m in net.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    assert len(layers) == depth
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.035)

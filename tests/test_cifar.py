"""The numbers of a real network on real images against real people: ResNet-20, CIFAR-10 and CIFAR-10H."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")

import hardsight  # noqa: E402
from hardsight.models.cifar_resnet import cifar_resnet20  # noqa: E402

DATA = Path(os.environ.get("HARDSIGHT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


@pytest.fixture(scope="module")
def scored() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores of the 10,000 test images, and how often people chose the given class."""
    files = [DATA / name for name in ("cifar10_test.npz", "cifar10_resnet20.safetensors", "cifar10h_counts.npy")]
    if not all(file.is_file() for file in files):
        pytest.skip("no CIFAR data: set HARDSIGHT_DATA to a directory with cifar10_test.npz, the weights and the counts")
    from safetensors.torch import load_file

    with np.load(files[0], allow_pickle=False) as data:
        images, labels = data["images"], data["labels"].astype(np.int64)
    counts = np.load(files[2], allow_pickle=False)
    model = cifar_resnet20().eval()
    model.load_state_dict(load_file(files[1]), strict=False)
    features: list[torch.Tensor] = []
    model.linear.register_forward_pre_hook(lambda layer, inputs: features.append(inputs[0]))
    with torch.inference_mode():
        for start in range(0, len(images), 500):
            pixels = (images[start : start + 500].astype(np.float32) / 255 - MEAN) / STD  # (b, 32, 32, 3)
            model(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())
    x, layer = torch.cat(features).numpy(), model.linear
    table = hardsight.score(x, layer.weight.detach().numpy(), labels, bias=layer.bias.detach().numpy())
    columns = {name: table.column(name).to_numpy() for name in ("label", "predicted", "avh", "confidence", "angular_gap")}
    return columns, counts[np.arange(len(labels)), labels] / counts.sum(1)


def test_accuracy_is_the_published_one(scored: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    columns, _ = scored
    assert (columns["label"] == columns["predicted"]).sum() == 9173


@pytest.mark.parametrize(("name", "expected"), [("avh", -0.359), ("confidence", 0.365), ("angular_gap", -0.363)])
def test_rank_correlation_with_people(scored: tuple[dict[str, np.ndarray], np.ndarray], name: str, expected: float) -> None:
    columns, human = scored
    assert round(float(spearmanr(columns[name], human).statistic), 3) == expected

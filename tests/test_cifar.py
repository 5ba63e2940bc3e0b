"""The numbers of a real network on real images against real people: ResNet-20, CIFAR-10 and CIFAR-10H."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")

import hardsight  # noqa: E402
from hardsight.files.checksums import sha256  # noqa: E402
from hardsight.models import cifar_resnet  # noqa: E402
from hardsight.models.cifar_resnet import cifar_resnet20  # noqa: E402
from real_data import real  # noqa: E402

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


@pytest.fixture(scope="module")
def scored(pytestconfig: pytest.Config) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores of the 10,000 test images, and how often people chose the given class."""
    files = [real(name) for name in ("cifar10_test.npz", "cifar10_resnet20.safetensors", "cifar10h_counts.npy")]
    from safetensors.torch import load_file

    with np.load(files[0], allow_pickle=False) as data:
        images, labels = data["images"], data["labels"].astype(np.int64)
    counts = np.load(files[2], allow_pickle=False)
    model = cifar_resnet20().eval()
    model.load_state_dict(load_file(files[1]))
    made_of: list[Any] = [cifar_resnet.__file__, files[0], files[1]]
    key = hashlib.sha256("".join([torch.__version__, *(sha256(Path(file)) for file in made_of)]).encode()).hexdigest()
    kept = pytestconfig.cache.mkdir("cifar") / f"{key[:16]}.npy"  # half a minute the first time, then at once
    if not kept.is_file():
        np.save(kept, features_of(model, images))
    layer = model.linear
    table = hardsight.score(np.load(kept), layer.weight.detach(), labels, bias=layer.bias.detach())
    columns = {name: table.column(name).to_numpy() for name in ("label", "predicted", "avh", "confidence", "angular_gap", "loss")}
    with torch.inference_mode():
        columns["float32 softmax"] = layer(torch.from_numpy(np.load(kept))).softmax(1).numpy()[np.arange(len(labels)), labels]
    return columns, counts[np.arange(len(labels)), labels] / counts.sum(1)


def features_of(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:  # type: ignore[name-defined]
    """(n, 32, 32, 3) pixels -> (n, 64): what goes into the last layer."""
    seen: list[torch.Tensor] = []  # type: ignore[name-defined]
    hook = model.linear.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        for start in range(0, len(images), 500):
            pixels = (images[start : start + 500].astype(np.float32) / 255 - MEAN) / STD  # (b, 32, 32, 3)
            model(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())
    hook.remove()
    return torch.cat(seen).numpy()


def test_accuracy_is_the_published_one(scored: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    columns, _ = scored
    assert (columns["label"] == columns["predicted"]).sum() == 9173


@pytest.mark.parametrize(("name", "expected"), [("avh", -0.359), ("confidence", 0.365), ("angular_gap", -0.363)])
def test_rank_correlation_with_people(scored: tuple[dict[str, np.ndarray], np.ndarray], name: str, expected: float) -> None:
    columns, human = scored
    assert round(float(spearmanr(columns[name], human).statistic), 3) == expected


def test_confidences_tie_at_one_and_losses_do_not(scored: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    """A float32 probability says exactly 1 for a third of the images, ours like torch's; the loss tells them apart."""
    columns, human = scored
    np.testing.assert_allclose(columns["float32 softmax"], columns["confidence"], atol=5e-6)
    assert (columns["float32 softmax"] == 1).sum() > 2500 and (columns["confidence"] == 1).sum() > 2500
    assert len(np.unique(columns["loss"])) > 9000
    assert round(float(spearmanr(columns["loss"], human).statistic), 3) == -0.369

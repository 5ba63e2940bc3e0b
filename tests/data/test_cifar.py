"""The numbers of a real network on real images against real people: ResNet-20, CIFAR-10 and CIFAR-10H."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

import hardsight
from hardsight.models.networks import cifar_resnet20
from real_data import real

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def extracted(output: Path, **options: Any) -> hardsight.Snapshot:
    """`hardsight extract` of the test images."""
    data, weights = real("cifar10_test.npz"), real("cifar10_resnet20.safetensors")
    model = "hardsight.models.networks:cifar_resnet20"
    return hardsight.extract(model, data, output, weights=weights, split="test", batch_size=50, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 10,000 of them: half a minute."""
    output = tmp_path_factory.mktemp("cifar") / "run"
    snapshot = extracted(output)
    assert len(snapshot) == 10000 and snapshot.source.width == 64
    return output


@pytest.fixture(scope="module")
def scored(run: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores of the 10,000 test images, and how often people chose the given class."""
    counts = np.load(real("cifar10h_counts.npy"), allow_pickle=False)
    snapshot = hardsight.Snapshot.load(run)
    table = hardsight.score(snapshot)
    columns = {name: table.column(name).to_numpy() for name in ("label", "predicted", "avh", "confidence", "angular_gap", "loss")}
    assert snapshot.head is not None
    logits = torch.from_numpy(snapshot.head.logits(snapshot.in_memory().values))
    rows, labels = np.arange(len(table)), columns["label"]
    columns["float32 softmax"] = logits.float().softmax(1).numpy()[rows, labels]
    return columns, counts[rows, labels] / counts.sum(1)


def test_a_thousand_images_by_hand(tmp_path: Path) -> None:
    """Features by a hook on the last layer, AVH by its formula, right or wrong and the agreement with people."""
    n = 1000
    rows = extracted(tmp_path / "run", limit=n).in_memory()
    chosen = np.array([int(name) for name in rows.ids])  # spread over the 10,000
    with np.load(real("cifar10_test.npz"), allow_pickle=False) as data:
        images, labels = data["images"][chosen], data["labels"][chosen]
    model = cifar_resnet20().eval()
    model.load_state_dict(load_file(real("cifar10_resnet20.safetensors")))
    features = features_of(model, images)  # (n, 64)
    np.testing.assert_allclose(rows.values, features, atol=1e-4)

    weight, bias = (value.detach().numpy() for value in (model.linear.weight, model.linear.bias))  # (10, 64), (10,)
    cosines = features @ weight.T / np.outer(np.linalg.norm(features, axis=1), np.linalg.norm(weight, axis=1))
    angles = np.arccos(cosines)  # (n, 10)
    avh = angles[np.arange(n), labels] / angles.sum(1)
    table = hardsight.score(hardsight.Snapshot.load(tmp_path / "run"))
    np.testing.assert_allclose(table.column("avh").to_numpy(), avh, atol=1e-5)
    np.testing.assert_array_equal(table.column("predicted").to_numpy(), (features @ weight.T + bias).argmax(1))
    counts = np.load(real("cifar10h_counts.npy"), allow_pickle=False)[chosen]
    human = counts[np.arange(n), labels] / counts.sum(1)
    assert spearmanr(table.column("avh").to_numpy(), human).statistic == pytest.approx(spearmanr(avh, human).statistic, abs=1e-3)


def features_of(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:  # type: ignore[name-defined]
    """(n, 32, 32, 3) pixels -> (n, 64): what goes into the last layer."""
    seen: list[torch.Tensor] = []  # type: ignore[name-defined]
    hook = model.linear.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        for start in range(0, len(images), 50):
            pixels = (images[start : start + 50].astype(np.float32) / 255 - MEAN) / STD  # (b, 32, 32, 3)
            model(torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous())
    hook.remove()
    return torch.cat(seen).numpy()


@pytest.mark.slow
def test_accuracy_is_the_published_one(scored: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    columns, _ = scored
    assert (columns["label"] == columns["predicted"]).sum() == 9173


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expected"), [("avh", -0.359), ("confidence", 0.365), ("angular_gap", -0.363)])
def test_rank_correlation_with_people(scored: tuple[dict[str, np.ndarray], np.ndarray], name: str, expected: float) -> None:
    columns, human = scored
    assert round(float(spearmanr(columns[name], human).statistic), 3) == expected


@pytest.mark.slow
def test_confidences_tie_at_one_and_losses_do_not(scored: tuple[dict[str, np.ndarray], np.ndarray]) -> None:
    """A float32 probability says exactly 1 for a third of the images, ours like torch's; the loss tells them apart."""
    columns, human = scored
    np.testing.assert_allclose(columns["float32 softmax"], columns["confidence"], atol=5e-6)
    assert (columns["float32 softmax"] == 1).sum() > 2500 and (columns["confidence"] == 1).sum() > 2500
    assert len(np.unique(columns["loss"])) > 9000
    assert round(float(spearmanr(columns["loss"], human).statistic), 3) == -0.369

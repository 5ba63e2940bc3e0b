"""The numbers of a real network on real images against real people: ResNet-20, CIFAR-10 and CIFAR-10H."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

import hardsight  # noqa: E402
from hardsight.models.cifar_resnet import cifar_resnet20  # noqa: E402
from real_data import real  # noqa: E402

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`hardsight extract` of the 10,000 test images."""
    data, weights = real("cifar10_test.npz"), real("cifar10_resnet20.safetensors")
    output = tmp_path_factory.mktemp("cifar") / "run"
    snapshot = hardsight.extract(
        "hardsight.models.cifar_resnet:cifar_resnet20", data, output, weights=weights, split="test", batch_size=256
    )
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


def test_features_are_those_of_a_plain_loop(run: Path) -> None:
    """Every tenth image through the network by hand, a hook on its last layer."""
    with np.load(real("cifar10_test.npz"), allow_pickle=False) as data:
        images = data["images"][::10]
    model = cifar_resnet20().eval()
    model.load_state_dict(load_file(real("cifar10_resnet20.safetensors")))
    rows = hardsight.Snapshot.load(run).in_memory()
    np.testing.assert_allclose(rows.values[::10], features_of(model, images), atol=1e-4)
    assert list(rows.ids[:2]) == ["0", "1"]


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

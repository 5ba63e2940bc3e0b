"""Released weights by name: stand-ins lie where torchvision keeps what it has downloaded, so nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from hardsight.errors import InputError
from hardsight.models import open_model

torch = pytest.importorskip("torch")
IMAGES = np.random.default_rng(0).integers(0, 255, (4, 40, 40, 3), np.uint8)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of MobileNetV2's weights in torch's cache."""
    from hardsight.models import import_torchvision

    models = import_torchvision().models
    home: Path = tmp_path_factory.mktemp("torch")
    (home / "hub" / "checkpoints").mkdir(parents=True)
    for seed, version in enumerate(models.get_model_weights("mobilenet_v2")):
        torch.manual_seed(seed)
        torch.save(models.mobilenet_v2().state_dict(), home / "hub" / "checkpoints" / Path(version.url).name)
    return home


@pytest.fixture(autouse=True)
def home(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(released))


def run_json(folder: Path, **options: Any) -> dict[str, str]:
    np.savez(folder.with_suffix(".npz"), images=IMAGES)
    hardsight.extract("torchvision:mobilenet_v2", folder.with_suffix(".npz"), folder, size=32, device="cpu", **options)
    known: dict[str, str] = json.loads((folder / "run.json").read_text())["inputs"]["model"]
    return known


def test_the_run_names_the_weights_and_their_checksum(tmp_path: Path) -> None:
    first, second, default = (run_json(tmp_path / str(k), pretrained=name) for k, name in enumerate(("V1", "V2", None)))
    assert (first["weights"], second["weights"]) == ("IMAGENET1K_V1", "IMAGENET1K_V2")
    assert first["sha256"] != second["sha256"] == default["sha256"] and default["weights"] == "IMAGENET1K_V2"
    again = run_json(tmp_path / "long", pretrained="imagenet1k_v1")
    assert again == first


def test_weights_that_nobody_released() -> None:
    with pytest.raises(InputError, match=r"'V9'; it has IMAGENET1K_V1, IMAGENET1K_V2"):
        open_model("torchvision:mobilenet_v2", pretrained="V9")
    pytest.importorskip("timm")
    with pytest.raises(InputError, match=r"after the model, as in timm:resnet50\.a1_in1k, so not 'V9'"):
        open_model("timm:resnet50", pretrained="V9")


@pytest.mark.parametrize(("spec", "weights"), [("package.module:make", None), ("torchvision:alexnet", "own.pt")])
def test_pretrained_is_for_networks_of_libraries(spec: str, weights: str | None) -> None:
    with pytest.raises(InputError, match=r"--pretrained V1 names released weights"):
        open_model(spec, pretrained="V1", weights=weights)

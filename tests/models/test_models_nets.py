"""The networks of the papers: their shapes and sizes, and that each can be built from its name and trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardsight.errors import FileError, InputError
from hardsight.head import Head
from hardsight.models import open_model
from hardsight.models.find_head import cut_off
from hardsight.models.head_layer import HeadLayer, HeadShape, shape_of
from hardsight.models.trainable import open_trainable

# name: (features, millions of parameters for 10 classes as the papers or their ports count them)
SIZES = {
    "mnist_cnn": (2, None),
    "cnn10": (512, None),
    "cifar_resnet20": (64, 0.27),
    "DigitsCNN": (64, None),
}


def sample(trainable: Any, n: int = 3) -> Any:
    how = trainable.preprocessing
    side = how.size or (8, 8)
    return torch.randn(n, len(how.channels), *side)


@pytest.mark.parametrize("name", SIZES)
def test_a_network_by_its_name(name: str) -> None:
    torch.manual_seed(0)
    trainable = open_trainable(name, 10)
    features, millions = SIZES[name]
    images = sample(trainable)
    logits = trainable.module.eval()(images)
    assert logits.shape == (3, 10) and torch.isfinite(logits).all()
    if millions is not None:
        assert sum(p.numel() for p in trainable.module.parameters()) / 1e6 == pytest.approx(millions, abs=0.006)
    last, cut, layer = cut_off(trainable.module, images)
    assert last.head.weight.shape == (10, features) and layer.weight.shape == (10, features)
    trainable.module(images)
    assert cut.features.shape == (3, features)  # type: ignore[union-attr]


def test_cnn10_has_ten_convolutions() -> None:
    def convolutions(name: str) -> list[tuple[int, int]]:
        layers = open_trainable(name, 5).module.modules()
        return [(x.kernel_size[0], x.out_channels) for x in layers if isinstance(x, torch.nn.Conv2d)]

    assert convolutions("cnn10") == [(7, 64)] + [(3, 64)] * 3 + [(3, 128)] * 3 + [(3, 256)] * 3
    assert convolutions("mnist_cnn") == [(5, 32)] * 2 + [(5, 64)] * 2 + [(5, 128)] * 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("model.onnx", {}, "scored but not trained"),
        ("hf:google/vit", {}, "transformers' own Trainer"),
        ("hardsight.models.nothing:make", {}, "there is no module"),
        (3, {}, "a torch module or the name of one"),
        ("mnist_cnn", {"depth": 7}, "has no option 'depth'; it has: num_features"),
        ("cnn10", {"size": 8}, "size must be 16 or more"),
    ],
)
def test_what_cannot_be_trained_says_why(name: Any, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_trainable(name, 10, options=options)
    module: Any = open_trainable("mnist_cnn", 4, options={"num_features": 7}).module
    assert module.head.weight.shape == (4, 7)


def heads() -> dict[str, Head]:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 5)).astype(np.float32)
    return {
        "linear": Head("linear", weight, bias=rng.normal(size=4).astype(np.float32)),
        "bare": Head("linear", weight),
        "cosine": Head("cosine", weight, scale=7.5),
        "angular": Head("angular", weight, scale=12.0),
        "identity": Head("gaussian", weight),
        "shared": Head("gaussian", weight, log_variance=rng.normal(size=5).astype(np.float32)),
        "per_class": Head(
            "gaussian",
            weight,
            log_variance=6 * rng.normal(size=(4, 5)).astype(np.float32),
            log_prior=np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32)),
        ),
    }


@pytest.mark.parametrize("name", heads())
def test_a_head_as_a_layer_computes_what_the_head_does(name: str) -> None:
    head = heads()[name]
    layer = HeadLayer.of(head)
    features = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    logits = layer(torch.from_numpy(features).requires_grad_())
    assert np.allclose(logits.detach().numpy(), head.logits(features), rtol=1e-4, atol=1e-4)
    logits.sum().backward()
    same = layer.head
    assert same.kind == head.kind and np.allclose(same.logits(features), head.logits(features), atol=1e-5)
    rebuilt = HeadLayer(HeadShape(**shape_of(head)))
    rebuilt.load_state_dict(layer.state_dict())
    assert torch.equal(rebuilt(torch.from_numpy(features)), layer(torch.from_numpy(features)))


@pytest.mark.parametrize("head", ['"layer": "nothing"', '"layer": "head", "exec": 1'])
def test_a_head_that_does_not_fit_is_told(head: str, tmp_path: Path) -> None:
    shape = '"kind": "linear", "num_features": 64, "num_classes": 10'
    (tmp_path / "config.json").write_text(f'{{"factory": "hardsight.models.networks:DigitsCNN", "head": {{{head}, {shape}}}}}')
    with pytest.raises(FileError, match="its head does not fit the network"):
        open_model(tmp_path)

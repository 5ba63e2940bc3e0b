"""Every way to name a model, from libraries, files and code; nothing is downloaded and nothing foreign is executed."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from libraries import library
from safetensors.torch import save_file
from torch import nn

from hardsight.errors import FileError, HardsightError, InputError
from hardsight.models import Model, Preprocessing, open_model
from hardsight.models.networks import cifar_resnet20
from hardsight.models.trainable import open_trainable
from hardsight.models.weights import read_weights

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries; ours are tested with the heads
RESNET20 = "hardsight.models.networks:cifar_resnet20"


def images(model: Model, count: int = 3) -> np.ndarray:
    height, width = model.preprocessing.size or (32, 32)
    channels = len(model.preprocessing.channels)
    return np.random.default_rng(0).normal(size=(count, channels, height, width)).astype(np.float32)


def saved(module: nn.Module, path: Path) -> Path:
    """The module's weights in a file; a head of zeros, as some networks start with, becomes a random one."""
    torch.manual_seed(0)
    state = {k: v.contiguous() for k, v in module.state_dict().items()}
    for name, x in state.items():
        if x.ndim >= 2 and not x.any():
            state[name] = 0.02 * torch.randn(x.shape)
    save_file(state, path)
    return path


def check_against_module(model: Model, batch: np.ndarray) -> None:
    """Features, logits and head agree, and the logits are what the module itself returns."""
    features, logits = model(batch)
    scale = np.abs(logits).max()
    np.testing.assert_allclose(model.head.logits(features), logits, rtol=1e-3, atol=1e-3 * scale)
    with torch.no_grad():
        result = model.module.eval()(torch.from_numpy(batch))  # type: ignore[attr-defined]
    np.testing.assert_allclose(logits, getattr(result, "logits", result), rtol=1e-4, atol=1e-4 * scale)


# libraries


LIBRARY_NETWORKS = {
    "timm:resnet10t": "fc",
    "timm:vit_tiny_patch16_224": "head",
    "timm:convnext_atto": "head.fc",
    "timm:mobilenetv3_small_050": "classifier",
    "timm:tf_efficientnet_lite0": "classifier",
    "torchvision:resnet18": "fc",
    "torchvision:shufflenet_v2_x0_5": "fc",
    "torchvision:mobilenet_v3_small": "classifier.3",
}


@pytest.mark.parametrize("spec", LIBRARY_NETWORKS)
def test_networks_of_libraries(spec: str, tmp_path: Path) -> None:
    source, name = spec.split(":")
    make = library("timm").create_model if source == "timm" else library("torchvision").models.get_model
    weights = saved(make(name, num_classes=7), tmp_path / "w.safetensors")
    model = open_model(spec, weights=weights, num_classes=7)
    check_against_module(model, images(model, 2))
    assert model.layer == LIBRARY_NETWORKS[spec] and model.head.num_classes == 7  # type: ignore[attr-defined]
    if source == "timm":
        config = library("timm").data.resolve_model_data_config(model.module)  # type: ignore[attr-defined]
        assert model.preprocessing.size == config["input_size"][1:] and model.preprocessing.mean == config["mean"]


def test_a_timm_module_passed_in_python_knows_its_preprocessing() -> None:
    module = library("timm").create_model("resnet10t", pretrained=False, num_classes=3)
    assert open_model(module).preprocessing.size == (176, 176)


def tiny_vit() -> nn.Module:
    sizes = {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
    module: nn.Module = library("torchvision").models.VisionTransformer(**sizes, num_classes=5)
    nn.init.normal_(module.heads.head.weight)  # type: ignore[union-attr, arg-type]  # torchvision starts it at zero
    return module


def tiny_convnext() -> nn.Module:
    models = library("torchvision").models
    return models.ConvNeXt([models.convnext.CNBlockConfig(8, 16, 1), models.convnext.CNBlockConfig(16, None, 1)], num_classes=5)


def tiny_deit() -> nn.Module:
    deit = library("timm.models").deit
    return deit.VisionTransformerDistilled(img_size=32, embed_dim=24, depth=1, num_heads=2, num_classes=5)


def tiny_levit() -> nn.Module:
    sizes = {"embed_dim": (24, 24, 24), "key_dim": 8, "depth": (1, 1, 1), "num_heads": (1, 1, 1)}
    return library("timm.models").levit.LevitDistilled(img_size=32, num_classes=5, **sizes)


@pytest.mark.parametrize(("make", "width"), [(tiny_vit, 16), (tiny_convnext, 16), (tiny_deit, 48), (tiny_levit, 48)])
def test_tiny_networks_of_libraries_passed_in_python(make: Any, width: int) -> None:
    """Those of timm average two heads on two features of 24."""
    model = open_model(make())
    check_against_module(model, np.random.default_rng(1).normal(size=(2, 3, 32, 32)).astype(np.float32))
    assert model.head.num_features == width and model.head.num_classes == 5


def test_a_squeezenet_clips_its_logits_so_its_head_must_be_chosen() -> None:
    module = library("torchvision").models.squeezenet1_1(num_classes=4)
    batch = np.random.default_rng(2).normal(size=(2, 3, 64, 64)).astype(np.float32)
    with pytest.raises(InputError, match=r"classifier\.1 \(4, 512\), off by .*--head-layer classifier\.1 --fit-head"):
        open_model(module).check(batch)
    with pytest.warns(UserWarning, match="layer classifier.1"):
        features, logits = open_model(module, head="classifier.1")(batch)
    with torch.no_grad():
        maps = module.eval().features(torch.from_numpy(batch))  # (2, 512, h, w)
        expected = module.classifier[1](maps).mean((2, 3))
    np.testing.assert_allclose(features, maps.mean((2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    assert (logits < 0).any()


def tiny_transformers(transformers: Any) -> dict[str, Any]:
    labels = {"num_labels": 3, "id2label": {0: "cat", 1: "dog", 2: "owl"}}
    return {
        "vit": transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=9, image_size=32, patch_size=8, **labels
        ),
        "resnet": transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", **labels),
        "convnext": transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, **labels),
        "swin": transformers.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, **labels
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["vit", "resnet", "convnext", "swin"])
def test_transformers_from_a_directory(kind: str, tmp_path: Path) -> None:
    transformers = library("transformers")
    torch.manual_seed(0)
    config = tiny_transformers(transformers)[kind]
    transformers.AutoModelForImageClassification.from_config(config).save_pretrained(tmp_path)
    model = open_model(f"hf:{tmp_path}")
    model.preprocessing = dataclasses.replace(model.preprocessing, size=(32, 32))
    check_against_module(model, images(model))
    assert model.class_names == ("cat", "dog", "owl")
    same = open_model(str(tmp_path))  # the directory alone will do
    np.testing.assert_array_equal(same(images(model))[0], model(images(model))[0])


def test_transformers_weights_from_a_file(tmp_path: Path) -> None:
    transformers = library("transformers")
    config = tiny_transformers(transformers)["vit"]
    module = transformers.AutoModelForImageClassification.from_config(config)
    config.save_pretrained(tmp_path)
    model = open_model(f"hf:{tmp_path}", weights=saved(module, tmp_path / "w.safetensors"))
    check_against_module(model, images(model))


def test_transformers_without_a_trained_head_is_refused(tmp_path: Path) -> None:
    transformers = library("transformers")
    transformers.ViTModel(tiny_transformers(transformers)["vit"]).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no weights for classifier.bias, classifier.weight: it was not trained as a classifier"):
        open_model(f"hf:{tmp_path}")


def test_a_malicious_pickle_in_a_transformers_directory(tmp_path: Path) -> None:
    transformers = library("transformers")
    tiny_transformers(transformers)["vit"].save_pretrained(tmp_path)
    canary = tmp_path / "executed"
    torch.save({"classifier.weight": Canary(canary)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(FileError, match="nothing in them was executed"):
        open_model(f"hf:{tmp_path}")
    assert not canary.exists() and "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_a_bare_hub_id_is_opened_from_the_cache(tmp_path: Path) -> None:
    """A cache as the hub fills it, in the place of a network."""
    transformers = library("transformers")
    repository = tmp_path / "models--owner--tiny-vit"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    module = transformers.AutoModelForImageClassification.from_config(tiny_transformers(transformers)["vit"])
    module.save_pretrained(repository / "snapshots" / "abc")
    code = "from hardsight.models import open_embedder, open_model\n"
    code += "print(open_model('owner/tiny-vit').name, open_model('hf:owner/tiny-vit').name, open_embedder('owner/tiny-vit').name)"
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["hf:owner/tiny-vit"] * 3, done.stderr


@pytest.mark.parametrize("spec", ["timm:resnet18", "hf:microsoft/resnet-18", "microsoft/resnet-18"])
def test_without_a_network_a_model_of_the_hub_is_refused_at_once(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library("timm" if spec.startswith("timm") else "transformers")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "no-cache")
    monkeypatch.setattr("hardsight.models.libraries._is_known", lambda host: False)
    with pytest.raises(InputError, match=f"{spec}: .*huggingface.co cannot be reached: give "):
        open_model(spec)


# weights


def test_weights_saved_by_wrapped_models_and_checkpoints(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = cifar_resnet20(4)
    plain = module.state_dict()
    torch.save({"epoch": 3, "state_dict": {f"module._orig_mod.{k}": v for k, v in plain.items()}}, tmp_path / "checkpoint.pth")
    model = open_model("cifar_resnet20", weights=tmp_path / "checkpoint.pth", num_classes=4)
    check_against_module(model, images(model))
    np.testing.assert_array_equal(model.head.weight, module.linear.weight.detach())


WRONG_WEIGHTS: dict[str, tuple[Any, str]] = {
    "other.pt": (
        {**{k: v for k, v in cifar_resnet20().state_dict().items() if "linear" not in k}, "fc.weight": torch.zeros(10, 64)},
        r"2 missing \(linear.weight, linear.bias\); 1 unexpected \(fc.weight\)",
    ),
    "seven.pt": (cifar_resnet20(7).state_dict(), r"linear.weight is \(7, 64\), not \(10, 64\).*pass --num-classes 7"),
    "list.pt": ([1, 2], "does not hold a state dict"),
    "whole.pt": (nn.Linear(2, 3), "whole.pt holds torch.nn.modules.linear.Linear; it was refused"),
    "w.h5": ({}, "must be a .safetensors, .pt or .pth file"),
}


@pytest.mark.parametrize("name", WRONG_WEIGHTS)
def test_weights_that_do_not_fit(name: str, tmp_path: Path) -> None:
    content, message = WRONG_WEIGHTS[name]
    torch.save(content, tmp_path / name)
    with pytest.raises(HardsightError, match=message):
        open_model(RESNET20, weights=tmp_path / name)


class Canary:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".ckpt"])
def test_a_malicious_pickle_is_refused_and_not_executed(suffix: str, tmp_path: Path) -> None:
    canary = tmp_path / "executed"
    torch.save({"linear.weight": Canary(canary)}, tmp_path / f"zip{suffix}")
    (tmp_path / f"bare{suffix}").write_bytes(pickle.dumps(Canary(canary)))
    for name in ("zip", "bare"):
        with pytest.raises(FileError, match="nothing in it was executed"):
            open_model(RESNET20, weights=tmp_path / f"{name}{suffix}")
    assert not canary.exists()
    pickle.loads((tmp_path / f"bare{suffix}").read_bytes())
    assert canary.exists()  # the trap does work


@pytest.mark.parametrize("kind", ["zip.pt", "legacy.pt", "own.safetensors"])
def test_damaged_weights_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    """Cut short or no weights at all, and a few bytes changed: still weights, or a FileError that names the file."""
    path, state = tmp_path / kind, {"weight": torch.ones(3, 4), "bias": torch.zeros(3)}
    if kind.endswith("safetensors"):
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind.startswith("zip"))
    good, refused, rng = path.read_bytes(), 0, np.random.default_rng(0)
    for content in (b"", b"<html>not found</html>", b"\x80\x02", good[: len(good) // 2]):
        path.write_bytes(content)
        with pytest.raises(FileError, match=kind):
            read_weights(path)
    for _ in range(150):
        damaged = np.frombuffer(good, np.uint8).copy()
        damaged[rng.integers(0, len(good), 3)] = rng.integers(0, 256, 3)
        path.write_bytes(damaged.tobytes())
        try:
            read_weights(path)
        except FileError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 20


# code, directories and everything else


FACTORIES = """
from torch import nn
from parts_of_mynet import WIDTH


class Net(nn.Sequential):
    def __init__(self, num_classes=2):
        super().__init__(nn.Conv2d(1, WIDTH, 3), nn.Flatten(), nn.Linear(WIDTH * 36, num_classes))


def nothing():
    return 42
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mynet.py in the current directory, and beside it what it imports."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "parts_of_mynet.py").write_text("WIDTH = 8\n")
    (tmp_path / "nets" / "mynet.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path / "nets")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    for name in ("mynet", "parts_of_mynet"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("spec", ["mynet.py:Net", "../nets/mynet.py:Net", "mynet:Net"])
def test_a_factory_in_a_file(spec: str, nets: None) -> None:
    model = open_model(spec, num_classes=3)
    assert model.preprocessing.channels == "L"
    assert model(np.ones((2, 1, 8, 8), np.float32))[1].shape == (2, 3)
    assert type(open_trainable(spec, num_classes=4).module).__name__ == "Net"


@pytest.mark.parametrize(
    ("spec", "source", "message"),
    [
        ("mynet:missing", FACTORIES, "has no function or class 'missing'"),
        ("mynet:nothing", FACTORIES, "got int"),
        ("no_such_module:net", FACTORIES, "there is no module 'no_such_module'"),
        ("mynet.py", FACTORIES, r"mynet.py is not a model: .*Say what makes the model in it: mynet.py:Net"),
        ("absent.py:Net", FACTORIES, "there is no file absent.py"),
        ("mynet.py:Net", "def Net():\n    raise RuntimeError('why')\n", r"mynet.py:Net .*RuntimeError: why \(mynet.py, line 2\)"),
    ],
)
def test_factories_that_make_no_model(spec: str, source: str, message: str, nets: None) -> None:
    Path("mynet.py").write_text(source)
    with pytest.raises(InputError, match=message):
        open_model(spec)


def trained(directory: Path, **config: Any) -> Path:
    (directory / "model").mkdir()
    saved(cifar_resnet20(5), directory / "model/model.safetensors")
    (directory / "model/config.json").write_text(json.dumps(config))
    return directory


def test_a_directory_that_was_trained(tmp_path: Path) -> None:
    preprocessing = Preprocessing(size=(32, 32), mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2), crop_pct=0.9)
    trained(
        tmp_path,
        factory=RESNET20,
        arguments={"num_classes": 5},
        preprocessing=preprocessing.as_dict(),
        class_names=["a", "b", "c", "d", "e"],
    )
    for path in (tmp_path, tmp_path / "model"):
        model = open_model(path)
        check_against_module(model, images(model))
        assert model.preprocessing == preprocessing and model.class_names == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    "factory",
    ["os:system", "hardsight.models.opening:open_model", "hardsight.models.weights:load_weights", "hardsight.errors:require", ""],
)
def test_a_directory_cannot_name_other_code(factory: str, tmp_path: Path) -> None:
    canary = tmp_path / "executed"
    trained(tmp_path, factory=factory, arguments={"command": f"mkdir {canary}"})
    with pytest.raises(InputError, match="not one of hardsight's networks"):
        open_model(tmp_path)
    assert not canary.exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "without model/config.json"),
        ("{", "not JSON"),
        (json.dumps({"factory": RESNET20, "arguments": {"depth": 3}}), "the arguments do not fit"),
    ],
)
def test_a_directory_with_wrong_contents(config: str | None, message: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(HardsightError, match=message):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("m.keras", "Export it to ONNX"),
        ("m.joblib", "Pickles are not read"),
        ("x", "not a model"),
    ],
)
def test_what_is_no_model(spec: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=hint):
        open_model(tmp_path / spec)
    with pytest.raises(InputError, match="got int"):
        open_model(3)


def test_fingerprints_tell_weights_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = cifar_resnet20(), cifar_resnet20()
    prints = [open_model(m).fingerprint() for m in (first, first, second)]
    assert prints[0] == prints[1] != prints[2]
    assert prints[0].keys() == {"kind", "name", "sha256"} and prints[0]["kind"] == "torch"
    weights = saved(first, tmp_path / "w.safetensors")
    from_file = open_model(RESNET20, weights=weights).fingerprint()
    assert from_file["name"] == RESNET20 and len(from_file["sha256"]) == 64

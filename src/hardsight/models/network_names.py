"""What a network to be trained may be called.

mnist_cnn, cifar_resnet20, ...    hardsight's own networks by their bare name
timm:NAME, torchvision:NAME       from scratch, or from the library's released weights
package.module:make               your own function
run/                              a directory that hardsight trained, as a starting point
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hardsight.errors import InputError, did_you_mean

OWN = ("lenet", "mnist_cnn", "DigitsCNN", "cnn10", *(f"cifar_resnet{n}" for n in (20, 32, 44, 56, 110)), "feature_head")
OWN_NETWORKS = {name: f"hardsight.models.networks:{name}" for name in OWN}
LIBRARIES = {"timm": "libraries:timm_network", "torchvision": "libraries:torchvision_network"}
EMBEDDER = "efficientnet_lite0"  # where none is named


def hub_id(text: str) -> str | None:
    """hf:owner/name for a bare owner/name of the Hugging Face hub: what is neither a path here nor named like a file.

    Example:
        >>> hub_id("facebook/dinov2-small"), hub_id("nets/own.onnx"), hub_id("timm:resnet18")
        ('hf:facebook/dinov2-small', None, None)
    """
    owner, _, name = text.partition("/")
    bare = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", text) and owner not in (*LIBRARIES, "hf") and not Path(text).exists()
    is_file = re.search(r"\.(onnx|skops|pth?|safetensors|bin|ckpt|h5|keras|pb|tflite|pkl|joblib|py)$", name)
    return f"hf:{text}" if bare and not is_file else None


def embedder_name(spec: str | None, weights: Path | None = None) -> tuple[str, str]:
    """Library and name of a backbone for features; refuses what none can be called, and weights that it does not take.

    Example:
        >>> embedder_name("timm:resnet18"), embedder_name("facebook/dinov2-small"), embedder_name(None)
        (('timm', 'resnet18'), ('hf', 'facebook/dinov2-small'), ('efficientnet_lite0', ''))
    """
    spec = EMBEDDER if spec is None else hub_id(spec) or spec
    library, _, name = spec.partition(":")
    if weights is not None and library != "timm":
        raise InputError(f"--weights are for a model or for an embedder timm:NAME, got {weights} with {spec}.")
    if spec != EMBEDDER and not (library in ("timm", "hf") and name):
        raise InputError(
            f"an embedder is timm:NAME or hf:DIR_OR_NAME, got {spec!r}. A classifier of any other kind is a --model."
        )
    return library, name


def check_network_name(model: Any) -> None:
    """Refuse a text that no network can be called; whether there is one of that name shows when it is built."""
    if not isinstance(model, (str, os.PathLike)):
        return
    text = os.fspath(model)
    prefix, _, name = text.partition(":")
    if (prefix in LIBRARIES and name) or Path(text).is_dir():
        return
    _, _, function = OWN_NETWORKS.get(text, text).partition(":")
    if not function or prefix == "hf":
        raise InputError(_unknown(text))


def _unknown(text: str) -> str:
    if Path(text).suffix in (".onnx", ".skops"):
        return f"{text} can be scored but not trained: give the network in torch."
    if text.startswith("hf:"):
        return f"{text}: train it with transformers' own Trainer and the callback of hardsight.training."
    without_prefix = {name.partition("_")[2]: name for name in OWN_NETWORKS}  # resnet20 for cifar_resnet20
    hint = f" Did you mean {without_prefix[text]}?" if text in without_prefix and "_" not in text else ""
    hint = hint or did_you_mean(text, OWN_NETWORKS, 0.75) or f" hardsight's own are {', '.join(OWN_NETWORKS)}."
    if re.fullmatch("[a-z][a-z0-9_]*", text) and "Did" not in hint:
        hint = f" Of a library, write it as timm:{text}.{hint}"
    return f"{text} is not a network to train: give timm:NAME, torchvision:NAME, module:function or a trained run.{hint}"

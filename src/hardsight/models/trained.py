"""A directory that hardsight trained: `model/config.json` says what to build, `model.safetensors` fills it.

    config.json    {"factory": "hardsight.models.networks:cifar_resnet20",
                    "arguments": {"num_classes": 10},
                    "head": {"layer": "linear", "kind": "angular", "num_features": 64, "num_classes": 10, ...},
                    "preprocessing": {"size": [32, 32], "mean": [...], "std": [...], ...},
                    "class_names": ["airplane", ...]}

"head" says which layer of the network is replaced by a head, and its kind; without it the network keeps its own last
layer. Of a head of two layers, "hidden" describes the first: {"layer": "fc", "num_inputs": 2048, "num_features": 512}; the
head is then "fc.head". "head", "hidden", "preprocessing" and "class_names" may be left out. A directory can come from
anywhere, so its factory may only be one of hardsight's own networks or those of timm and torchvision (network_names.py): reading
a model never runs other code.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsight.errors import FileError, InputError
from hardsight.files.reading import read_object
from hardsight.models.model import BuiltNetwork
from hardsight.models.network_names import LIBRARIES, OWN_NETWORKS
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.weights import load_weights

if TYPE_CHECKING:
    from torch import nn

FACTORIES = {*OWN_NETWORKS.values(), *(f"hardsight.models.{factory}" for factory in LIBRARIES.values())}


def trained_directory(path: Path) -> Path | None:
    """Where the config.json of a trained run is: the directory itself or its model/."""
    return next((d for d in (path / "model", path) if (d / "config.json").is_file()), None)


def read_config(directory: Path) -> dict[str, Any]:
    """What config.json says, compared with the run that lists it."""
    return read_object(directory / "config.json", "not JSON with factory and arguments")


def takes_features(model: Any) -> bool:
    """Whether a model was trained on rows of numbers, as those of adapt and generalize on features: a directory or an object."""
    if isinstance(model, (str, os.PathLike)):
        directory = trained_directory(Path(model))
        return directory is not None and read_config(directory).get("factory") == OWN_NETWORKS["feature_head"]
    return bool(getattr(getattr(model, "module", model), "takes_features", False))  # of an opened model, the network inside


def open_trained(directory: Path, weights: Path) -> BuiltNetwork:
    """The network of a config.json, filled with weights, its preprocessing and its class names."""
    config = read_config(directory)
    factory = _own_factory(str(config.get("factory", "")), directory, weights)
    try:
        module: nn.Module = factory(**config.get("arguments", {}))
    except TypeError as error:
        raise FileError(f"{directory / 'config.json'}: the arguments do not fit {config['factory']}: {error}") from error
    _put_head(module, config, directory)
    load_weights(module, weights, str(directory))
    preprocessing = Preprocessing.from_dict(config["preprocessing"]) if config.get("preprocessing") else None
    return BuiltNetwork(module, preprocessing, tuple(config["class_names"]) if config.get("class_names") else None)


def _put_head(module: nn.Module, config: dict[str, Any], directory: Path) -> None:
    """A head of the described kind in place of the layer it names, and a hidden layer before it, if it has one."""
    from hardsight.models.head_layer import HeadLayer, HeadShape, HiddenLayer

    try:
        if config.get("hidden"):
            HiddenLayer(**config["hidden"]).put_into(module)
        if config.get("head"):
            arguments = dict(config["head"])
            module.set_submodule(arguments.pop("layer"), HeadLayer(HeadShape(**arguments)), strict=True)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, InputError) as error:
        raise FileError(f"{directory / 'config.json'}: its head does not fit the network: {error}") from error


def _own_factory(spec: str, directory: Path, weights: Path) -> Any:
    if spec in FACTORIES:
        module_name, _, name = spec.partition(":")
        return getattr(importlib.import_module(module_name), name)
    raise InputError(
        f"{directory / 'config.json'} names {spec!r}, which is not one of hardsight's networks, so it is not run from a file. "
        f"If you trust that code, name it yourself: {spec} --weights {weights}"
    )

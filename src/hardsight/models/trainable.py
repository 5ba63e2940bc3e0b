"""A network to be trained: any MODEL made of torch (network_names.py).

`cut_off`, the end of find_head.py, then takes its last layer out.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardsight.errors import FileError, InputError
from hardsight.models.head_layer import HiddenLayer
from hardsight.models.model import refuse
from hardsight.models.network import declared_preprocessing, state_sha256, unwrapped
from hardsight.models.network_names import LIBRARIES, OWN_NETWORKS, check_network_name
from hardsight.models.opening import call_factory
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.weights import load_weights


@dataclass(frozen=True)
class Trainable:
    """A network before training, and how to build it again.

    Attributes:
        module: images in, logits out.
        factory, arguments: as in a config.json.
        preprocessing: how a picture becomes its input.
        learned: whether its last layer has been trained before, and so is worth keeping.
        hidden: the hidden layer before its head, of a run that was trained with one.
        head_hidden: units of a hidden layer that is to be put before the head.
        notes: sentences for the user.
    """

    module: nn.Module
    factory: str
    arguments: dict[str, Any]
    preprocessing: Preprocessing
    learned: bool
    hidden: HiddenLayer | None = None
    head_hidden: int | None = None
    notes: tuple[str, ...] = ()


def open_trainable(
    spec: Any,
    num_classes: int,
    *,
    options: dict[str, Any] | None = None,
    weights: Path | None = None,
    pretrained: bool | str = False,
    head_hidden: int | None = None,
) -> Trainable:
    """Build the network that a MODEL names, for this number of classes.

    Args:
        spec: see network_names.py; or an nn.Module.
        options: further arguments of the function that makes it, such as {"num_features": 2}.
        weights: a file to start from; where its last layer has another number of classes, all layers but that one do.
        pretrained: start from the weights that timm or torchvision releases, of torchvision also by name ("V1"); they may be
            downloaded.
        head_hidden: units of a hidden layer between the network and its new head.
    """
    options = dict(options or {})
    if isinstance(spec, nn.Module):
        refuse("a module that exists already", pretrained=pretrained or None, **options)
        module = copy.deepcopy(unwrapped(spec))  # the caller's own stays as it is
        name = f"{type(module).__module__}:{type(module).__qualname__}"
        trainable = Trainable(module, name, {}, declared_preprocessing(module), learned=True)
    elif not isinstance(spec, (str, os.PathLike)):
        raise InputError(f"a model to train must be a torch module or the name of one, got {type(spec).__name__}.")
    else:
        trainable = _named(os.fspath(spec), num_classes, options, pretrained)
    if weights is not None:
        name = os.fspath(spec) if isinstance(spec, (str, os.PathLike)) else type(spec).__name__
        left_out = load_weights(trainable.module, weights, name, new_classes=True)
        trainable = replace(trainable, learned=left_out is None, notes=() if left_out is None else (left_out,))
    if head_hidden is not None and trainable.hidden is not None:
        raise InputError(f"{spec} has a hidden layer before its head already: leave head_hidden out.")
    return replace(trainable, head_hidden=head_hidden)


def _named(text: str, num_classes: int, options: dict[str, Any], pretrained: bool | str) -> Trainable:
    check_network_name(text)
    prefix, _, name = text.partition(":")
    if prefix in LIBRARIES and name:
        return _from_library(prefix, name, options, pretrained)
    if pretrained:
        raise InputError("pretrained is for timm:NAME and torchvision:NAME; other networks start from weights=FILE.")
    if Path(text).is_dir():
        refuse("a trained run", **options)
        return _from_run(Path(text))
    spec = OWN_NETWORKS.get(text, text)
    module_name, _, function = spec.partition(":")
    module = call_factory(module_name, function, num_classes, **options)
    if not isinstance(module, nn.Module):
        raise InputError(f"only a torch module can be trained, and {text} is {type(module).__name__}.")
    arguments = {**options, "num_classes": num_classes} if spec in OWN_NETWORKS.values() else options
    return Trainable(module, spec, arguments, declared_preprocessing(module), learned=False)


def _from_library(library: str, name: str, options: dict[str, Any], pretrained: bool | str) -> Trainable:
    from hardsight.models.libraries import open_library

    refuse(f"{library}:{name}", **options)
    module, preprocessing, *_ = open_library(library, name, pretrained=pretrained, num_classes=None)
    assert preprocessing is not None  # both libraries state it
    factory = f"hardsight.models.{LIBRARIES[library]}"
    return Trainable(module, factory, {"name": name}, preprocessing, learned=bool(pretrained))


def _from_run(path: Path) -> Trainable:
    from hardsight.models.trained import open_trained, read_config, trained_directory

    directory = trained_directory(path)
    if directory is None:
        raise InputError(f"{path} is a directory without model/config.json, so not one that hardsight trained.")
    config = read_config(directory)
    if "factory" not in config:
        raise FileError(f"{directory / 'config.json'} was not written by hardsight train: name the network itself.")
    module, preprocessing, *_ = open_trained(directory, directory / "model.safetensors")
    preprocessing = preprocessing or declared_preprocessing(module)
    hidden = HiddenLayer(**config["hidden"]) if config.get("hidden") else None
    return Trainable(module, config["factory"], config.get("arguments", {}), preprocessing, learned=True, hidden=hidden)


def start_fingerprint(make: Callable[[], Trainable]) -> str:
    """Of the weights that a network starts from, drawn from seed 0 where they are random."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return state_sha256(make().module)

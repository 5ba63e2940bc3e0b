"""`torchvision:NAME` and `timm:NAME`: the models of these libraries, and whether the Hugging Face hub can be reached."""

from __future__ import annotations

import importlib
import importlib.util
import socket
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torch import nn

from hardsight.errors import InputError, MissingExtra, did_you_mean, why_missing
from hardsight.models.model import BuiltNetwork
from hardsight.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing


def open_torchvision(name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A torchvision classifier with its preprocessing and class names; `pretrained` may download, and may name the weights."""
    models = import_torchvision().models
    names = models.list_models(module=models)
    if name not in names:
        raise InputError(f"torchvision has no classifier {name!r}.{did_you_mean(name, names)}")
    released = _released(models.get_model_weights(name), name, pretrained)
    arguments = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    try:
        module = models.get_model(name, weights=released if pretrained else None, **arguments)
    except OSError as error:  # no network, or no such address
        raise InputError(f"the weights of torchvision:{name} could not be fetched: {error}. Pass --weights FILE.") from error
    class_names = tuple(released.meta["categories"]) if pretrained else None
    return BuiltNetwork(module, _preprocessing(released.transforms()), class_names, released.name if pretrained else None)


def _released(weights: Any, name: str, wanted: bool | str) -> Any:
    """Released weights by their name or its end: IMAGENET1K_V1 or V1. The default ones where none are named."""
    if not isinstance(wanted, str):
        return weights.DEFAULT
    members = weights.__members__
    member = next((text for text in (wanted.upper(), f"IMAGENET1K_{wanted.upper()}") if text in members), None)
    if member is None:
        raise InputError(f"torchvision:{name} has no released weights {wanted!r}; it has {', '.join(members)}.")
    return members[member]


def torchvision_network(name: str, num_classes: int | None = None) -> nn.Module:
    """An untrained torchvision classifier, to be filled with weights."""
    return open_torchvision(name, pretrained=False, num_classes=num_classes).module


def _preprocessing(preset: Any) -> Preprocessing:
    """Torchvision's evaluation preset as ours; ImageNet's usual one where a preset is of another kind."""
    crop = list(getattr(preset, "crop_size", [224]))
    resized = list(getattr(preset, "resize_size", [256]))
    interpolation: Any = getattr(getattr(preset, "interpolation", None), "value", "bilinear")
    return Preprocessing(
        size=(crop[0], crop[-1]),
        crop_pct=min(1.0, crop[0] / resized[0]),
        interpolation=interpolation,
        mean=tuple(getattr(preset, "mean", IMAGENET_MEAN)),
        std=tuple(getattr(preset, "std", IMAGENET_STD)),
    )


def import_torchvision() -> Any:
    """torchvision, also next to a torch it was not built for.

    The torchvision wheel on PyPI is built for CUDA. Next to a CPU-only torch its compiled operators do not load, and the
    import stops at two of them, for object detection, that were never declared. Classifiers use neither: declaring the
    two is enough for torchvision, and for timm and transformers, which import it, to work. Nothing is declared where the
    import works without it.
    """
    import torch

    try:
        return importlib.import_module("torchvision")
    except ImportError as error:
        raise MissingExtra(why_missing("torchvision:NAME", "torchvision", error, "torchvision")) from error
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


def import_with_torchvision(module: str, spec: str) -> Any:
    """A library that imports torchvision when it is there: timm, transformers."""
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(why_missing(spec, module, error, module)) from error


RESIZE: dict[str, Any] = {"center": "shortest", "squash": "squash", "border": "longest"}


def open_timm(name: str, *, pretrained: bool | str, num_classes: int | None) -> BuiltNetwork:
    """A timm model and its preprocessing; `pretrained` may download."""
    timm = import_with_torchvision("timm", "timm:NAME")
    if isinstance(pretrained, str):
        raise InputError(f"timm names released weights after the model: timm:{name.partition('.')[0]}.{pretrained.lower()}.")
    if not timm.is_model(name) and not name.startswith(("hf_hub:", "hf-hub:")):
        raise InputError(f"timm has no model {name!r}.{did_you_mean(name.partition('.')[0], timm.list_models())}")
    if pretrained:
        repository = name.partition(":")[2] or f"timm/{name.partition('.')[0]}*"  # hf_hub:owner/name names its own
        check_hub(f"timm:{name}", repository, "give --weights FILE")
    arguments = {} if pretrained or num_classes is None else {"num_classes": num_classes}
    try:
        module = timm.create_model(name, pretrained=pretrained, **arguments)
    except (OSError, RuntimeError) as error:  # no network; a name without released weights
        raise InputError(f"timm:{name} could not be opened: {error}. Pass --weights FILE.") from error
    released = (module.pretrained_cfg.get("tag") or "default") if pretrained else None
    return BuiltNetwork(module, timm_preprocessing(module), released=released)


def timm_network(name: str, num_classes: int | None = None) -> nn.Module:
    """An untrained timm model, to be filled with weights."""
    return open_timm(name, pretrained=False, num_classes=num_classes).module


def timm_preprocessing(module: nn.Module) -> Preprocessing:
    """The evaluation transform of a timm model's own configuration."""
    timm_data = import_with_torchvision("timm.data", "timm:NAME")
    config = timm_data.resolve_model_data_config(module)
    channels, height, width = config["input_size"]
    return Preprocessing(
        size=(height, width),
        resize=RESIZE[config["crop_mode"]],
        crop_pct=config["crop_pct"],
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]) if channels == 3 else (sum(config["mean"]) / 3,),
        std=tuple(config["std"]) if channels == 3 else (sum(config["std"]) / 3,),
        channels="L" if channels == 1 else "RGB",
    )


def check_hub(spec: str, repositories: str, instead: str) -> None:
    """Refuse a model that is neither in the hub's cache nor to be had over the network.

    Args:
        spec: what the user calls it.
        repositories: owner/name on the hub, or a pattern of them.
        instead: what to do without a network.
    """
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT
    cached = Path(constants.HF_HUB_CACHE).glob(f"models--{repositories.replace('/', '--')}")
    if not any(cached) and not _is_known(host):
        raise InputError(f"{spec}: its weights are not on this machine, and {host} cannot be reached: {instead}.")


def _is_known(host: str) -> bool:
    """Whether the name of the host is found; behind a proxy, the proxy looks it up."""
    if urllib.request.getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False

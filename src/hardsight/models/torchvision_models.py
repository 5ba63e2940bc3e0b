"""`torchvision:NAME`: the classifiers of torchvision."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

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

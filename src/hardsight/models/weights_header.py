"""Weights of another model, told from the header of their file: torch, which takes seconds to load, is not needed for that."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hardsight.errors import InputError
from hardsight.models.layouts import check_layout
from hardsight.models.library_names import source_of
from hardsight.models.trained import read_config, trained_directory
from hardsight.models.weights import check_shapes, check_weights, shapes_in, without_wrappers

LIBRARY_CLASSES = 1000  # of every torchvision classifier, and of timm's but those whose source says another number
LAST_LAYER = re.compile(r"(?:.*\.)?(?:fc|head|head\.fc|classifier|classifier\.\d+|heads\.head)\.weight")


def check_weights_of(
    model: Any, weights: str | os.PathLike[str] | None, num_classes: int | None, *, new_classes: bool = False
) -> None:
    """Refuse a file of weights that cannot be read or is of another model, as far as names and shapes tell.

    A trained run is compared with its own weights; an architecture of a library or of hardsight by its blocks and its number of
    classes. What is left is compared when the network is built.

    Args:
        model: what `open_model` or `open_trainable` takes.
        weights: the file.
        num_classes: that the network will be built for; None for those of its library.
        new_classes: whether the last layer may have other classes, as before a training.
    """
    check_weights(weights)
    shapes = None if weights is None else shapes_in(Path(weights))
    if weights is None or shapes is None or not isinstance(model, (str, os.PathLike)):
        return
    path, text = Path(weights), os.fspath(model)
    library = text.partition(":")[0]
    trained = trained_directory(Path(text))
    trained = trained if trained is not None and "factory" in read_config(trained) else None  # or of transformers
    if library in ("timm", "torchvision", "hf") or trained is not None:
        _check_network(path, shapes)
    if trained is not None and (trained / "model.safetensors").is_file():
        wanted = shapes_in(trained / "model.safetensors") or {}
        if not new_classes:
            check_shapes(path.name, without_wrappers(shapes, wanted), Path(text).name, wanted)
        return
    check_layout(path.name, shapes, text)
    if library in ("timm", "torchvision") and not new_classes:
        _check_classes(path, shapes, library, num_classes)


def _check_network(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A head has no layers inside of it."""
    if "weight" in shapes and not any("." in name for name in shapes):
        raise InputError(f"{path} holds a head, not the weights of a network: hardsight score takes it, as --head.")


def _check_classes(path: Path, shapes: dict[str, tuple[int, ...]], library: str, num_classes: int | None) -> None:
    """The rows of the last layer, where its name is a usual one, against the number of classes that will be built."""
    last = [shape for name, shape in shapes.items() if LAST_LAYER.fullmatch(name) and len(shape) in (2, 4)]
    if len(last) != 1:
        return
    rows = last[0][0]
    if num_classes is None and rows != LIBRARY_CLASSES and not re.search(rf"num_classes={rows}\b", source_of(library)):
        raise InputError(f"{path.name} was trained on {rows} classes: pass --num-classes {rows}.")
    if num_classes is not None and rows != num_classes:
        raise InputError(f"{path.name} was trained on {rows} classes, and --num-classes is {num_classes}.")

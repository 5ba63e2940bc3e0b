"""A `Head` in a file: `head.safetensors` with its arrays, and kind, scale and class names as metadata."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from safetensors import safe_open

from hardsight.checks import to_numpy
from hardsight.errors import FileError, InputError, first_line
from hardsight.files.checksums import check
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.places import Place, missing, on_disk, place
from hardsight.files.tensors import write_safetensors
from hardsight.head import Head

ARRAYS = ("weight", "bias", "log_variance", "log_prior")


def save_head(path: str | os.PathLike[str], head: Head, class_names: list[str] | None = None) -> None:
    """Write a head as safetensors."""
    arrays = {name: getattr(head, name) for name in ARRAYS}
    metadata = {"kind": head.kind, "scale": json.dumps(head.scale), "class_names": json.dumps(class_names)}
    write_safetensors(path, {name: to_numpy(array) for name, array in arrays.items() if array is not None}, metadata)


def load_head(path: str | os.PathLike[str]) -> tuple[Head, list[str] | None]:
    """A head and its class names from `.safetensors`, `.npz` (vocabulary names) or `.npy` (a weight matrix)."""
    path = place(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _checked(path, "linear", {"weight": np.asarray(open_npy(path))}, None), None
    if suffix == ".npz":
        head, names = head_from_arrays(path, {name: np.asarray(rows) for name, rows in open_npz(path).items()})
        if head is None:
            raise FileError(f"{path}: it has no array named weight.")
        return head, names
    if suffix == ".safetensors":
        return _load_safetensors(path)
    raise FileError(
        f"{path}: a head must be a .safetensors, .npz or .npy file. Pickled files (.pt, .pkl) are not loaded; save the "
        "layer's arrays instead: np.savez('head.npz', weight=layer.weight.detach(), bias=layer.bias.detach())"
    )


def head_from_arrays(path: Place, arrays: dict[str, Any]) -> tuple[Head | None, list[str] | None]:
    """The head among named arrays, if there is a weight."""
    names = [str(name) for name in np.atleast_1d(arrays["class_names"])] if "class_names" in arrays else None
    if "weight" not in arrays:
        if "bias" in arrays:
            raise FileError(f"{path}: it has a bias but no weight.")
        return None, names
    kind = str(arrays["kind"]) if "kind" in arrays else "linear"
    scale = arrays["scale"] if "scale" in arrays else None
    return _checked(path, kind, {name: arrays[name] for name in ARRAYS if name in arrays}, scale), names


def _load_safetensors(path: Place) -> tuple[Head, list[str] | None]:
    if not path.is_file():
        raise FileError(missing(path))
    check(path)
    try:
        with on_disk(path) as local, safe_open(local, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys() if name in ARRAYS}
    except Exception as error:  # a damaged header can fail in a dozen ways
        raise FileError(f"{path}: not a readable safetensors file: {first_line(error)}") from error
    if "weight" not in arrays:
        raise FileError(f"{path}: it has no tensor named weight.")
    try:
        names = json.loads(metadata.get("class_names", "null"))
        scale = json.loads(metadata.get("scale", "null"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: its metadata is damaged: {error}") from error
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FileError(f"{path}: class_names in its metadata must be a list of strings, got {str(names)[:80]}.")
    return _checked(path, metadata.get("kind", "linear"), arrays, scale), names


def _checked(path: Place, kind: Any, arrays: dict[str, Any], scale: Any) -> Head:
    try:
        return Head(kind, scale=scale, **arrays)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error

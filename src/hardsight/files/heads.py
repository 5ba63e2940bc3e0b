"""A `Head` in a file: `head.safetensors` with its arrays, and kind, scale and class names as metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import safe_open

from hardsight.checks import to_numpy
from hardsight.errors import FileError
from hardsight.files.checksums import UNSEALED, check
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.places import Place, on_disk, place
from hardsight.files.reading import existing_file, naming, reading
from hardsight.files.writing import replacing
from hardsight.head import ARRAYS, Head

NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> None:
    """Write NumPy arrays or torch tensors by name, with a checksum; the same tensors give the same bytes."""
    header: dict[str, Any] = {"__metadata__": {**(metadata or {}), "checksum": UNSEALED.decode()}}
    start = 0
    ordered = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # keeps each array aligned
    for name in ordered:
        tensor = tensors[name]
        kind = str(getattr(tensor.dtype, "name", tensor.dtype)).removeprefix("torch.")
        end = start + tensor.dtype.itemsize * int(np.prod(tensor.shape, dtype=np.int64))
        header[name] = {"dtype": NAMES[kind], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path, "safetensors") as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            file.write(_bytes(tensors[name]))


def _bytes(tensor: Any) -> Any:
    """The values in row-major order, little-endian."""
    if isinstance(tensor, np.ndarray):
        array = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<"))
        return array.reshape(-1).view(np.uint8).data
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


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
    check(existing_file(path))
    fault = "not a readable safetensors file"
    with reading(path, fault), on_disk(path) as local, safe_open(local, framework="numpy") as file:
        metadata = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys() if name in ARRAYS}
    if "weight" not in arrays:
        raise FileError(f"{path}: it has no tensor named weight.")
    with reading(path, "its metadata is damaged"):
        names = json.loads(metadata.get("class_names", "null"))
        scale = json.loads(metadata.get("scale", "null"))
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FileError(f"{path}: class_names in its metadata must be a list of strings, got {str(names)[:80]}.")
    return _checked(path, metadata.get("kind", "linear"), arrays, scale), names


def _checked(path: Place, kind: Any, arrays: dict[str, Any], scale: Any) -> Head:
    with naming(path):
        return Head(kind, scale=scale, **arrays)

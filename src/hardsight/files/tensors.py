"""Arrays and tensors written as safetensors one by one; the library would hold a second copy, or write to another name first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hardsight.files.checksums import UNSEALED
from hardsight.files.writing import replacing

NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> None:
    """Write NumPy arrays or torch tensors by name, with a checksum; the same tensors give the same bytes."""
    header: dict[str, Any] = {"__metadata__": {**(metadata or {}), "checksum": UNSEALED.decode()}}
    start = 0
    ordered = sorted(tensors, key=lambda name: (-_item_size(tensors[name]), name))  # keeps each array aligned
    for name in ordered:
        tensor = tensors[name]
        end = start + _item_size(tensor) * int(np.prod(tensor.shape, dtype=np.int64))
        header[name] = {"dtype": NAMES[_type_name(tensor)], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path, "safetensors") as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            file.write(_bytes(tensors[name]))


def _item_size(tensor: Any) -> int:
    return int(tensor.dtype.itemsize)


def _type_name(tensor: Any) -> str:
    return str(getattr(tensor.dtype, "name", tensor.dtype)).removeprefix("torch.")


def _bytes(tensor: Any) -> Any:
    """The values in row-major order, little-endian."""
    if isinstance(tensor, np.ndarray):
        array = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<"))
        return array.reshape(-1).view(np.uint8).data
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data

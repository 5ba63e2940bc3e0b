"""Arrays in, the same arrays out, proven: shapes agree, numbers are finite, labels in range, ids unique.

Public functions call these at the door; everything inside trusts what passed. NumPy arrays, torch tensors on
any device and pandas or Arrow columns go in. Nothing here imports torch: a tensor is recognised by its type.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from hardsight.errors import InputError

UNLABELED = -1
MOST_CLASSES = 2**24  # without a head to count them, a larger label is taken for a mistake


def is_tensor(x: Any) -> bool:
    """Whether x is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Any) -> ModuleType:
    """The module that computes on x: numpy for arrays, torch for tensors."""
    return sys.modules["torch"] if is_tensor(x) else np


def as_matrix(x: Any, name: str) -> Any:
    """A 2-D array or tensor of numbers; its precision and byte order are left as they are."""
    if is_tensor(x):
        x = x.detach()
        if x.is_complex() or x.dtype == sys.modules["torch"].bool:
            raise InputError(f"{name} must hold numbers, got {x.dtype}.")
    else:
        x = _as_array(x, name)
        if x.dtype.kind not in "fiu" and x.dtype.name != "bfloat16":
            raise InputError(f"{name} must hold numbers, got {x.dtype}.")
    if x.ndim != 2:
        hint = " Labels are given as labels=." if name == "weight" and x.ndim == 1 else ""
        raise InputError(f"{name} must be two-dimensional, one row per sample or class, got shape {tuple(x.shape)}.{hint}")
    return x


def widened(x: Any) -> Any:
    """The same values in float32, or in float64 if they have eight bytes each: what all computation is done in."""
    if is_tensor(x):
        torch = sys.modules["torch"]
        return x.to(torch.float64 if x.dtype.itemsize >= 8 else torch.float32)
    return x.astype(np.float64 if x.dtype.itemsize >= 8 else np.float32, copy=False)


def _as_array(x: Any, name: str) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "combine_chunks"):  # an Arrow column
        x = x.combine_chunks()
    if hasattr(x, "to_numpy") and hasattr(x, "type"):  # an Arrow array
        return np.asarray(x.to_numpy(zero_copy_only=False))
    try:
        return np.asarray(x)
    except ValueError as error:  # ragged lists
        raise InputError(f"{name} must be a rectangular array: {error}") from error


def check_weight(weight: Any) -> Any:
    """A (c, d) array of class vectors, each finite and with a direction."""
    weight = widened(as_matrix(weight, "weight"))
    if weight.shape[0] == 0 or weight.shape[1] == 0:
        raise InputError(f"weight must have at least one class and one dimension, got shape {tuple(weight.shape)}.")
    largest = to_numpy(namespace(weight).amax(abs(weight), axis=1))  # (c,), NaN where a row holds one
    broken = np.flatnonzero(~np.isfinite(largest))
    if len(broken):
        raise InputError(f"weight must be finite, but {_count(broken, len(largest), 'class vectors')} are not.")
    zero = np.flatnonzero(largest == 0)
    if len(zero):
        raise InputError(
            f"every class vector needs a direction, but {_count(zero, len(largest), 'rows of weight')} are all zeros. "
            "Drop those classes, or load a trained head."
        )
    return weight


def check_same_space(features: Any, weight: Any) -> None:
    """features and weight have the same number of columns."""
    if features.shape[1] == weight.shape[1]:
        return
    message = (
        "features and weight must have the same number of columns, "
        f"got features {tuple(features.shape)} and weight {tuple(weight.shape)}."
    )
    if features.shape[1] == weight.shape[0]:
        message += " weight looks transposed: pass weight.T, one row per class."
    raise InputError(message)


def check_labels(labels: Any, num_samples: int, num_classes: int | None, first_row: int = 0) -> np.ndarray:
    """(n,) int64 labels; null and -1 mean unlabeled. Floats must be whole; anything out of range is named.

    `first_row` is the number of the first of them, for messages about a part of a file.
    """
    column = to_numpy(labels) if is_tensor(labels) else _label_array(labels)
    if column.ndim != 1:
        raise InputError(f"labels must be one-dimensional, one class index per sample, got shape {column.shape}.")
    if len(column) != num_samples:
        raise InputError(f"there must be one label per sample, got {len(column)} labels for {num_samples} samples.")
    if column.dtype.kind == "f":
        null = np.isnan(column)
        whole = null | (np.floor(column) == column)
        if not whole.all():
            bad = np.flatnonzero(~whole)
            raise InputError(f"labels must be whole numbers, but {_rows(bad, column, first_row)}.")
        column = np.where(null, UNLABELED, column)
    elif column.dtype.kind not in "iu":
        raise InputError(
            f"labels must be class indices 0..c-1, got {column.dtype}. "
            "Map class names or flags to integers first, in the order of the head's rows."
        )
    top = MOST_CLASSES if num_classes is None else num_classes
    bad = np.flatnonzero((column < UNLABELED) | (column >= top))
    if len(bad):
        message = f"labels must be 0 to {top - 1} (or -1 for unlabeled), but {_rows(bad, column, first_row)}."
        if num_classes is not None and column.min(initial=1) >= 1 and column.max() == num_classes:
            message += " They look counted from 1: subtract 1."
        raise InputError(message)
    return column.astype(np.int64)


def _label_array(labels: Any) -> np.ndarray:
    column = _as_array(labels, "labels")
    if column.dtype.kind == "O":  # Python objects: keep None as null, refuse anything that is not a number
        for row, value in enumerate(column):
            number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
            if value is not None and not number:
                raise InputError(f"labels must be class indices 0..c-1, but row {row} holds {value!r}.")
        column = np.array([np.nan if value is None else value for value in column], dtype=np.float64)
    return column


def check_ids(ids: Any, num_samples: int) -> np.ndarray:
    """(n,) ids, all integers (int64) or all strings (objects). Uniqueness is checked over the whole input."""
    if isinstance(ids, (list, tuple)):
        ids = np.array([*ids, None], dtype=object)[:-1]  # NumPy would turn a mixture into strings
    column = to_numpy(ids) if is_tensor(ids) else _as_array(ids, "ids")
    if column.shape != (num_samples,):
        raise InputError(f"ids must have one entry per sample, got shape {column.shape} for {num_samples} samples.")
    if column.dtype.kind in "iu":
        if column.dtype.kind == "u" and column.max(initial=0) > np.iinfo(np.int64).max:
            raise InputError(f"integer ids must be below 2^63, got {column.max()}. Give such ids as strings.")
        return column.astype(np.int64)
    if column.dtype.kind == "U":
        return column.astype(object)
    kinds = {type(value) for value in column}
    if kinds <= {str, np.str_}:
        return column.astype(object)
    if kinds and all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        return column.astype(np.int64)
    raise InputError(
        f"ids must be all strings or all integers, got {' and '.join(sorted(kind.__name__ for kind in kinds)) or column.dtype}."
    )


def to_numpy(x: Any) -> np.ndarray:
    """The values of an array or tensor on the host."""
    if not is_tensor(x):
        return np.asarray(x)
    x = x.detach().cpu()
    return (x.float() if x.dtype == sys.modules["torch"].bfloat16 else x).numpy()  # NumPy has no bfloat16


def _count(bad: np.ndarray, total: int, what: str) -> str:
    return f"{len(bad)} of {total} {what} (the first is class {bad[0]})"


def _rows(bad: np.ndarray, column: np.ndarray, first_row: int) -> str:
    first = ", ".join(f"{first_row + row} ({column[row]})" for row in bad[:5])
    return f"{len(bad)} of {len(column)} are not; the first rows: {first}"

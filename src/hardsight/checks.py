"""Validation of input arrays: shapes agree, numbers are finite, labels are in range, ids are unique.

Public functions call these checks first; everything inside trusts the result. Inputs are NumPy arrays, torch tensors on
any device, and pandas or Arrow columns. Nothing here imports torch: tensors are recognized by their type.
"""

from __future__ import annotations

import numbers
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from hardsight.errors import InputError

UNLABELED = -1
MOST_CLASSES = 2**24  # without a head to count them, a larger label must be a mistake


def is_tensor(x: Any) -> bool:
    """Whether x is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Any) -> ModuleType:
    """The module that computes on x: numpy for arrays, torch for tensors."""
    return sys.modules["torch"] if is_tensor(x) else np


def as_matrix(x: Any, name: str) -> Any:
    """A 2-D array or tensor of numbers, with its precision and byte order unchanged."""
    x = as_numbers(x, name)
    if x.ndim != 2:
        hint = " Pass labels as labels=." if name == "weight" and x.ndim == 1 else ""
        raise InputError(f"{name} must be two-dimensional, one row per sample or class, got shape {tuple(x.shape)}.{hint}")
    return x


def widened(x: Any) -> Any:
    """The same values as float32, or as float64 if they have eight bytes each: the types used for all computation."""
    if is_tensor(x):
        torch = sys.modules["torch"]
        return x.to(torch.float64 if x.dtype.itemsize >= 8 else torch.float32)
    return x.astype(np.float64 if x.dtype.itemsize >= 8 else np.float32, copy=False)


def as_numbers(x: Any, name: str) -> Any:
    """An array or tensor of real numbers, of any shape."""
    if is_tensor(x):
        x = _plain_tensor(x, name)
        number = not (x.is_complex() or x.dtype == sys.modules["torch"].bool)
    else:
        x = as_array(x, name)
        if x.dtype == object and x.ndim == 1 and len(x) and all(hasattr(row, "__len__") for row in x):
            x = as_array(list(x), name)  # a pandas column with an array in each row
        number = x.dtype.kind in "fiu" or x.dtype.name == "bfloat16"
    if not number:
        hint = f" Convert it with {name}.astype(float)." if x.dtype == object else ""
        raise InputError(f"{name} must hold numbers, got {x.dtype}.{_empty_row(x) or hint}")
    return x


def _empty_row(x: Any) -> str:
    """The first row without a list in a column of lists, for messages."""
    if x.dtype != object or x.ndim != 1 or not any(isinstance(row, (list, np.ndarray)) for row in x):
        return ""
    return next((f" Row {row} is empty: leave such rows out." for row, value in enumerate(x) if is_null(value)), "")


def check_some_columns(x: Any, name: str) -> None:
    """Require at least one column: a sample without numbers cannot be scored."""
    if x.shape[1] == 0:
        each = "dimension" if name == "features" else "class"
        raise InputError(f"{name} must have at least one column, one per {each}, got shape {tuple(x.shape)}.")


def given_probs(probs: Any, pred_probs: Any) -> Any:
    """`probs`, which other tools call `pred_probs`; only one of the two may be given."""
    if probs is not None and pred_probs is not None:
        raise InputError("probs and pred_probs are the same argument: pass only one of them.")
    return pred_probs if probs is None else probs


def check_count(value: Any, name: str, least: int = 0) -> int:
    """A whole number of at least `least`, as an int. True, 2.0 and "2" are rejected."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}.")
    if value < least:
        raise InputError(
            f"{name} must not be negative, got {value}." if least == 0 else f"{name} must be at least {least}, got {value}."
        )
    return int(value)


def _plain_tensor(x: Any, name: str) -> Any:
    """The tensor without its gradient; tensors that are not dense are rejected."""
    if x.is_meta:
        raise InputError(f"{name} is on torch's meta device and has a shape but no values; load it on a real one.")
    if x.is_quantized:
        raise InputError(f"{name} is a quantized tensor; pass {name}.dequantize().")
    if x.is_nested or x.layout != sys.modules["torch"].strided:
        raise InputError(
            f"{name} must be a dense tensor, got {'a nested one' if x.is_nested else x.layout}; pass {name}.to_dense()."
        )
    try:
        return x.detach()
    except ValueError as error:  # parameter of a lazy module before its first input
        raise InputError(f"{name} has no values yet: {str(error).split('. ')[0]}.") from error


def as_array(x: Any, name: str) -> np.ndarray:
    """A NumPy array from anything array-like except a tensor."""
    if isinstance(x, np.ma.MaskedArray):
        fill = "-1" if name == "labels" else "np.nan"
        raise InputError(f"{name} is a masked array, and masked entries have no value: pass {name}.filled({fill}).")
    if isinstance(x, np.ndarray):
        return np.asarray(x)  # np.matrix and similar subclasses index differently
    x = from_stream(x)
    if hasattr(x, "combine_chunks"):  # an Arrow column
        x = x.combine_chunks()
    if hasattr(x, "to_numpy") and hasattr(x, "type"):  # an Arrow array
        return list_matrix(x, name)[0] if is_list_column(x) else np.asarray(x.to_numpy(zero_copy_only=False))
    try:
        array = np.asarray(x)
    except ValueError as error:  # ragged lists
        raise InputError(f"{name} must be a rectangular array: {error}") from error
    except (TypeError, RuntimeError, OverflowError) as error:  # objects that claim to be arrays but are not quite
        raise InputError(f"{name} could not be read as an array: {error}") from error
    if array.ndim == 0 and not isinstance(x, (numbers.Number, np.generic)):  # sets, dicts, generators, modules, file names
        hint = f" Pass {name}.toarray()." if hasattr(x, "toarray") else ""
        if isinstance(x, (str, os.PathLike)) and name in ("weight", "labels"):
            hint = " To use files, pass them all as paths: score('features.npy', head='weight.npy', labels='labels.npy')."
        raise InputError(f"{name} must be an array or a list, got {type(x).__name__}.{hint}")
    return array


def check_weight(weight: Any, *, directions: bool = True) -> Any:
    """A (c, d) array of class vectors, each finite and, where `directions` are needed, not all zeros."""
    weight = widened(as_matrix(weight, "weight"))
    if weight.shape[0] == 0 or weight.shape[1] == 0:
        raise InputError(f"weight must have at least one class and one dimension, got shape {tuple(weight.shape)}.")
    host = to_numpy(weight) if is_tensor(weight) and weight.device.type == "cpu" else weight  # called for every batch
    largest = to_numpy(namespace(host).amax(abs(host), axis=1))  # (c,), NaN if a row contains one
    broken = np.flatnonzero(~np.isfinite(largest))
    if len(broken):
        raise InputError(f"weight must be finite, but {_count(broken, len(largest), 'class vectors')} are not.")
    zero = np.flatnonzero(largest == 0)
    if len(zero) and directions:
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
    elif features.shape[0] == weight.shape[1]:
        message += " features look transposed: pass features.T, one row per sample."
    raise InputError(message)


class LabelError(InputError):
    """A label that cannot be read; `row` is the first such row."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def check_labels(labels: Any, num_samples: int | None, num_classes: int | None, first_row: int = 0) -> np.ndarray:
    """(n,) int64 class numbers; null and -1 mean unlabeled. Floats must be whole; the error names values out of range.

    `first_row` is the row number of the first label, for messages about a part of a file. `hardsight.labels` reads labels that
    may be anything else.
    """
    column = to_numpy(_plain_tensor(labels, "labels")) if is_tensor(labels) else _label_array(labels)
    if column.ndim != 1:
        one_hot = column.ndim == 2 and column.dtype.kind in "fiub" and bool(((column == 0) | (column == 1)).all())
        hint = " They look one-hot: pass labels.argmax(1)." if one_hot and column.shape[1] > 1 else ""
        raise InputError(f"labels must be one-dimensional, one class index per sample, got shape {column.shape}.{hint}")
    if num_samples is not None and len(column) != num_samples:
        raise InputError(f"there must be one label per sample, got {len(column)} labels for {num_samples} samples.")
    column = _whole_numbers(column, first_row)
    top = MOST_CLASSES if num_classes is None else num_classes
    bad = np.flatnonzero((column < UNLABELED) | (column >= top))
    if len(bad):
        message = f"labels must be 0 to {top - 1} (or -1 for unlabeled), but {_rows(bad, column, first_row)}."
        one_row = " A binary scikit-learn coef_ has one row for two classes: pass the classifier itself as head."
        hint = one_row if num_classes == 1 else counted_from_one(column, num_classes)
        raise LabelError(message + hint, first_row + int(bad[0]))
    return column.astype(np.int64)


def _whole_numbers(column: np.ndarray, first_row: int) -> np.ndarray:
    """Numbers without a fraction, NaN as -1; the same in integers as they are."""
    if column.dtype.kind == "f":
        null = np.isnan(column)
        bad = np.flatnonzero(~null & (np.floor(column) != column))
        if len(bad):
            raise LabelError(f"labels must be whole numbers, but {_rows(bad, column, first_row)}.", first_row + int(bad[0]))
        return np.where(null, UNLABELED, column)
    if column.dtype.kind not in "iu" and len(column):
        raise LabelError(
            f"labels must be class indices 0..c-1, got {column.dtype}, in row {first_row} {column[0]}. "
            "Names work only where all labels are passed at once; else map them to integers in the order of the head's rows.",
            first_row,
        )
    return column if column.dtype.kind in "iu" else column.astype(np.int64)


def is_null(value: Any) -> bool:
    """Whether a single value is None, NaN, or the NA or NaT of pandas."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def counted_from_one(labels: np.ndarray, num_classes: int | None = None) -> str:
    """A hint to append to a message if labels seem to start at 1; otherwise an empty string.

    Example:
        >>> counted_from_one(np.array([1, 2, 3]), 3)
        ' Labels look counted from 1: subtract 1.'
    """
    known = labels[labels != UNLABELED]
    if len(known) == 0 or known.min() < 1 or (num_classes is None and known.min() != 1):
        return ""
    return " Labels look counted from 1: subtract 1." if num_classes is None or known.max() == num_classes else ""


def _label_array(labels: Any) -> np.ndarray:
    if isinstance(labels, (list, tuple)) and {bool, np.bool_, str} & set(map(type, labels)):
        labels = np.array([*labels, None], dtype=object)[:-1]  # NumPy would turn True among numbers into 1, and 1 into text
    column = as_array(labels, "labels")
    if column.dtype.kind != "O" or column.ndim != 1:
        return column
    for row, value in enumerate(column):  # Python objects: anything that is not null must be a number
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
        if not number and not is_null(value):
            raise LabelError(f"labels must be class indices 0..c-1, but row {row} holds {value!r}.", row)
    try:
        return np.array([np.nan if is_null(value) else value for value in column], dtype=np.float64)
    except OverflowError as error:
        raise InputError("labels must be class indices 0..c-1, but one has over 300 digits.") from error


def check_ids(ids: Any, num_samples: int) -> np.ndarray:
    """(n,) ids, all integers (int64) or all strings (objects). Uniqueness is checked over the whole input."""
    if isinstance(ids, (list, tuple)):
        ids = np.array([*ids, None], dtype=object)[:-1]  # NumPy would turn mixed types into strings
    column = to_numpy(_plain_tensor(ids, "ids")) if is_tensor(ids) else as_array(ids, "ids")
    if column.shape != (num_samples,):
        raise InputError(f"ids must have one entry per sample, got shape {column.shape} for {num_samples} samples.")
    if column.dtype.kind in "iu":
        return _whole_ids(column)
    if column.dtype.kind == "U":
        return _text_ids(column.astype(object))
    kinds = {type(value) for value in column}
    if kinds <= {str, np.str_}:
        return _text_ids(column.astype(object))
    if kinds and all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        return _whole_ids(column)
    raise InputError(
        f"ids must be all strings or all integers, got {' and '.join(sorted(kind.__name__ for kind in kinds)) or column.dtype}."
    )


def _whole_ids(column: np.ndarray) -> np.ndarray:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if column.dtype.kind != "i":  # unsigned, or Python integers, which are unbounded
        outside = [row for row, value in enumerate(column.tolist()) if not low <= value <= high]
        if outside:
            raise InputError(
                f"integer ids must lie between -2^63 and 2^63 - 1, but row {outside[0]} holds {str(column[outside[0]])[:40]}. "
                "Pass such ids as strings."
            )
    return column.astype(np.int64)


def _text_ids(column: np.ndarray) -> np.ndarray:
    try:
        "".join(column).encode()
    except UnicodeEncodeError:
        row = next(row for row, text in enumerate(column) if not is_text(text))
        raise InputError(
            f"ids must be text that UTF-8 can hold, but row {row} has half a surrogate pair: {str(column[row])!r:.80}. "
            "A file name in another encoding? Use os.fsencode(name).decode('utf-8', 'backslashreplace')."
        ) from None
    return column


def is_text(x: Any) -> bool:
    """Whether x is a string that UTF-8 can encode, i.e. without lone surrogates."""
    try:
        return isinstance(x, str) and x.encode() is not None
    except UnicodeEncodeError:
        return False


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


def from_stream(x: Any) -> Any:
    """A column of another library, such as polars, converted through its Arrow stream; anything else unchanged."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__arrow_c_stream__") or hasattr(x, "columns") or hasattr(x, "iloc"):
        return x
    import pyarrow as pa

    return x if isinstance(x, (pa.ChunkedArray, pa.Table, pa.RecordBatch)) else pa.chunked_array(x)


def is_list_column(x: Any) -> bool:
    """Whether x is an Arrow array, or chunks of one, with a list or a tensor of fixed shape in each row."""
    arrow = sys.modules.get("pyarrow")  # an Arrow array implies that pyarrow is loaded
    if arrow is None or not isinstance(x, (arrow.Array, arrow.ChunkedArray)):
        return False
    kind = getattr(x.type, "storage_type", x.type)
    return bool(arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind))


def list_matrix(column: Any, name: str, width: int | None = None, first_row: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """A list column as (n, width); null rows become NaN and are marked in (n,), so that row numbers do not shift.

    Without a width, the first list that is not null sets it. `name` and `first_row` are used in messages.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_fixed_size_list(column.type):
        width = int(column.type.list_size)
    else:
        lengths = pc.list_value_length(column)
        if width is None:
            known = lengths.drop_null()
            width = int(known[0].as_py()) if len(known) else 0
        ragged = pc.fill_null(pc.not_equal(lengths, width), False)
        if pc.any(ragged).as_py():
            row = int(pc.index(ragged, True).as_py())
            raise InputError(
                f"{name}: row {first_row + row} has {lengths[row].as_py()} values where the first has {width}; "
                "every row needs the same number."
            )
    flat = column.flatten()  # skips null rows and respects the offset of a slice
    if not (pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)):
        raise InputError(f"{name}: lists must hold numbers, got {flat.type}.")
    present = len(column) - column.null_count
    values = flat.to_numpy(zero_copy_only=False).reshape(present, width)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    if column.null_count == 0:
        return values, None
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    whole = np.full((len(column), width), np.nan, dtype=values.dtype)
    whole[~missing] = values
    return whole, missing


def arrow_numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) numbers of an Arrow column as they lie in memory, and (n,) bool: which of them are not null.

    Arrow's own to_numpy imports pandas, which takes longer than reading the file.
    """
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    n, start = len(array), array.offset
    if n == 0:
        return np.zeros(0, array.type.to_pandas_dtype()), np.zeros(0, bool)
    bits, values = array.buffers()
    raw = np.frombuffer(values, array.type.to_pandas_dtype(), count=start + n)[start:]
    if array.null_count == 0 or bits is None:
        return raw, np.ones(n, bool)
    return raw, np.unpackbits(np.frombuffer(bits, np.uint8), count=start + n, bitorder="little")[start:].astype(bool)


# ---- ids are unique: the one check of it, for ids in memory and for those that pass by in batches ----

ADVICE = "Fix them, in pandas with reset_index(); score keeps both rows with --allow-duplicates (allow_duplicates=True)."


class SeenIds:
    """Finds repeated ids with eight bytes per id: if hashes are equal, the ids themselves are compared before one is reported."""

    def __init__(self) -> None:
        self.hashes: list[np.ndarray] = []

    def add(self, ids: Any) -> None:
        """Add the ids of the next rows."""
        values = ids.tolist()
        self.hashes.append(np.fromiter(map(hash, values), np.int64, len(values)))

    def refuse_repeated(self, read: Callable[[], np.ndarray], where: str, first_row: int = 0, advice: str = ADVICE) -> None:
        """Raise an InputError that names a repeated id and its rows; `read` gives all ids again, if some hashes are equal."""
        hashes = np.concatenate(self.hashes) if self.hashes else np.empty(0, np.int64)
        ordered = np.sort(hashes)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if not len(twice):
            return
        suspects = np.flatnonzero(np.isin(hashes, twice))
        first_seen: dict[Any, int] = {}
        pairs = zip(suspects.tolist(), read()[suspects].tolist(), strict=True)
        repeated = [(row, id) for row, id in pairs if first_seen.setdefault(id, row) != row]
        if repeated:
            row, id = repeated[0]
            raise InputError(
                f"{where}: ids must be unique, but {len(repeated)} are repeated; row {first_row + row} repeats {id!r:.80} of row "
                f"{first_row + first_seen[id]}. {advice}"
            )


def id_array(column: Any) -> np.ndarray:
    """(n,) ids of an Arrow column: int64, or strings as objects (without pandas, which Arrow would load to make them)."""
    import pyarrow as pa

    if pa.types.is_signed_integer(column.type):
        return arrow_numbers(column)[0].astype(np.int64)
    return np.array([*column.to_pylist(), None], dtype=object)[:-1]


def check_unique(ids: Any, where: str, advice: str = ADVICE) -> None:
    """Refuse (n,) ids of which one appears twice, naming it and its rows."""
    ids = ids if isinstance(ids, np.ndarray) else id_array(ids)
    seen = SeenIds()
    seen.add(ids)
    seen.refuse_repeated(lambda: ids, where, advice=advice)

"""Arrow list columns as matrices: one list of numbers per sample, as Parquet, pandas and Polars keep features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError


def is_list_column(x: Any) -> bool:
    """Whether x is an Arrow array, or chunks of one, with a list or a tensor of fixed shape in each row."""
    return isinstance(x, (pa.Array, pa.ChunkedArray)) and _is_list(getattr(x.type, "storage_type", x.type))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def list_matrix(column: Any, name: str, width: int | None = None, first_row: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """A list column as (n, width); null rows become NaN and are marked in (n,), and nothing after them moves.

    Without a width, the first list that is there decides. `name` and `first_row` are for messages.
    """
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
    flat = column.flatten()  # skips null rows, and heeds the offset of a slice
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

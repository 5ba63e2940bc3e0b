"""A column as the page gets it: numbers as float32, words as codes with a list of names, angles in degrees.

The browser reads the bytes as a typed array, so a million rows need one copy and no parsing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import arrow_numbers
from hardsight.scores import SCORES

MOST_NAMES = 1000  # different words of a column of groups; more are names of samples


@dataclass(frozen=True)
class Column:
    """One column of the page. `values` is float32, or codes into `names`, in which the highest value of the type means none."""

    name: str
    values: np.ndarray
    names: list[str] | None = None
    hard: str = "high"  # the end that is hard, where the column is a score
    about: str = ""
    unit: str = ""  # "degrees", what a share is of, or nothing

    @cached_property
    def ends(self) -> tuple[float, float] | tuple[None, None]:
        """The lowest and the highest number; None for words, and where no value is finite."""
        finite = self.values[np.isfinite(self.values)] if self.names is None else ()
        return (float(np.min(finite)), float(np.max(finite))) if len(finite) else (None, None)

    def described(self) -> dict[str, Any]:
        """Everything but the values, for JSON."""
        about = {"name": self.name, "names": self.names, "hard": self.hard, "about": self.about, "unit": self.unit}
        return about | {"kind": self.values.dtype.name, "low": self.ends[0], "high": self.ends[1]}

    def bytes(self) -> bytes:
        """The values as the browser's typed array has them: little-endian."""
        return self.values.astype(self.values.dtype.newbyteorder("<"), copy=False).tobytes()

    def value(self, row: int) -> Any:
        """One number or word, None for none."""
        value = self.values[row]
        if self.names is None:
            return float(value) if np.isfinite(value) else None
        return self.names[value] if value < len(self.names) else None

    def floats(self) -> np.ndarray:
        """Numbers as they are, codes as float32 with NaN for none."""
        if self.names is None:
            return self.values
        return np.where(self.values == none_code(self.values.dtype), np.nan, self.values).astype(np.float32)


def none_code(kind: np.dtype[Any]) -> int:
    """The code that stands for no value."""
    return int(np.iinfo(kind).max)


def numbers(name: str, values: Any, about: str = "", hard: str = "high", unit: str = "") -> Column:
    """Any numbers as a column; null and infinite become NaN. A score says itself what it is, and which end is hard."""
    array = np.asarray(values, dtype=np.float32)
    if not np.isfinite(array).all():
        array = np.where(np.isfinite(array), array, np.float32(np.nan))
    if name in SCORES:
        about, hard = f"{SCORES[name].summary} Formula: {SCORES[name].formula}", SCORES[name].hard
    return Column(name, array, None, hard, about, unit)


def is_angle(name: str) -> bool:
    """Whether a column of that name holds radians: a score with pi in its range, also of a second run, or the change of one.

    Example:
        >>> is_angle("own_angle"), is_angle("own_angle change"), is_angle("own_angle rank change"), is_angle("norm")
        (True, True, False, False)
    """
    score = SCORES.get(re.sub(r" \(2\)$| change$", "", name))
    return score is not None and "pi" in score.range


def on_screen(column: Column) -> Column:
    """The column as the page shows it: angles in degrees. Files hold radians."""
    if column.names is not None or not is_angle(column.name):
        return column
    about = column.about.replace("in radians", "in degrees")
    return Column(column.name, np.degrees(column.values), hard=column.hard, about=about, unit="degrees")


def signed(column: Column) -> np.ndarray:
    """(n,) codes with -1 for none."""
    values = column.values.astype(np.int64)
    return np.where(values == none_code(column.values.dtype), -1, values)


def integers(column: Any) -> np.ndarray:
    """(n,) an Arrow column of integers or booleans, -1 for null."""
    values, there = arrow_numbers(column.cast(pa.int64()))
    return np.where(there, values, -1)


def floats(column: Any) -> np.ndarray:
    """(n,) an Arrow column of numbers as float64, NaN for null."""
    values, there = arrow_numbers(column.cast(pa.float64(), safe=False))
    return np.where(there, values, np.nan)


def rows_of(ids: Any, among: pa.Array) -> np.ndarray:
    """(m,) the row of each id in an Arrow array of ids, -1 for one that is not there."""
    return integers(pc.index_in(ids, value_set=among))


def words(column: Column) -> pa.Array:
    """(n,) the words that codes stand for, null for none."""
    assert column.names is not None
    indices = pa.array(column.values.astype(np.int64), mask=column.values >= len(column.names))
    return pa.DictionaryArray.from_arrays(indices, pa.array(column.names, pa.string())).cast(pa.string())


def codes(name: str, values: np.ndarray, names: list[str], about: str = "") -> Column:
    """Codes, -1 for none, in the narrowest type that holds them."""
    kind = next(kind for kind in (np.uint8, np.uint16, np.uint32) if len(names) < np.iinfo(kind).max)
    return Column(name, np.where(values < 0, np.iinfo(kind).max, values).astype(kind), names, about=about)


def from_arrow(name: str, column: Any) -> Column | None:
    """An Arrow column, or None if the page cannot show it: lists, only nulls, too many words."""
    kind = column.type
    if column.null_count == len(column):
        return None
    if pa.types.is_boolean(kind):
        return codes(name, integers(column), ["false", "true"])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return numbers(name, floats(column))
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    if len(pc.unique(column[:50_000])) > MOST_NAMES:  # paths and the like: the first rows tell
        return None
    texts = pc.unique(column).drop_null().sort()
    return None if len(texts) > MOST_NAMES else codes(name, rows_of(column, texts), texts.to_pylist())

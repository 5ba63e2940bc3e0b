"""Wide tables, with one column per dimension, such as data frames and CSV files, split into features, labels and ids.

The input is a frame of any library that narwhals knows (pandas, polars, modin, dask, duckdb, ...), an Arrow table, a Hugging Face
dataset, or anything else that provides an Arrow stream of columns. A column of lists, named features, logits, probs or as
requested, is used unchanged.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from hardsight.checks import is_list_column
from hardsight.errors import InputError, did_you_mean
from hardsight.files.class_names import as_text, class_label_names, holds_names
from hardsight.files.kinds import LIST_COLUMNS
from hardsight.files.samples import evidence_of
from hardsight.files.table_files import check_once
from hardsight.pandas_index import column_names
from hardsight.screen import first_few, warn

SERIES = 8  # columns that are numbered alike, as few as make a series
OUTWEIGHS = 100  # times the median spread of the columns: such a column decides distances alone
OWN = ("id", "label", "split", "path", "", "Unnamed: 0")  # features only if requested; the last two: a pandas index in a CSV


@dataclass(frozen=True)
class Parts:
    """The n samples of a table."""

    evidence: str  # features, logits or probs
    values: Any  # (n, d) numbers, a pandas frame, or an Arrow column of lists
    labels: Any = None
    ids: Any = None
    columns: dict[str, Any] = field(default_factory=dict)  # all other columns
    class_names: list[str] | None = None  # for numeric labels, if the schema has them
    names: Sequence[str] = ()  # of the feature columns
    note: str | None = None  # which they are, in words


def is_table(x: Any) -> bool:
    """Whether x has named columns: a frame of any library, an Arrow table or a Hugging Face dataset."""
    if isinstance(x, (np.ndarray, pa.Array, pa.ChunkedArray, type)):
        return False
    if is_pandas(x) or isinstance(x, (pa.Table, pa.RecordBatch)) or is_dataset(x):
        return True
    stream = hasattr(x, "__arrow_c_stream__") and hasattr(x, "columns")
    return stream or isinstance(nw.from_native(x, pass_through=True), (nw.DataFrame, nw.LazyFrame))


def is_pandas(x: Any) -> bool:
    """Whether x is a pandas frame, without importing pandas."""
    return bool(nw.dependencies.is_pandas_dataframe(x))


def is_dataset(x: Any) -> bool:
    """Whether x is a Hugging Face `Dataset`, or a `DatasetDict` of several."""
    return type(x).__module__.partition(".")[0] == "datasets" and hasattr(x, "column_names")


def check_dataset(dataset: Any) -> None:
    """Refuse several splits, and rows that come only once."""
    if isinstance(dataset, dict):
        raise InputError(f"a DatasetDict holds several splits: give one of them, such as data[{next(iter(dataset), 'train')!r}].")
    if not hasattr(dataset, "__len__"):
        raise InputError("a streamed dataset has no rows to come back to: load it without streaming=True.")


def names_columns(table: Any, features: Any, labels: Any, ids: Any) -> bool:
    """Whether a column is requested by name, or the table has columns with our names: `label`, where no labels are given."""
    ours = {*(() if is_pandas(table) else LIST_COLUMNS), *(("label",) if labels is None else ())}
    asked = features is not None or isinstance(labels, str) or isinstance(ids, str)
    return asked or not ours.isdisjoint(column_names(table) or ())


def take_apart(table: Any, features: Any = None, labels: Any = None, ids: Any = None) -> Parts:
    """The features, labels, ids and other columns of a table.

    Args:
        table: a pandas or polars frame, an Arrow table, or anything else that `is_table` accepts.
        features: comma-separated column names or patterns such as "f*", used in the order of the table; or a list of names,
            used in its own order. Default: a column of lists named features, logits or probs; otherwise every numeric column
            except labels and ids; of those, only a numbered series (f0, f1, ...) that most of them belong to.
        labels: a column name, or (n,) labels from outside the table. Default: the column `label`, if there is one.
        ids: a column name, or (n,) ids from outside the table. Default: the column `id`, if there is one.
    """
    held = as_frame(table)
    names = held.columns
    label, id = _named(names, labels, "label", "labels"), _named(names, ids, "id", "ids")
    chosen = _usual_features(held, {label, id}) if features is None else _requested_features(held, features, {label, id})
    values, evidence = _values(held, chosen)
    taken = (*chosen, label, id, "label", "id", *LIST_COLUMNS)
    further = {name: _column(held, name) for name in names if name not in taken}
    return Parts(
        evidence,
        values,
        _column(held, label) if label is not None else labels,
        _column(held, id) if id is not None else ids,
        {name: column for name, column in further.items() if _is_flat(column) and not set(name) & set("/\\")},
        None if is_pandas(table) or label is None else class_label_names(held.to_native().schema, label),
        chosen,
        _described(chosen, [name for name in further if name not in OWN and _holds_numbers(held, name)]),
    )


def check_columns(table: Any) -> list[str]:
    """The names of a table's columns, all of them features: refused if one does not hold numbers."""
    held = as_frame(table)
    names = held.columns
    _refuse_words(held, names, "all columns of this table are features", "say which are what: labels='y', features='f*'")
    return names


def warn_of_scales(values: Any, names: Sequence[str]) -> None:
    """Warn of columns that outweigh all others by their scale: distances, and heads that are fitted, go by it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column without numbers
        spread = np.nanstd(np.asarray(values, dtype=np.float64), axis=0)  # (d,)
    if len(spread) < 3 or len(names) != len(spread):
        return
    large = [name for name, one in zip(names, spread.tolist(), strict=True) if one > OUTWEIGHS * np.median(spread) > 0]
    if not large:
        return
    verb = "has" if len(large) == 1 else "have"
    warn(
        f"the feature column{'s' * (len(large) > 1)} {first_few(large, 3)} {verb} more than {OUTWEIGHS} times the spread of the "
        "others and will outweigh them: leave out what is no feature (features=, --features 'f*'), or scale the columns alike."
    )


def _described(chosen: Sequence[str], left_out: Sequence[str]) -> str:
    """Which columns are the features, and which numbers are not."""
    shown = ", ".join(chosen) if len(chosen) < 5 else f"{chosen[0]}, {chosen[1]}, ..., {chosen[-1]}"
    said = f"features: {shown} ({len(chosen):,} column{'s' * (len(chosen) != 1)})"
    return f"{said}; numbers that are not used: {first_few(left_out)}" if left_out else said


def as_frame(table: Any) -> nw.DataFrame[Any]:
    """Any table as a frame: of pandas as it is, with its index, of all others as Arrow."""
    held = table.set_axis([str(name) for name in table.columns], axis=1) if is_pandas(table) else as_arrow(table)
    check_once("the table", column_names(held) or [])
    return nw.from_native(held, eager_only=True)


def as_arrow(table: Any) -> pa.Table:
    """Any table except a pandas frame as an Arrow table; a Hugging Face dataset keeps its row order."""
    if is_dataset(table):
        check_dataset(table)
        schema = table.features.arrow_schema
        return table.with_format("arrow")[:].replace_schema_metadata(schema.metadata)
    frame = None if isinstance(table, (pa.Table, pa.RecordBatch)) else nw.from_native(table, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        return frame.collect("pyarrow").to_native()
    held = frame.to_arrow() if isinstance(frame, nw.DataFrame) else pa.table(table)
    return held.cast(pa.schema([_plain_text(field) for field in held.schema], held.schema.metadata))


def _plain_text(field: pa.Field) -> pa.Field:
    """The field with the standard text type: polars uses others, which few tools support."""
    return field.with_type(pa.string()) if field.type in (pa.string_view(), pa.large_string()) else field


def _named(names: Sequence[str], asked: Any, usual: str, what: str) -> str | None:
    """The column that holds the labels or ids: the requested one, or the default one; None if they are outside the table."""
    if asked is None:
        return usual if usual in names else None
    if not isinstance(asked, str):
        return None
    if asked not in names:
        raise InputError(f"{what} must be a column of the table, but there is no {asked!r}: {_there(names, asked)}")
    return asked


def _usual_features(table: nw.DataFrame[Any], taken: set[str | None]) -> list[str]:
    """The column of lists; else every numeric column, or the numbered series that most of them belong to."""
    names = table.columns
    lists = [name for name in LIST_COLUMNS if name in names]
    if lists:
        return lists[:1]
    free = [name for name in names if name not in taken and name not in OWN]
    numeric = [name for name in free if _holds_numbers(table, name)]
    if not numeric:
        raise InputError(f"no column of the table holds numbers for features: {_there(names)}")
    series = _series(numeric)
    if len(series) >= SERIES:
        alike = [name for name in free if _numbered(name) == _numbered(series[0])]
        _refuse_words(table, alike, f"{series[0]}, {series[1]}, ... are the features", "mend it")
    return series


def _requested_features(table: nw.DataFrame[Any], asked: Any, taken: set[str | None]) -> list[str]:
    """The columns of these names or patterns: in the order of the table, or in that of a list."""
    names = table.columns
    patterns = [word.strip() for word in asked.split(",")] if isinstance(asked, str) else [str(word) for word in asked]
    picked: dict[str, None] = {}
    for pattern in patterns:
        matched = {name for name in names if name == pattern or (name not in taken and fnmatch.fnmatchcase(name, pattern))}
        if not matched:
            raise InputError(f"features {pattern!r} matches no column of the table: {_there(names, pattern)}")
        picked |= dict.fromkeys(sorted(matched, key=list(names).index))
    chosen = [name for name in names if name in picked] if isinstance(asked, str) else list(picked)
    _refuse_words(table, chosen, "features must be numeric columns", f"change {', '.join(patterns)}")
    return chosen


def _series(names: list[str]) -> list[str]:
    """Of numeric columns, the numbered series that most of them belong to, such as f0 to f1279 but not width; else all."""
    pattern, count = Counter(map(_numbered, names)).most_common(1)[0]
    if "#" not in pattern or count < SERIES or 2 * count <= len(names):
        return names
    return [name for name in names if _numbered(name) == pattern]


def _numbered(name: str) -> str:
    """What names of one numbered series have in common.

    Example:
        >>> _numbered("f12")
        'f#'
    """
    return re.sub("[0-9]+", "#", name)


def _values(table: nw.DataFrame[Any], chosen: Sequence[str]) -> tuple[Any, str]:
    """The columns as an (n, d) matrix; or the single column of lists, unchanged."""
    if len(chosen) == 1 and not _holds_numbers(table, chosen[0]):
        return _column(table, chosen[0]), evidence_of(chosen[0]) if chosen[0] in LIST_COLUMNS else "features"
    values = table.select(chosen)
    return values.to_native() if is_pandas(values.to_native()) else values.to_numpy(), "features"  # nulls become NaN


def _column(table: nw.DataFrame[Any], name: str) -> Any:
    column = table.get_column(name).to_native()
    if not isinstance(column, pa.ChunkedArray):
        return column
    column = column.combine_chunks()
    return as_text(column) if pa.types.is_dictionary(column.type) and holds_names(column.type) else column


def _holds_numbers(table: nw.DataFrame[Any], name: str) -> bool:
    kind = table.get_column(name).dtype
    return bool(kind.is_integer() or kind.is_float())


def _is_flat(column: Any) -> bool:
    return not is_list_column(column) and not (isinstance(column, pa.Array) and pa.types.is_nested(column.type))


def _there(names: Sequence[str], asked: str | None = None) -> str:
    """The available columns, and the one closest to the requested name."""
    more = f", ... ({len(names)} in all)" if len(names) > 20 else ""
    hint = "" if asked is None else did_you_mean(asked, names)
    if asked and sum(name.startswith(asked) for name in names) > 1:
        hint = f" Did you mean '{asked}*'?"
    if len(names) == 1 and ";" in names[0]:
        hint = " It is separated by semicolons: save it with commas."
    return f"it has {', '.join(names[:20])}{more}.{hint}"


def _refuse_words(table: nw.DataFrame[Any], names: Sequence[str], which: str, remedy: str) -> None:
    """Refuse features of which one does not hold numbers; a single column may be one of lists."""
    wrong = [name for name in names if not _holds_numbers(table, name)]
    if wrong and len(names) > 1:
        word = _first_word(table, wrong[0])
        convert = ", convert it with .astype(float)" if not word and table.get_column(wrong[0]).dtype == nw.Object else ""
        raise InputError(f"{which}, but {wrong[0]!r} is not numeric{word}: drop it{convert}, or {remedy}.")


def _first_word(table: nw.DataFrame[Any], name: str) -> str:
    """The first entry of a column that is not a number, with its row, if it is text."""
    for row, value in enumerate(table.get_column(name).to_list()):
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return f" (row {row} holds {value!r})"
    return ""

"""pandas objects are joined by their index, not by position: `align` does that.

Columns are joined by name, also those of polars frames and Arrow tables: a weight's to the features, and those of logits and
probabilities to the classes.

Anything without an index (arrays, tensors, lists, Arrow columns) goes by position. pandas is not imported here: whoever
passes a pandas object has already imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from hardsight.errors import InputError
from hardsight.labels import INTEGER, Classes, names_in, read_labels


def index_of(x: Any) -> Any:
    """The index of a pandas frame or series; None for anything else."""
    if not (nw.dependencies.is_pandas_dataframe(x) or nw.dependencies.is_pandas_series(x)):
        return None
    return x.index.to_flat_index()  # a MultiIndex becomes tuples


def is_default(index: Any) -> bool:
    """Whether an index is pandas' default 0, 1, 2, ..."""
    return isinstance(index, sys.modules["pandas"].RangeIndex) and (index.start, index.step) == (0, 1)


def index_ids(x: Any) -> np.ndarray | None:
    """(n,) the index of a pandas object as ids; None if it has none or only the default one.

    Integers and text are unchanged; dates, tuples and other values become text.
    """
    index = index_of(x)
    if index is None or is_default(index):
        return None
    values = index.tolist()
    if not all(isinstance(value, (int, str)) and not isinstance(value, bool) for value in values):
        values = [str(value) for value in values]
    return np.array([*values, None], dtype=object)[:-1]


def align(x: Any, name: str, to: Any, to_name: str, ids: Any = None) -> Any:
    """x with its rows in the order of `to`, joined by index; unchanged if either has no index.

    Args:
        x: anything with one row per sample: labels, ids, another column.
        name: its name in messages.
        to: the samples: features, logits or probabilities.
        to_name: their name in messages.
        ids: explicit ids of the samples; an index may match these instead.
    """
    own, index = index_of(x), index_of(to)
    if own is None or (index is None and ids is None):
        return x
    named = None if ids is None or is_default(own) else sys.modules["pandas"].Index(ids)
    for wanted in (index, named):
        if wanted is not None and own.equals(wanted):
            return x
        if wanted is not None and len(own) == len(wanted) and own.is_unique and wanted.is_unique and wanted.isin(own).all():
            return x.iloc[own.get_indexer(wanted)]
    if index is None or (is_default(own) and is_default(index)):  # a different length is rejected by the caller
        return x
    raise InputError(
        f"{name} and {to_name} are joined by their pandas index, and its values differ: {_apart(name, own, to_name, index)}; "
        f"{_apart(to_name, index, name, own)}. Give both the same index without repeats, or pass {name}.to_numpy() to go by "
        "position."
    )


def same_columns(x: Any, to: Any) -> Any:
    """A frame with its columns in the order of another's, if they have the same names; otherwise unchanged."""
    names, wanted = column_names(x), column_names(to)
    if names is None or wanted is None or names == wanted or sorted(names) != sorted(wanted) or len(set(names)) < len(names):
        return x
    return _columns_at(x, [names.index(name) for name in wanted])


def in_class_order(x: Any, class_names: Sequence[str] | None = None, axis: int = 1) -> Any:
    """A frame of one row or column per class in the order of the class names, if it names the same classes.

    Columns named by the class numbers 0 to c - 1 are put in order, too. As text they often sort differently: "0", "1", "10", "2".
    """
    names = _names_along(x, axis)
    if names is None:
        return x
    for wanted in (list(class_names or ()), [str(k) for k in range(len(names))] if axis == 1 else []):
        if names != wanted and sorted(names) == sorted(wanted):
            places = [names.index(name) for name in wanted]
            return _columns_at(x, places) if axis == 1 else x.iloc[places]
    return x


def classes_in(x: Any, axis: int, labels: Any) -> Classes:
    """The classes that the rows (axis 0) or columns (axis 1) of a frame name, if the labels mean these names.

    Names that are integers other than 0 to c - 1 are meant by integer labels. Names that no label has name something else.
    """
    names = class_names_in(x, axis)
    if names is None or labels is None:
        return Classes()
    classes = Classes(names, integers=all(INTEGER.fullmatch(name) for name in names))
    held = names_in(labels, classes)
    if held is not None:
        return classes if set(held) & set(names) else Classes()
    if not classes.integers:
        return Classes()
    meant = {str(number) for number in np.unique(read_labels(labels).numbers).tolist()} - {"-1"}
    return classes if axis == 1 or meant <= set(names) else Classes()  # the rows of a weight may just be some rows of another


def counted_by(labels: Any, x: Any, axis: int) -> Any:
    """Labels that name a frame's rows or columns, as their positions; other labels unchanged."""
    classes = classes_in(x, axis, labels)
    return labels if classes.names is None else read_labels(labels, classes).numbers


def class_names_in(x: Any, axis: int) -> list[str] | None:
    """The unique names of a frame's rows (axis 0) or columns (axis 1); None for anything else, and for default names."""
    names = _names_along(x, axis)
    if names is None or len(set(names)) < len(names) or names == [str(k) for k in range(len(names))]:
        return None
    return names


def _names_along(x: Any, axis: int) -> list[str] | None:
    if axis == 1:
        return column_names(x)
    return None if index_of(x) is None or x.ndim != 2 else [str(name) for name in x.index]


def column_names(x: Any) -> list[str] | None:
    """The columns of a frame of any library, an Arrow table or a Hugging Face dataset, as text; None for anything else."""
    names = getattr(x, "column_names", None)
    if names is None and hasattr(x, "shape"):
        names = getattr(x, "columns", None)
    return None if names is None else [str(name) for name in names]


def _columns_at(x: Any, places: list[int]) -> Any:
    return nw.from_native(x, eager_only=True)[:, places].to_native()


def _apart(name: str, values: Any, other: str, others: Any) -> str:
    """How many values of one index are missing from the other, with an example."""
    if not values.is_unique:
        return f"the index of {name} has {_shown(values[values.duplicated()])} more than once"
    alone = values[~values.isin(others)]
    if len(alone):
        return f"{len(alone)} of {len(values)} in {name} are not in {other}, such as {_shown(alone)}"
    return f"all {len(values)} in {name} are in {other}" + (f", such as {_shown(values)}" if len(values) else "")


def _shown(values: Any) -> str:
    return f"{values.tolist()[0]!r:.60}"

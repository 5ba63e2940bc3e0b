"""Named labels (text, booleans) as class numbers, in sorted order or in the order of known class names.

The input is a complete array, list, or pandas, Arrow or polars column: in a part of it, some names could be missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.checks import UNLABELED, as_array, check_labels, is_tensor, to_numpy
from hardsight.errors import InputError


def class_numbers(
    labels: Any, class_names: Sequence[str] | None = None, num_classes: int | None = None
) -> tuple[Any, list[str] | None]:
    """Labels as class numbers, and the class names. Numeric labels are returned unchanged.

    Null and "" are unlabeled. Text that is all whole numbers counts as numbers, unless these are the names of the classes.

    Args:
        labels: (n,) names or numbers.
        class_names: (c,) class names, if known, to match the labels to.
        num_classes: c, if a head, logits or probabilities define it. Without class names, there must be as many names.

    Example:
        >>> class_numbers(["dog", "cat", None, "dog"])
        (array([ 1,  0, -1,  1]), ['cat', 'dog'])
        >>> class_numbers(["dog", "cat"], ["dog", "bird", "cat"])
        (array([0, 2]), ['dog', 'bird', 'cat'])
    """
    known = None if class_names is None else list(class_names)
    values = _names(labels)
    if values is None:
        return labels, known
    held = sorted({value for value in values if value is not None})
    if _are_numbers(held) and not (known is not None and set(held) <= set(known)):
        return np.array([UNLABELED if value is None else int(value) for value in values], np.int64), known
    if set(held) <= {"False", "True"} and known is None:
        held = ["False", "True"]  # even if only one of them occurs
    numbers = number_of(held, known, num_classes)
    column = np.array([UNLABELED if value is None else numbers[value] for value in values], np.int64)
    return column, held if known is None else known


def whole_labels(labels: Any, num_samples: int, num_classes: int | None) -> np.ndarray:
    """(n,) validated int64 labels of all samples; names are numbered in sorted order."""
    return check_labels(class_numbers(labels, None, num_classes)[0], num_samples, num_classes)


def names_that_hold(labels: Any, names: Sequence[str] | None) -> list[str] | None:
    """These names as class names, if every label is one of them; None if not, or if labels are numbers."""
    held = {value for value in _names(labels) or () if value is not None}
    return list(names) if names is not None and held and held <= set(names) else None


def number_of(held: Sequence[str], class_names: Sequence[str] | None, num_classes: int | None) -> dict[str, int]:
    """The class number of each distinct (sorted) label name: from the class names, or else by sorted order."""
    if class_names is None:
        if num_classes is not None and len(held) != num_classes:
            raise InputError(
                f"labels are names, and the {num_classes} classes have none to join them to (the labels hold {len(held)}"
                f"{_such_as(held)}): give class names in the order of the classes, as class_names= or --class-names FILE."
            )
        return {name: number for number, name in enumerate(held)}
    unknown = [name for name in held if name not in set(class_names)]
    if unknown:
        raise InputError(
            f"{len(unknown)} of {len(held)} names among the labels are none of the classes{_such_as(unknown)}; "
            f"the classes are {', '.join(class_names[:20])}{', ...' if len(class_names) > 20 else ''}."
        )
    return {name: number for number, name in enumerate(class_names)}


def _such_as(names: Sequence[str]) -> str:
    return f", such as {names[0]!r:.60}" if names else ""


def _are_numbers(names: Sequence[str]) -> bool:
    return all(re.fullmatch(r"[+-]?[0-9]{1,18}", name.strip()) for name in names)


def _names(labels: Any) -> list[str | None] | None:
    """Labels as text, null as None; None if they are numbers, or an ambiguous mixture."""
    if labels is None or (is_tensor(labels) and str(labels.dtype) != "torch.bool"):
        return None
    column = to_numpy(labels) if is_tensor(labels) else _column(labels)
    if column is None or column.ndim != 1 or column.dtype.kind not in "bUSO":
        return None
    values = [None if _is_null(value) else value for value in column.tolist()]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return values
    if kinds <= {bool, np.bool_} or kinds <= {str, np.str_}:
        return [None if value is None else str(value) for value in values]
    if kinds <= {bytes, np.bytes_} and column.dtype.kind == "S":
        return [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
    return None


def _column(labels: Any) -> np.ndarray | None:
    """The labels as an array, without NumPy's conversion of mixed text and numbers."""
    if isinstance(labels, (list, tuple)):
        if not {str, np.str_, bool, np.bool_} & set(map(type, labels)):
            return None
        return np.array([*labels, None], dtype=object)[:-1]
    return as_array(labels, "labels")


def _is_null(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return not value
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)

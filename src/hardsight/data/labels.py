"""Class names and class indices: natural order, labels counted from 1, and the names of splits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.checks import UNLABELED, counted_from_one
from hardsight.errors import InputError

MAX_LABEL = 2**31 - 1

SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def renumbered(labels: np.ndarray, class_names: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Map (n,) labels, indices into `class_names`, to indices into `names`, which holds all of these; -1 stays.

    Example:
        >>> renumbered(np.array([0, 1, -1]), ["cat", "dog"], ["bird", "dog", "cat"])
        array([ 2,  1, -1])
    """
    unknown = [name for name in class_names if name not in names]
    if unknown:
        raise InputError(f"class {unknown[0]!r} is not one of {', '.join(names[:20])}.")
    number = np.array([*(list(names).index(name) for name in class_names), UNLABELED])
    return np.asarray(number[labels])


def split_name(text: str) -> str | None:
    """train, val or test for any of their usual spellings, else None.

    Example:
        >>> split_name("Validation"), split_name("photo")
        ('val', None)
    """
    return SPLITS.get(text.lower())


def natural_key(name: str) -> tuple[Any, ...]:
    """Sort key in which runs of digits compare as numbers: 2 before 10, n9 before n10. The rest compares as plain strings.

    Where digits come in runs of one length (0001, n01440764) this is the plain order.

    Example:
        >>> sorted(["10", "9", "b2", "b10", "B3", "b-1"], key=natural_key)
        ['9', '10', 'B3', 'b-1', 'b2', 'b10']
    """
    key: list[Any] = []
    for token in re.findall("[0-9]+|[^0-9]", name):
        digits = token.lstrip("0") if token[0] in "0123456789" else None
        key.append((token, 0, "") if digits is None else ("0", len(digits), digits))  # a number stands where a digit would
    return (*key, (name,))


def class_index(names: Sequence[str | None]) -> tuple[np.ndarray, list[str]]:
    """(n,) class indices and the class names, in natural order; None is unlabeled.

    Example:
        >>> class_index(["dog", "cat", None, "dog"])
        (array([ 1,  0, -1,  1]), ['cat', 'dog'])
    """
    class_names = sorted({name for name in names if name is not None}, key=natural_key)
    index: dict[str | None, int] = {name: k for k, name in enumerate(class_names)}
    return np.array([index.get(name, UNLABELED) for name in names], dtype=np.int64), class_names


def order_note(class_names: Sequence[str]) -> list[str]:
    """A note if natural order differs from the plain order that other loaders use."""
    if list(class_names) == sorted(class_names):
        return []
    return ["Classes are in natural order (2 before 10), which is not the plain string order of some other loaders."]


@dataclass(frozen=True)
class Labels:
    """Labels as read: indices, the class names if they were names, and what was decided."""

    index: np.ndarray
    class_names: list[str] | None = None
    notes: tuple[str, ...] = ()


def read_labels(values: Sequence[Any], where: Callable[[int], str]) -> Labels:
    """Class indices or class names as (n,) int64. Null and "" are unlabeled; indices counted from 1 become from 0.

    One value that is not a number makes all of them names. `where(row)` names a row in messages.

    Example:
        >>> read_labels(["1", "2", ""], str).index
        array([ 0,  1, -1])
        >>> read_labels(["wolf", "cat"], str).class_names
        ['cat', 'wolf']
    """
    numbers = [_number(value) for value in values]
    if any(isinstance(number, str) for number in numbers):
        unlabeled = (None, UNLABELED)
        named = [None if number in unlabeled else str(value) for value, number in zip(values, numbers, strict=True)]
        labels, class_names = class_index(named)
        return Labels(labels, class_names, tuple(order_note(class_names)))
    for row, number in enumerate(numbers):
        if isinstance(number, float) or (isinstance(number, int) and not UNLABELED <= number <= MAX_LABEL):
            raise InputError(
                f"{where(row)}: a label must be a class name, a whole number from 0, or -1 or nothing for unlabeled, "
                f"got {values[row]!r}."
            )
    whole = np.array([UNLABELED if number is None else number for number in numbers], dtype=np.int64)
    return from_zero(whole)


def _number(value: Any) -> int | float | str | None:
    """None for null, int for a whole number, float for another number, str for anything else."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(value)  # true and false are names
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None
        if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]*)?", text):
            return text
        value = float(text) if "." in text else (int(text) if len(text) < 20 else float(text))
    number = float(value)
    if np.isnan(number):
        return None
    return int(value) if number.is_integer() else number


def from_zero(labels: np.ndarray) -> Labels:
    """The same labels counted from 0. They are taken as counted from 1 where the smallest is exactly 1."""
    if not counted_from_one(labels):
        return Labels(labels)
    return Labels(
        np.where(labels > 0, labels - 1, labels),
        notes=("Labels start at 1, none is 0: read as counted from 1, so 1 was subtracted.",),
    )


def names_by_label(labels: np.ndarray, words: Sequence[str | None]) -> list[str] | None:
    """Class names from one word per sample, if words and labels match one to one and no label is skipped; else None.

    Example:
        >>> names_by_label(np.array([1, 0, 1]), ["dog", "cat", "dog"])
        ['cat', 'dog']
    """
    pairs = {(int(label), word) for label, word in zip(labels.tolist(), words, strict=True) if label >= 0}
    names = dict(pairs)
    one_to_one = len(pairs) == len(names) == len(set(names.values())) and None not in names.values()
    if not pairs or not one_to_one or sorted(names) != list(range(len(names))):
        return None
    return [str(names[k]) for k in range(len(names))]

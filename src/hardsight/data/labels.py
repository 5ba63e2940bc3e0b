"""Labels of images: those of data files and of folders, and the names of splits. `hardsight.labels` has the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardsight import labels
from hardsight.checks import UNLABELED, LabelError, counted_from_one
from hardsight.errors import InputError
from hardsight.labels import Classes, Labels, natural_key

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


def split_name(text: str) -> str | None:
    """train, val or test for any of their usual spellings, else None.

    Example:
        >>> split_name("Validation"), split_name("photo")
        ('val', None)
    """
    return SPLITS.get(text.lower())


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


def read_labels(
    values: Any, where: Callable[[int], str], counted: Sequence[str] | None = None, class_names: Sequence[str] | None = None
) -> Labels:
    """The labels of a data file. `where(row)` names a row in messages; `counted` are the names that its schema counts.

    Example:
        >>> read_labels(labels.Written(["1", "2", ""]), str).numbers
        array([ 1,  2, -1])
        >>> read_labels(["wolf", "cat"], str).class_names
        ['cat', 'wolf']
    """
    try:
        read = labels.read_labels(values, Classes(class_names), counted)
    except LabelError as error:
        raise InputError(f"{where(error.row)}: {error}") from error
    hint = "" if read.class_names is not None else counted_from_one(read.numbers).strip()
    ordered = order_note(read.class_names or ()) if class_names is None else []  # given names are in their own order
    return replace(read, notes=(*read.notes, *ordered, *([hint] if hint else [])))


def names_by_label(numbers: np.ndarray, words: Sequence[str | None]) -> list[str] | None:
    """Class names from one word per sample, if words and labels match one to one and no label is skipped from 0 or 1 on.

    Example:
        >>> names_by_label(np.array([1, 0, 1]), ["dog", "cat", "dog"])
        ['cat', 'dog']
    """
    pairs = {(label, word) for label, word in zip(numbers.tolist(), words, strict=True) if label >= 0}
    names = dict(pairs)
    one_to_one = len(pairs) == len(names) == len(set(names.values())) and None not in names.values()
    first = min(names, default=2)
    if not one_to_one or first > 1 or sorted(names) != list(range(first, first + len(names))):
        return None
    return [str(names[label]) for label in sorted(names)]


def named(read: Labels, names: Sequence[str] | None) -> Labels:
    """Number labels under these class names, which say how many classes there are; unchanged if they do not fit."""
    if names is None or read.class_names is not None:
        return read
    try:
        under = labels.read_labels(read.numbers, Classes(names))
    except LabelError:
        return read
    hint = counted_from_one(read.numbers).strip()
    return replace(under, notes=(*(note for note in read.notes if note != hint), *under.notes))

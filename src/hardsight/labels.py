"""What labels mean: one rule for arrays, frames, tables, files, folders and lists.

    text, True and False     the name of a class
    a whole number           the number of a class; but where integers other than 0 to c - 1 name the classes (the columns of a
                             frame of probabilities, `classes_` of a classifier), the class of that name
    digits without a type    (CSV, lists of images) a number, unless class names are known and contain every such value
    null, NaN, "", "NA", -1  unlabeled
    1 to c for c classes     counted from 1: 1 is subtracted, and a note says so

Names without a known order are numbered in natural order, 2 before 10. A `LabelRule` is made from all labels of a column and
then applied to any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardsight.checks import UNLABELED, LabelError, as_array, check_labels, is_null, is_tensor, to_numpy
from hardsight.errors import InputError
from hardsight.screen import warn

MISSING = frozenset(("", "#N/A", "N/A", "NA", "<NA>", "NaN", "nan", "NaT", "None", "null"))  # what other tools write for null
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")  # as integers are usually written
FLAGS = ("False", "True")


class Written(list[Any]):
    """Labels as they are written in a file without types: digits may be numbers or names."""


@dataclass(frozen=True)
class Classes:
    """What is known of the classes before the labels are read."""

    names: Sequence[str] | None = None  # (c,) in the order of the classes
    count: int | None = None  # c, where a head, logits or probabilities define it
    integers: bool = False  # whether integer labels mean the names

    @property
    def number(self) -> int | None:
        """How many classes there are, if that is known."""
        return self.count if self.names is None else len(self.names)

    def under(self, counted: Sequence[str] | None) -> Classes:
        """The same classes under the names that the labels come with, if they have no names and are as many."""
        fits = counted is not None and self.names is None and self.count in (None, len(counted))
        return replace(self, names=counted) if fits else self


@dataclass(frozen=True)
class Labels:
    """The labels of n samples."""

    numbers: np.ndarray  # (n,) int64, -1 unlabeled
    class_names: list[str] | None = None
    notes: tuple[str, ...] = ()
    changed: bool = False  # whether they were given as anything but these numbers


@dataclass(frozen=True)
class LabelRule:
    """How the labels of one column become class numbers."""

    position: dict[str, int] | None = None  # class number of each name; None where labels are numbers
    first: int = 0  # the label of class 0
    renumbered: np.ndarray | None = None  # (k + 1,) class numbers of the labels 0 to k - 1, and of -1
    class_names: list[str] | None = None
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether class numbers differ from the labels."""
        return self.position is not None or self.first != 0 or self.renumbered is not None

    def then(self, numbers: np.ndarray, names: list[str]) -> LabelRule:
        """The same rule for classes in another order: class k is `numbers[k]`, and the last entry is -1."""
        position = None if self.position is None else {name: int(numbers[k]) for name, k in self.position.items()}
        renumbered = numbers if self.renumbered is None else numbers[self.renumbered]
        return replace(self, position=position, renumbered=renumbered, class_names=names)

    def of_names(self, names: Sequence[str | None]) -> np.ndarray:
        """(n,) class numbers of names; None is unlabeled."""
        assert self.position is not None
        return np.array([UNLABELED if name is None else self.position[name] for name in names], np.int64)

    def of_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """(n,) class numbers of whole numbers; -1, and a number that no class has, stay as they are."""
        numbers = numbers if self.first == 0 else np.where(numbers > 0, numbers - self.first, numbers)
        if self.renumbered is None:
            return numbers
        outside = (numbers < UNLABELED) | (numbers >= len(self.renumbered) - 1)
        return np.where(outside, numbers, self.renumbered[np.where(outside, UNLABELED, numbers)])


class UnknownName(InputError):
    """A label that no class has."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def read_labels(labels: Any, classes: Classes = Classes(), counted: Sequence[str] | None = None) -> Labels:
    """All labels of a column as class numbers.

    Args:
        labels: (n,) names or numbers: an array, a list, a column of a table, or `Written`.
        classes: what a head, logits, probabilities or the user say of the classes.
        counted: the names that label numbers count, where the labels come with some.

    Example:
        >>> read_labels(["dog", "cat", None, "dog"]).numbers
        array([ 1,  0, -1,  1])
        >>> read_labels(["cat"], Classes(["dog", "cat"])).numbers, read_labels(Written(["10", "NA"])).numbers
        (array([1]), array([10, -1]))
        >>> read_labels([1, 2, 3], Classes(count=3)).notes
        ('Labels are 1 to 3 for 3 classes: 1 was subtracted.',)
    """
    named = classes.under(counted)
    names = names_in(labels, named)
    if names is None:
        numbers = check_labels(_as_numbers(labels) if isinstance(labels, Written) else labels, None, None)
        if not classes.integers:
            rule = rule_for_numbers(numbers, classes, counted)
            numbers = _below(rule.of_numbers(numbers), rule.class_names, classes.count)
            return Labels(numbers, rule.class_names, rule.notes + _note_of(labels, numbers), rule.changes)
        names = _as_names(numbers, classes)
    try:
        rule = rule_for_names({name for name in names if name is not None}, named)
    except UnknownName as error:
        row = names.index(error.name)
        raise LabelError(f"{error} The first is in row {row}.", row) from error
    numbers = rule.of_names(names)
    return Labels(numbers, rule.class_names, rule.notes + _note_of(labels, numbers), changed=True)


def _as_names(numbers: np.ndarray, classes: Classes) -> list[str | None]:
    """Integers that name classes; -1 is unlabeled unless a class is called so."""
    unlabeled = None if str(UNLABELED) in (classes.names or ()) else UNLABELED
    return [None if number == unlabeled else str(number) for number in numbers.tolist()]


def _below(numbers: np.ndarray, names: Sequence[str] | None, count: int | None) -> np.ndarray:
    """Class numbers, after checking that each is one of the classes, where these are known."""
    largest = int(numbers.max(initial=UNLABELED))
    if count is None and names is not None and largest >= len(names):
        row = int(numbers.argmax())
        raise LabelError(
            f"there must be one class name per class, got {len(names)} for {largest + 1} classes: row {row} has {largest}.",
            row,
        )
    return check_labels(numbers, None, count)


def rule_for_numbers(numbers: np.ndarray, classes: Classes, counted: Sequence[str] | None = None) -> LabelRule:
    """The rule for labels that are these whole numbers; `counted` are the names they count, if there are some."""
    if counted is not None:
        names = classes.under(counted).names
        mapping = None if classes.names is None else numbers_among(counted, classes.names)
        return LabelRule(renumbered=mapping, class_names=None if names is None else list(names))
    labeled, c = numbers[numbers != UNLABELED], classes.number
    first = int(len(labeled) > 0 and labeled.max() == c and labeled.min() >= 1)
    notes = (f"Labels are {labeled.min()} to {c} for {c} classes: 1 was subtracted.",) if first else ()
    return LabelRule(first=first, class_names=None if classes.names is None else list(classes.names), notes=notes)


def rule_for_names(held: set[str], classes: Classes) -> LabelRule:
    """The rule for labels that are these names: by the names of the classes, or else in natural order."""
    if classes.names is not None:
        names = list(classes.names)
        unknown = sorted(held - set(names), key=natural_key)
        if unknown:
            raise UnknownName(
                f"{len(unknown)} of {len(held)} names among the labels are none of the classes{_such_as(unknown)}; "
                f"the classes are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}.",
                unknown[0],
            )
        return LabelRule({name: number for number, name in enumerate(names)}, class_names=names)
    if not held:
        return LabelRule({})
    names = sorted(FLAGS if held <= set(FLAGS) else held, key=natural_key)
    notes: tuple[str, ...] = ()
    if classes.count is not None:
        if len(names) != classes.count:
            raise InputError(
                f"labels are names, and the {classes.count} classes have none to join them to (the labels hold {len(names)}"
                f"{_such_as(names)}): give class names in the order of the classes, as class_names= or --class-names FILE."
            )
        if names != sorted(names):
            notes = ("Class names are taken in plain order (10 before 2), as scikit-learn has them: give class_names if not.",)
        names = sorted(names)  # the order in which nearly every other tool numbers them
    return LabelRule({name: number for number, name in enumerate(names)}, class_names=names, notes=notes)


def numbers_among(own: Sequence[str], names: Sequence[str]) -> np.ndarray | None:
    """(k + 1,) numbers of k names, and of -1, among others; None if both lists count the same classes.

    Lists of the same length may have other words for the same classes, but what they share must stand at the same place.

    Example:
        >>> numbers_among(["cat", "dog"], ["bird", "dog", "cat"]), numbers_among(["cat", "auto"], ["cat", "car"])
        (array([ 2,  1, -1]), None)
    """
    own, names = list(own), list(names)
    if own != names and set(own) <= set(names):
        return np.array([*(names.index(name) for name in own), UNLABELED])
    check_agree(own, names, "the labels", "the classes")
    return None


def check_agree(own: Sequence[str], names: Sequence[str], what: str, others: str) -> None:
    """Refuse two lists of names for the same classes if a name stands at different places, or one list is longer."""
    own, names = list(own), list(names)
    apart = [name for name in own if name in names and names.index(name) != own.index(name)]
    if len(own) != len(names):
        apart = [name for name in (*own, *names) if name not in own or name not in names]
    if apart:
        name = apart[0]
        places = [f"class {held.index(name)} of {len(held)}" if name in held else "none" for held in (own, names)]
        raise InputError(
            f"the class names of {what} and of {others} must agree, but {name!r} is {places[0]} of {what} and {places[1]} of "
            f"{others}."
        )


def check_names(names: Iterable[str]) -> list[str]:
    """A list of class names, no two alike."""
    listed = list(names)
    first: dict[str, int] = {}
    for number, name in enumerate(listed):
        if first.setdefault(name, number) != number:
            raise InputError(f"class names must differ, but {name!r} is the name of class {first[name]} and of class {number}.")
    return listed


def distinct_names(names: Sequence[str]) -> list[str]:
    """Class names as a model has them, with their number where two are alike: ImageNet has two classes called crane.

    Example:
        >>> distinct_names(["crane", "heron", "crane"])
        ['crane (0)', 'heron', 'crane (2)']
    """
    names = list(names)
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names)]


def whole_labels(labels: Any, num_samples: int, num_classes: int | None, classes: Classes | None = None) -> np.ndarray:
    """(n,) validated int64 labels of all samples, with a warning of what was changed."""
    read = read_labels(labels, classes or Classes(count=num_classes))
    for note in read.notes:
        warn(note)
    return check_labels(read.numbers, num_samples, num_classes)


def class_numbers(labels: Any, class_names: Sequence[str] | None = None) -> tuple[np.ndarray, list[str] | None]:
    """(n,) class numbers of labels, and the class names.

    Example:
        >>> class_numbers(["dog", "cat"], ["dog", "bird", "cat"])
        (array([0, 2]), ['dog', 'bird', 'cat'])
    """
    read = read_labels(labels, Classes(class_names))
    return read.numbers, read.class_names


def counted_from_zero(labels: np.ndarray, num_classes: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) class numbers of the labels 1 to c for c classes, with a note; other labels as they are."""
    rule = rule_for_numbers(labels, Classes(count=num_classes))
    return rule.of_numbers(labels), rule.notes


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


def names_in(labels: Any, classes: Classes = Classes()) -> list[str | None] | None:
    """(n,) labels as names, None where they are missing; None if they are numbers, or an ambiguous mixture."""
    known = frozenset(classes.names or ())
    if isinstance(labels, Written):
        return _written_names(labels, known)
    texts = _texts(labels)
    return None if texts is None else [None if text is None or is_missing(text, known) else text for text in texts]


def _written_names(labels: Written, known: frozenset[str]) -> list[str | None] | None:
    """The same of labels without types: None if all are digits and these are not the names of classes."""
    unlabeled = known.isdisjoint([str(UNLABELED)])
    texts = [None if is_null(cell) else str(cell) for cell in labels]
    names = [None if text is None or is_missing(text, known) or (text == "-1" and unlabeled) else text for text in texts]
    held = {name for name in names if name is not None}
    numbers = all(NUMBER.fullmatch(name.strip()) for name in held) and known.isdisjoint(held)
    return None if numbers else names


def is_missing(text: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether a label is a way to write that there is none, unless a class has this name."""
    return text.strip() in MISSING and text not in known


def missing_note(words: Iterable[str], missing: int, n: int) -> tuple[str, ...]:
    """How many labels are missing in any spelling, if some are words for it: nulls and empty cells alone need no note."""
    word = next((word for word in words if word.strip() not in ("", str(UNLABELED))), None)
    return () if word is None else (f"{missing} of {n} labels are missing, such as {word!r}: unlabeled.",)


def _note_of(labels: Any, numbers: np.ndarray) -> tuple[str, ...]:
    texts = labels if isinstance(labels, Written) else _texts(labels) or ()
    missing = numbers == UNLABELED
    words = (text for text, gap in zip(texts, missing.tolist(), strict=False) if gap and isinstance(text, str))
    return missing_note(words, int(missing.sum()), len(missing))


def _as_numbers(cells: Written) -> list[int | float | None]:
    """Digits as the numbers they write; the check of labels refuses fractions."""
    texts = [None if is_null(cell) or is_missing(str(cell)) else str(cell).strip() for cell in cells]
    return [None if text is None else int(text) if text.lstrip("+-").isdecimal() else float(text) for text in texts]


def _such_as(names: Sequence[str]) -> str:
    return f", such as {names[0]!r:.60}" if names else ""


def _texts(labels: Any) -> list[str | None] | None:
    """Typed labels as text, null as None; None if they are numbers, or an ambiguous mixture."""
    if labels is None or (is_tensor(labels) and str(labels.dtype) != "torch.bool"):
        return None
    column = to_numpy(labels) if is_tensor(labels) else _column(labels)
    if column is None or column.ndim != 1 or column.dtype.kind not in "bUSO":
        return None
    values = [None if is_null(value) else value for value in column.tolist()]
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return None
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

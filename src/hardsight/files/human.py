"""Human answers about each sample, from arrays, tables or files, validated when read.

Three forms: counts (n, c) of answers per class, a selection frequency per sample, or one row per answer
(`id, annotator, answer`); and those of published studies, in `human_studies`. Ids are kept if the source has them, as a
column or a pandas index; otherwise rows are matched by position. Images in other folders are matched by file name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import MOST_CLASSES, check_ids, check_unique, is_tensor, to_numpy
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.epochs import rows_named
from hardsight.files.human_studies import (
    answers_of_cifar10h,
    by_class,
    file_name,
    is_by_class,
    is_raw_cifar10h,
    parsed,
    unambiguous,
)
from hardsight.files.npy import open_npy
from hardsight.files.places import TABLE_ENDINGS
from hardsight.files.reading import existing_file, naming, reading
from hardsight.files.table_files import read_columns
from hardsight.files.wide_tables import as_frame, is_table
from hardsight.pandas_index import index_ids, index_of
from hardsight.stats.answers import check_counts, selection_frequency

FORMS = (
    "(n, c) counts, an (n,) selection frequency, or a table with `id` and one of: `frequency` (and `answers`, how many "
    "people), `counts` (a list), one column per class, or `annotator` and `answer` with one row per answer"
)
MOST_COUNTS = 2**27  # samples times classes, 1 GB: without class names, an answer that needs more must be a mistake


@dataclass(frozen=True)
class Answers:
    """The value of --human, before it is read."""

    source: Any
    allow_missing: bool = False

    @classmethod
    def of(cls, human: Any, allow_missing: bool = False) -> Answers:
        """An object of this class unchanged; anything else as input for `read_people`."""
        return human if isinstance(human, Answers) else cls(human, allow_missing)


@dataclass(frozen=True)
class People:
    """Human answers: counts per class, or only how often the labeled class was chosen."""

    name: str
    ids: np.ndarray | None  # (n,) or None: in the order of the samples
    counts: np.ndarray | None = None  # (n, c) whole numbers
    frequency: np.ndarray | None = None  # (n,) in [0, 1], NaN if unknown
    answers: np.ndarray | None = None  # (n,) people per sample, with a frequency
    numbered: bool = False  # without ids: the pandas index is 0, 1, 2, ...
    by_class: np.ndarray | None = None  # (n,) of {class: (frequency, answers)}, where several classes were asked about
    reaction_time: np.ndarray | None = None  # (n,) median over people, where it was measured

    def __len__(self) -> int:
        known = next(x for x in (self.counts, self.frequency, self.by_class) if x is not None)
        return len(known)

    def take(self, rows: np.ndarray) -> People:
        """The answers of these rows, in this order."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, numbered=False, **{name: array[rows] for name, array in arrays.items()})

    def about_labels(self, labels: np.ndarray) -> People:
        """Where several classes were asked about: the frequency of the class in the (n,) labels, and the number of people."""
        if self.by_class is None:
            return self
        unknown = (np.nan, np.nan)
        pairs = [row.get(int(label), unknown) for row, label in zip(self.by_class, labels, strict=True)]
        frequency, answers = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        counted = None if np.isnan(answers).all() else np.nan_to_num(answers)
        return replace(self, by_class=None, frequency=frequency, answers=counted)

    def asked(self, least: int) -> People:
        """The same with the answers of samples with fewer than `least` people unknown."""
        if self.by_class is not None:
            number = max((people for row in self.by_class for _, people in row.values()), default=np.nan)
            rows = [{k: pair for k, pair in row.items() if pair[1] >= least} for row in self.by_class]
            kept = replace(self, by_class=_objects(rows))
        elif self.counts is not None:
            number = self.counts.sum(1).max(initial=0)
            kept = replace(self, counts=self.counts * (self.counts.sum(1) >= least)[:, None])
        else:
            assert self.frequency is not None
            number = np.nan if self.answers is None else self.answers.max(initial=0)
            few = np.zeros(len(self), bool) if self.answers is None else self.answers < least
            kept = replace(self, frequency=np.where(few, np.nan, self.frequency))
        if np.isnan(number):
            raise InputError(f"{self.name}: --min-answers {least} needs the number of people beside each frequency.")
        if number < least:
            raise InputError(f"{self.name}: --min-answers {least}, but no sample has more than {number:.0f} answers.")
        return kept

    def check_classes(self, num_classes: int) -> None:
        """Reject an array of counts with a column count other than the number of classes: columns are matched by position."""
        if self.ids is None and self.counts is not None and self.counts.shape[1] != num_classes:
            hint = " They look transposed: one row per sample." if self.counts.shape[0] == num_classes else ""
            raise InputError(f"{self.name}: counts have {self.counts.shape[1]} classes, the model has {num_classes}.{hint}")

    def for_labels(self, labels: np.ndarray) -> People:
        """The same answers with counts for every class among the (n,) labels.

        Answers by id may lack classes that nobody chose; counts without ids must have a column for each class.
        """
        if self.counts is None or labels.max(initial=-1) < self.counts.shape[1]:
            return self
        if self.ids is None:
            raise InputError(
                f"{self.name}: counts have {self.counts.shape[1]} classes, but labels go up to {labels.max()}; "
                "pass one column per class, in the order of the head's rows."
            )
        return replace(self, counts=np.pad(self.counts, ((0, 0), (0, int(labels.max()) + 1 - self.counts.shape[1]))))

    def selection_frequency(self, labels: np.ndarray) -> np.ndarray:
        """(n,) how often people chose the class in the (n,) labels; NaN if unknown."""
        if self.by_class is not None:
            return self.about_labels(labels).selection_frequency(labels)
        if self.frequency is not None:
            return self.frequency
        return selection_frequency(self.for_labels(labels).counts, labels)


def read_people(source: Any, class_names: Sequence[str] | None = None) -> People:
    """Human data from an array, a table (Arrow, pandas, polars or a dict of columns), or a file."""
    if isinstance(source, People):
        return source
    if not isinstance(source, (str, os.PathLike)):
        return _people(source, "human", class_names)
    path = Path(source)
    ending = existing_file(path).suffix.lower()
    with naming(path), reading(path, "not readable as JSON" if ending == ".json" else "not readable as human data"):
        if ending == ".npy":
            return _from_array(np.asarray(open_npy(path)), str(path))
        if ending in TABLE_ENDINGS:
            return _from_columns(read_columns(path), str(path), class_names)
        if ending == ".json":
            return _people(parsed(path.read_text(encoding="utf-8")), str(path), class_names)
    raise FileError(f"{path}: human data must be a .npy, .csv, .tsv, .parquet or .json file.")


def _people(source: Any, name: str, class_names: Sequence[str] | None) -> People:
    if is_by_class(source):
        images, rows = by_class(source, class_names)
        return People(name, _unique(images), by_class=_objects(rows))
    columns = _as_columns(source)
    people = _from_array(source, name) if columns is None else _from_columns(columns, name, class_names)
    if people.ids is not None or index_of(source) is None:
        return people
    ids = index_ids(source)
    return replace(people, numbered=True) if ids is None else replace(people, ids=_unique(ids))


def _as_columns(source: Any) -> dict[str, Any] | None:
    """A table in any form as columns by name; None for an array."""
    if is_table(source):
        return as_frame(source).to_dict(as_series=False)
    if isinstance(source, list) and source and isinstance(source[0], dict):
        return _columns_of_rows(source)
    if not isinstance(source, Mapping):
        return None
    if source and not any(isinstance(value, (list, tuple, np.ndarray)) for value in source.values()):
        return {"id": list(source), "frequency": list(source.values())}  # {id: frequency}
    if source and not {str(key).lower() for key in source} & {"id", "frequency", "counts", "annotator", "answer"}:
        return {"id": list(source), "counts": list(source.values())}  # {id: [counts]}
    return {str(key): column for key, column in source.items()}


def _columns_of_rows(rows: list[Any]) -> dict[str, Any]:
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"every row must be an object with the same keys, but row {number} is {row!r:.80}.")
    names = dict.fromkeys(key for row in rows for key in row)
    return {str(key): [row.get(key) for row in rows] for key in names}


def _from_array(source: Any, name: str) -> People:
    array = to_numpy(source) if is_tensor(source) else _rectangular(source)
    if array.ndim == 1:
        return People(name, None, frequency=_check_frequency(array))
    if array.ndim == 2 and _are_shares(array):  # of people who chose each class, as cifar10h-probs.npy
        return People(name, None, by_class=_objects([dict(enumerate((float(p), np.nan) for p in row)) for row in array]))
    if array.ndim == 2:
        return People(name, None, counts=check_counts(array))
    raise InputError(f"human data must be {FORMS}; got shape {array.shape}.")


def _from_columns(columns: dict[str, Any], name: str, class_names: Sequence[str] | None) -> People:
    _check_columns(columns)
    if is_raw_cifar10h(columns):
        index, counts, time = answers_of_cifar10h(columns)
        return People(name, index, counts=counts, reaction_time=time)
    if "answer" in columns or "annotator" in columns:
        return _from_answers(columns, name, class_names)
    rest = {key: column for key, column in columns.items() if key != "id"}
    if not rest or not len(next(iter(rest.values()))):
        raise InputError(f"there is no human data here: pass {FORMS}.")
    ids = _unique(columns["id"]) if "id" in columns else None
    if "frequency" in rest:
        answers = _numbers(rest["answers"], "answers") if "answers" in rest else None
        return People(name, ids, frequency=_check_frequency(_numbers(rest["frequency"], "frequency")), answers=answers)
    if "counts" in rest:
        return People(name, ids, counts=check_counts(_rectangular(list(rest["counts"]))))
    order = _class_columns(list(rest), class_names)
    return People(name, ids, counts=check_counts(np.stack([_numbers(rest[key], key) for key in order], axis=1)))


def _check_columns(columns: dict[str, Any]) -> None:
    """Reject columns that are no lists, of different lengths, or whose name is almost that of one we know."""
    for key, column in columns.items():
        if isinstance(column, (str, bytes, Mapping)) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) == 0:
            raise InputError(f"the column {key} must be a list with one value per row, got {column!r:.80}.")
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns must be of the same length, got {lengths}.")
    for wanted in ("id", "frequency", "answers", "counts", "annotator", "answer"):
        near = [key for key in columns if key != wanted and key.lower() == wanted]
        if near and wanted not in columns:
            raise InputError(f"the column {near[0]!r} must be named {wanted!r}.")


def _class_columns(names: list[str], class_names: Sequence[str] | None) -> list[str]:
    """The columns in class order, named 0, 1, 2, ... or by class name."""
    if class_names is not None and set(names) == set(class_names):
        return list(class_names)
    if all(re.fullmatch("0|[1-9][0-9]*", key) for key in names) and sorted(map(int, names)) == list(range(len(names))):
        return sorted(names, key=int)
    wanted = "0, 1, 2, ..." + ("" if class_names is None else f" or {', '.join(class_names[:3])}, ...")
    near = next(filter(None, (did_you_mean(name, ("frequency", "counts", "answer", *(class_names or ()))) for name in names)), "")
    raise InputError(f"columns {', '.join(map(repr, names[:5]))}: unknown format of human data.{near} Pass {FORMS}: {wanted}.")


def _from_answers(columns: dict[str, Any], name: str, class_names: Sequence[str] | None) -> People:
    missing = [key for key in ("id", "annotator", "answer") if key not in columns]
    if missing:
        raise InputError(f"one row per answer needs the columns id, annotator and answer; {missing[0]} is missing.")
    if not len(columns["id"]):
        raise InputError("there are no answers.")
    ids = _plain_ids(columns["id"])
    first, where = np.unique(ids, return_inverse=True)
    most = min(MOST_CLASSES, max(len(class_names or ()), MOST_COUNTS // len(first)))
    answers = _answer_classes(list(columns["answer"]), class_names, most)
    seen: dict[Any, int] = {}
    for row, key in enumerate(zip(ids.tolist(), columns["annotator"], strict=True)):
        if not isinstance(key[1], (str, int, float, np.generic, type(None))):
            raise InputError(f"an annotator must be a name or a number, but row {row} holds {key[1]!r:.80}.")
        if seen.setdefault(key, row) != row:
            raise InputError(f"annotator {key[1]!r} answered twice about id {key[0]!r}: rows {seen[key]} and {row}.")
    counts = np.zeros((len(first), int(answers.max()) + 1), dtype=np.int64)
    np.add.at(counts, (where, answers), 1)
    return People(name, first, counts=counts)


def _answer_classes(values: list[Any], class_names: Sequence[str] | None, most: int) -> np.ndarray:
    """(answers,) the class of each answer, from an index below `most` or a class name."""
    class_of = {name: k for k, name in enumerate(class_names or [])}
    classes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        index = _class_index(value, class_of)
        if index is None:
            hint = "" if class_names else " To use names, pass --class-names or a run that has class names."
            raise InputError(f"an answer must be a class index or a class name, but row {row} holds {value!r:.80}.{hint}")
        if index >= most:
            hint = " If there are that many classes, pass their names (--class-names)." if index < MOST_CLASSES else ""
            raise InputError(f"an answer must be a class index below {most}, but row {row} holds {value!r:.80}.{hint}")
        classes[row] = index
    return classes


def _class_index(value: Any, class_of: Mapping[str, int]) -> int | None:
    """The class that an answer names or numbers; None if it does neither."""
    if isinstance(value, str):
        if value in class_of:
            return class_of[value]
        return None if not value.isdecimal() else int(value) if len(value) < 20 else MOST_CLASSES
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return int(value) if whole and value >= 0 else None


def _unique(values: Any) -> np.ndarray:
    ids = _plain_ids(values)
    check_unique(ids, "the answers", "Keep one row of each.")
    return ids


def _plain_ids(values: Any) -> np.ndarray:
    return check_ids([id.item() if isinstance(id, np.generic) else id for id in values], len(values))


def _numbers(values: Any, name: str) -> np.ndarray:
    try:
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the column {name} must hold numbers: {first_line(error)}.") from error
    if numbers.ndim != 1:
        raise InputError(f"the column {name} must hold one number per row, got shape {numbers.shape}.")
    return numbers


def _rectangular(source: Any) -> np.ndarray:
    try:
        array = np.asarray(source)
    except ValueError as error:
        raise InputError(f"human data must be rectangular: {first_line(error)}.") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"human data must be numbers, got {array.dtype}.")
    return array


def _are_shares(array: np.ndarray) -> bool:
    """Whether (n, c) numbers are shares of each row's people: not whole, and each row adds up to 1."""
    if array.dtype.kind != "f" or not array.size or not ((array >= 0) & (array <= 1)).all():
        return False
    return bool((np.floor(array) != array).any() and np.allclose(array.sum(1), 1, atol=1e-3))


def _objects(rows: Sequence[Any]) -> np.ndarray:
    """(n,) objects."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


def _check_frequency(array: np.ndarray) -> np.ndarray:
    frequency = np.asarray(array, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(((frequency < 0) | (frequency > 1)) & ~np.isnan(frequency))
    if len(bad):
        row = int(bad[0])
        whole = (np.floor(frequency[bad]) == frequency[bad]).all()
        hint = " If these are counts, divide by the number of people, or pass (n, c) counts." if whole else ""
        if not whole and frequency[bad].min() >= 0 and frequency[bad].max() <= 100:
            hint = " They look like percentages: divide by 100."
        raise InputError(
            f"a selection frequency must be between 0 and 1, but {len(bad)} of {len(frequency)} are not; "
            f"row {row} holds {frequency[row]:g}.{hint}"
        )
    return frequency


def match(people: People, ids: np.ndarray, allow_missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Matching rows of the samples and of the human data; an error if one side lacks ids of the other.

    Without ids, row i is the sample with id i, "i" or "SPLIT/i"; if the ids are not such numbers, the i-th sample.
    """
    n = len(ids)
    if people.ids is None:
        return _match_rows(people, ids, allow_missing)
    known = _same_kind(people, ids)
    if isinstance(known[0], str) and not set(known) & set(ids.tolist()):  # the same images in other folders
        known, ids = _file_names(people, known), np.array(unambiguous(ids.tolist(), people.name, "samples"), dtype=object)
    row_of = {id: row for row, id in enumerate(known)}
    rows = np.array([row_of.get(id, -1) for id in ids.tolist()], dtype=np.int64)
    there = set(ids.tolist())
    unknown = [id for id in known if id not in there]
    absent = ids[rows < 0].tolist()
    if (absent or unknown) and not allow_missing:
        problems = []
        if absent:
            problems.append(f"{len(absent)} of {n} samples have no human data (the first: {absent[0]!r})")
        if unknown:
            problems.append(f"{len(unknown)} of {len(known)} human ids are not among the samples (the first: {unknown[0]!r})")
        raise InputError(
            f"{people.name}: {' and '.join(problems)}. Use --allow-missing to keep the {(rows >= 0).sum()} that both have."
        )
    if not (rows >= 0).any():
        raise InputError(
            f"{people.name}: no human id matches a sample; its ids look like {known[0]!r}, the samples' like {ids[0]!r}."
        )
    return np.flatnonzero(rows >= 0), rows[rows >= 0]


def _file_names(people: People, known: list[str]) -> list[str]:
    """The file names of the human data; one that stands twice must have the same answers, and counts once."""
    first: dict[str, int] = {}
    for row, id in enumerate(known):
        other = first.setdefault(file_name(id), row)
        if other != row and _answers_of(people, row) != _answers_of(people, other):
            raise InputError(f"{people.name}: {known[other]!r} and {id!r} are one image with different answers: keep one.")
    return [file_name(id) for id in known]


def _answers_of(people: People, row: int) -> list[Any]:
    held = (people.counts, people.frequency, people.answers, people.by_class)
    return [None if x is None else x[row].tolist() if isinstance(x[row], np.ndarray) else x[row] for x in held]


def _match_rows(people: People, ids: np.ndarray, allow_missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """The same for an array, which has rows but no ids."""
    n, rows = len(ids), _numbers_of(ids)
    known = None if rows is None else rows < len(people)
    if rows is not None and known is not None and (known.all() or allow_missing) and (len(people) == n or allow_missing):
        return np.flatnonzero(known), rows[known]
    if len(people) == n:
        return np.arange(n), np.arange(n)
    hint = " The ids are row numbers: --allow-missing (allow_missing=True) joins by them." if rows is not None else ""
    raise InputError(
        f"{people.name}: without ids, human data must have one row per sample in the same order, "
        f"got {len(people)} rows for {n} samples.{hint}"
    )


def _numbers_of(ids: np.ndarray) -> np.ndarray | None:
    """(n,) the row that each id names, all different; None if ids are not row numbers."""
    rows = rows_named(pa.array(ids.tolist())) if len(ids) else None
    return rows if rows is not None and rows.min() >= 0 and len(np.unique(rows)) == len(rows) else None


def match_bases(people: People, base_ids: Sequence[Any], allow_missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Match by base image: degraded copies share the answers about their original."""
    first: dict[Any, int] = {}
    for base_id in base_ids:
        first.setdefault(base_id, len(first))
    known, of_people = match(people, np.array(list(first), dtype=object), allow_missing)
    row_of = dict(zip(known.tolist(), of_people.tolist(), strict=True))
    rows = np.array([row_of.get(first[base_id], -1) for base_id in base_ids])
    return np.flatnonzero(rows >= 0), rows[rows >= 0]


def _same_kind(people: People, ids: np.ndarray) -> list[Any]:
    """The human ids converted to the type of the sample ids: a CSV may hold text or integers."""
    assert people.ids is not None
    known = people.ids.tolist()
    in_text, wanted_in_text = people.ids.dtype.kind not in "iu", ids.dtype.kind not in "iu"
    if in_text == wanted_in_text:
        return known
    if wanted_in_text:
        return [str(id) for id in known]
    bad = [id for id in known if not re.fullmatch("-?(0|[1-9][0-9]*)", id)]
    if bad:
        raise InputError(f"{people.name}: the samples have integer ids, but {bad[0]!r} is not an integer.")
    return [int(id) for id in known]

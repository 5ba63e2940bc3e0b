"""Groups of samples from columns: each column alone, and the intersections of several.

Words, dates, booleans and a few different numbers are groups as they stand. Other numbers are cut at their quintiles. Samples
without a value belong to no group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import InputError, did_you_mean
from hardsight.files.npy import open_npz
from hardsight.snapshot import Snapshot
from hardsight.snapshot.snapshot import EVIDENCE
from hardsight.table import read_scores

MOST_NUMBERS = 50  # different numbers up to which each is a group
MOST_WORDS = 2000  # different words; more name samples and not groups
TIMES = " × "
LATENT = "latent"  # in the place of a column, for groups that no column names


@dataclass(frozen=True)
class Grouping:
    """One way to divide the samples."""

    by: str  # the column, or several joined by " × "
    names: list[str]
    codes: np.ndarray  # (n,) -1 for none

    def words(self) -> pa.Array:
        """(n,) the group of every sample by name, null for none."""
        codes = pa.array(self.codes, mask=self.codes < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array(self.names, pa.string())).cast(pa.string())


def group_name(row: Mapping[str, Any]) -> str:
    """A group for people, from its row of the audit.

    Example:
        >>> group_name({"by": "site × age", "group": "B × old"})
        'site = B, age = old'
    """
    if row["by"] == LATENT:
        return str(row["group"])
    names, values = str(row["by"]).split(TIMES), str(row["group"]).split(TIMES)
    if len(names) != len(values):  # a value that holds the sign itself
        return f"{row['by']} = {row['group']}"
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def groupings_of(samples: Snapshot, columns: Sequence[str]) -> list[Grouping]:
    """Every column alone, then every intersection of two, then of three."""
    single = [_of_column(samples, name) for name in columns]
    return [_crossed(crossed) for count in range(1, len(single) + 1) for crossed in itertools.combinations(single, count)]


def _crossed(groupings: Sequence[Grouping]) -> Grouping:
    if len(groupings) == 1:
        return groupings[0]
    known = np.logical_and.reduce([grouping.codes >= 0 for grouping in groupings])
    sizes = [len(grouping.names) for grouping in groupings]
    flat = np.ravel_multi_index([np.where(known, grouping.codes, 0) for grouping in groupings], sizes)
    there = np.unique(flat[known])  # empty intersections are no groups
    parts = [np.unravel_index(code, sizes) for code in there]
    names = [TIMES.join(g.names[at] for g, at in zip(groupings, part, strict=True)) for part in parts]
    codes = np.where(known, np.searchsorted(there, flat), -1)
    return Grouping(TIMES.join(grouping.by for grouping in groupings), names, codes)


def _of_column(samples: Snapshot, name: str) -> Grouping:
    if name == "label":
        labels = samples.labels
        names = samples.class_names or [str(label) for label in range(int(labels.max()) + 1)]
        return _checked(samples.where, _without_empty(Grouping(name, names, labels)))
    return _checked(samples.where, _grouped(samples.where, name, _column(samples, name).combine_chunks()))


def _column(samples: Snapshot, name: str) -> pa.ChunkedArray:
    """A column of the samples, or one that a user added to the scores.parquet of their run, by id."""
    if name in samples.column_names and name != "id":
        return samples.columns([name]).column(0)
    scores = read_scores(samples.run) if samples.run is not None and (samples.run / "scores.parquet").is_file() else pa.table({})
    if name not in scores.column_names or name == "id":
        raise InputError(_no_column(samples, name, [*samples.column_names, *scores.column_names]))
    ids = samples.columns(["id"]).column(0).cast(pa.string())
    rows = pc.index_in(ids, value_set=scores.column("id").cast(pa.string()).combine_chunks())
    return scores.column(name).take(rows)


def _no_column(samples: Snapshot, name: str, columns: Sequence[str]) -> str:
    """What there is instead of a column; an array of an .npz may be there, but not have one value per sample."""
    path, n = samples.path, len(samples)
    arrays = open_npz(path) if path is not None and path.suffix.lower() == ".npz" else {}
    if name in arrays and name not in EVIDENCE:
        return f"{path}: a column has one value per sample, shape ({n},), but {name!r} has shape {arrays[name].shape}."
    there = [column for column in dict.fromkeys(columns) if column != "id"]
    shown = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
    return f"{samples.where}: there is no column {name!r}; it has {shown or 'none'}.{did_you_mean(name, there)}"


def _grouped(where: str, name: str, column: pa.Array) -> Grouping:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if column.null_count == len(column):
        raise InputError(f"{where}: the column {name!r} holds nothing.")
    if pa.types.is_boolean(kind):
        return _of_words(name, pc.if_else(column, "true", "false"))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
        distinct = np.unique(values[np.isfinite(values)])
        if len(distinct) == 0:
            raise InputError(f"{where}: the column {name!r} holds no finite number.")
        if len(distinct) <= MOST_NUMBERS:
            places = np.searchsorted(distinct, np.nan_to_num(values, nan=distinct[0]))
            return Grouping(name, _told_apart(distinct), np.where(np.isfinite(values), places, -1))
        return _in_fifths(name, values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _of_words(name, column)
    raise InputError(f"{where}: a group is text, a number or a date, and the column {name!r} holds {kind}.")


def _told_apart(numbers: np.ndarray, digits: int = 6) -> list[str]:
    """Numbers in words that tell different ones apart: whole ones in full, others in more digits where it takes them.

    Example:
        >>> _told_apart(np.array([7.0, 1234568.0])), _told_apart(np.array([0.5, 1.00000012, 1.00000013]))
        (['7', '1234568'], ['0.5', '1.00000012', '1.00000013'])
    """
    if (numbers == np.round(numbers)).all() and np.abs(numbers).max() < 2**53:
        return [f"{number + 0.0:.0f}" for number in numbers]  # and not -0
    different = len(np.unique(numbers))
    words = ([f"{number:.{more}g}" for number in numbers] for more in range(digits, 18))
    return next(written for written in words if len(set(written)) == different)  # 17 digits tell all doubles apart


def _in_fifths(name: str, values: np.ndarray) -> Grouping:
    known = np.isfinite(values)
    cuts = np.unique(np.quantile(values[known], [0.2, 0.4, 0.6, 0.8]))
    ends = [values[known].min(), *cuts, values[known].max()]
    names = [f"{low} to {high}" for low, high in itertools.pairwise(_told_apart(np.array(ends), digits=4))]
    return _without_empty(Grouping(name, names, np.where(known, np.searchsorted(cuts, values, side="right"), -1)))


def _of_words(name: str, column: pa.Array) -> Grouping:
    column = column.cast(pa.string())
    words = pc.unique(column).drop_null().sort()
    return Grouping(name, words.to_pylist(), pc.index_in(column, value_set=words).fill_null(-1).to_numpy().astype(np.int64))


def _without_empty(grouping: Grouping) -> Grouping:
    there = np.unique(grouping.codes[grouping.codes >= 0])
    codes = np.where(grouping.codes >= 0, np.searchsorted(there, grouping.codes), -1)
    return Grouping(grouping.by, [grouping.names[at] for at in there], codes)


def _checked(where: str, grouping: Grouping) -> Grouping:
    """Two groups at least, and not one per sample."""
    sizes = np.bincount(grouping.codes[grouping.codes >= 0], minlength=len(grouping.names))
    column = f"{where}: the column {grouping.by!r}"
    if len(grouping.names) == 1:
        raise InputError(f"{column} holds one group only ({grouping.names[0]!r:.60}): there is nothing to compare it with.")
    if sizes.max() == 1:
        raise InputError(f"{column} has a group of one for each of {len(sizes)} samples: it names samples and not groups.")
    if len(grouping.names) > MOST_WORDS:
        raise InputError(f"{column} holds {len(grouping.names)} different values; groups are {MOST_WORDS} at most.")
    return grouping


def left_out(groupings: Sequence[Grouping]) -> Iterator[str]:
    """A sentence for each column that some samples have no value of."""
    for grouping in groupings:
        out = int((grouping.codes < 0).sum())
        if out and TIMES not in grouping.by:
            yield f"{out} of {len(grouping.codes)} samples have no value of {grouping.by} and belong to no group of it."

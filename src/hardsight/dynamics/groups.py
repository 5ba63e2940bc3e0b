"""Groups of samples: all, by class, by degradation, by human answers, or by any column.

`Groups` maps each row of a dynamics table to its group number, -1 for none. Everything is matched by id, so the values
to group by may come from another file, another run, or an array in the order of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import check_unique
from hardsight.errors import FileError, InputError, did_you_mean
from hardsight.files.epochs import NUMBERS, KnownIds, Stories, moments, number_column, read_moment, rows_named
from hardsight.files.heads import load_head
from hardsight.files.human import Answers, match_bases, read_people
from hardsight.files.parquet import parquet_columns, read_parquet
from hardsight.scores import SCORES
from hardsight.table import as_measured

BINS = 5
FEW = 12  # up to this many distinct numbers, each is its own group
HUMAN_EDGES = (0.2, 0.4, 0.6, 0.8)  # the paper's bins of human selection frequency


class Groups:
    """The names of the groups in order, and the group of each row of a dynamics table.

    `ordered` says whether the groups are levels of one quantity, which are drawn in sequential colors.
    """

    def __init__(self, name: str, names: Sequence[str], of: Callable[[pa.Table], np.ndarray], ordered: bool) -> None:
        self.name, self.names, self.of, self.ordered = name, list(names), of, ordered

    def __len__(self) -> int:
        return len(self.names)


def everyone() -> Groups:
    """One group with all samples."""
    return Groups("all", ["all samples"], lambda table: np.zeros(len(table), np.int64), ordered=False)


def by_values(name: str, ids: Any, values: Any, *, edges: Sequence[float] | None = None) -> Groups:
    """Samples grouped by one value per sample.

    Each word is a group, and so is each of up to 12 distinct numbers. More numbers make five groups of equal size, or the
    groups between the `edges`.

    Args:
        name: what the values are, for titles.
        ids: (n,) of the samples, as in the dynamics.
        values: (n,) numbers or words; NaN and null are in no group.
    """
    by_id = KnownIds()
    wanted = ids if isinstance(ids, pa.Array) else pa.array(ids)
    column = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(np.asarray(values), from_pandas=True)
    if len(column) != len(wanted):
        raise InputError(f"there must be one {name} per id, got {len(column)} for {len(wanted)} ids.")
    check_unique(wanted, f"groups by {name}")
    places = by_id.learn(wanted)
    names, codes, ordered = _coded(column, edges)
    code_at = np.empty(len(places) + 1, np.int64)
    code_at[places], code_at[-1] = codes, -1  # index -1 is a sample without a value

    def of(table: pa.Table) -> np.ndarray:
        return code_at[by_id.indices(table.column("id").combine_chunks().cast(wanted.type))]

    return Groups(name, names, of, ordered)


def by_label(run: str | Path) -> Groups:
    """Samples grouped by their given class."""
    _, labels = _last_seen(run)
    names = _class_names(run) or [str(label) for label in range(int(labels.max(initial=-1)) + 1)]
    return Groups("class", names, lambda table: np.nan_to_num(number_column(table, "label"), nan=-1).astype(np.int64), False)


def _class_names(run: str | Path) -> list[str] | None:
    head = Path(run) / "head.safetensors"
    return load_head(head)[1] if head.is_file() else None


def by_degradation(run: str | Path) -> Groups:
    """Samples grouped by degradation, taken from ids such as `base#contrast=0.3`; other samples are "original"."""
    names_seen = {_degradation(id) for id in _last_seen(run)[0].to_pylist()}
    if names_seen <= {"original"}:
        raise InputError(f"{run}: no sample in its dynamics is degraded (ids would end in #contrast=0.3 or similar).")
    names = sorted(names_seen, key=lambda name: (name != "original", _by_level(name)))
    code_of = {name: code for code, name in enumerate(names)}

    def of(table: pa.Table) -> np.ndarray:
        return np.array([code_of.get(_degradation(id), -1) for id in table.column("id").to_pylist()], np.int64)

    return Groups("degradation", names, of, ordered=True)


def _degradation(id: Any) -> str:
    return str(id).partition("#")[2] or "original"


def _by_level(name: str) -> tuple[str, float]:
    kind, _, level = name.partition("=")
    try:
        return kind, float(level)
    except ValueError:
        return name, 0.0


def by_human(run: str | Path, human: Any, split: str | None = None) -> Groups:
    """Samples grouped by human selection frequency, the share of people who chose the given class, in five bins of equal width.

    Args:
        run: the run whose samples they are.
        human: human answers, in any format that `hardsight.correlate` accepts. With ids, they are joined by id, degraded
            copies like their originals. Without ids, row i is the sample with id i, "i" or "SPLIT/i", degraded or not.
        split: the split that the answers refer to.
    """
    answers = Answers.of(human, allow_missing=True)
    people = read_people(answers.source, _class_names(run))
    ids, labels = _last_seen(run, split)
    if people.ids is not None:
        originals = [str(name).partition("#")[0] for name in ids.to_pylist()]
        samples, rows = match_bases(people, originals, answers.allow_missing or split is None)
    else:
        of_people = _rows_by_number(ids, len(people))
        samples = np.flatnonzero(of_people >= 0)
        rows = of_people[samples]
    frequency = np.full(len(ids), np.nan)
    frequency[samples] = people.take(rows).selection_frequency(labels[samples])
    return by_values("human selection frequency", ids, frequency, edges=HUMAN_EDGES)


def by_column(run: str | Path, column: str, split: str | None = None) -> Groups:
    """Samples grouped by a column: `label`, `degradation`, a dynamics score, or any column of the run's tables.

    Lookup order: the class (`label`), the degradation in the ids (`degradation`, `level`), a dynamics score (`aum`, ...), a
    column of `scores.parquet`, a column of `samples/`, and the last epoch of the dynamics.
    """
    if column in ("label", "class"):
        return by_label(run)
    if column in ("degradation", "level"):
        return by_degradation(run)
    if column in SCORES and SCORES[column].scope == "dynamics":
        ids, _ = _last_seen(run, split)
        return by_values(column, ids, Stories(run, [SCORES[column]], split=split).of(SCORES[column], ids))
    for path in [Path(run) / "scores.parquet", *sorted((Path(run) / "samples").glob("*.parquet"))[:1]]:
        if path.is_file() and column in parquet_columns(path):
            files = [path] if path.name == "scores.parquet" else sorted(path.parent.glob("*.parquet"))
            tables = [as_measured(read_parquet(file, ["id", column])) for file in files]
            table = pa.concat_tables(tables).combine_chunks()
            return by_values(column, table.column("id").combine_chunks(), table.column(column))
    if column in NUMBERS:
        table = read_moment((moments(run) or moments(run, steps=True))[-1][1], ["id", column], split)
        return by_values(column, table.column("id").combine_chunks(), table.column(column))
    tables = [*Path(run).glob("*.parquet"), *Path(run).glob("*/*.parquet")]
    there = sorted({name for file in tables for name in parquet_columns(file)} - {"id", "features", "split"})
    raise InputError(f"{run} has no column {column!r} to group by; it has {', '.join(there)}.{did_you_mean(column, there)}")


def by_hardness(run: str | Path, split: str | None = None) -> Groups:
    """Easy and hard: the thirds of the samples with the lowest and the highest AVH, averaged over all epochs."""
    ids, _ = _last_seen(run, split)
    hardness = Stories(run, [SCORES["mean_avh"]], split=split).of(SCORES["mean_avh"], ids)
    order = np.argsort(np.argsort(hardness, kind="stable"), kind="stable")  # NaN last
    third, count = int(np.isfinite(hardness).sum()) // 3, int(np.isfinite(hardness).sum())
    words = np.where(order < third, "easy", np.where((order >= count - third) & (order < count), "hard", ""))
    return by_values("hardness", ids, pa.array([word or None for word in words.tolist()]))


def _last_seen(run: str | Path, split: str | None = None) -> tuple[pa.Array, np.ndarray]:
    """The unique ids of the last moment, and their labels."""
    recorded = moments(run) or moments(run, steps=True)
    if not recorded:
        raise FileError(f"{run}: it has no dynamics yet.")
    table = read_moment(recorded[-1][1], ["id", "label"], split).combine_chunks()
    codes = table.column("id").combine_chunks().dictionary_encode().indices.to_numpy()
    table = table.take(pa.array(np.unique(codes, return_index=True)[1]))  # an id may be in several splits
    labels = np.nan_to_num(number_column(table, "label"), nan=-1).astype(np.int64)
    return table.column("id").combine_chunks(), labels


def _rows_by_number(ids: pa.Array, count: int) -> np.ndarray:
    """The row that each id names."""
    rows = rows_named(ids)
    if rows is None:
        raise InputError("the ids of the dynamics are names, so human answers need ids to be joined by: give a table with ids.")
    beyond = np.flatnonzero((rows < 0) | (rows >= count))
    if len(beyond):
        raise InputError(f"human has {count} rows, but no row for {len(beyond)} ids such as {ids[int(beyond[0])]}.")
    return rows


def _coded(column: Any, edges: Sequence[float] | None) -> tuple[list[str], np.ndarray, bool]:
    """Names of the groups, (n,) codes with -1 for none, and whether the groups are ordered."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numeric:
        words = sorted({str(value) for value in column.unique().to_pylist() if value is not None})
        code_of = {word: code for code, word in enumerate(words)}
        return words, np.array([-1 if value is None else code_of[str(value)] for value in column.to_pylist()], np.int64), False
    values = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    there = np.isfinite(values)
    distinct = np.unique(values[there])
    if edges is None and len(distinct) <= FEW:
        codes = np.where(there, np.searchsorted(distinct, values), -1)
        return [f"{value:g}" for value in distinct], codes.astype(np.int64), True
    cuts = np.asarray(edges if edges is not None else np.unique(np.quantile(values[there], np.arange(1, BINS) / BINS)))
    codes = np.where(there, np.searchsorted(cuts, values, side="right" if edges is not None else "left"), -1)
    ends = [0.0, *cuts, 1.0] if edges is not None else [distinct[0], *cuts, distinct[-1]]
    names = [f"{low:.3g} to {high:.3g}" for low, high in zip(ends[:-1], ends[1:], strict=True)]
    return names, codes.astype(np.int64), True

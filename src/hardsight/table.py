"""The scores table: one row per sample as Arrow, ranked, summarized, read and written.

Columns: id, label, predicted, status ("ok" or why a row has null scores), then one column per score.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hardsight.checks import MOST_CLASSES, UNLABELED, check_count, check_labels
from hardsight.errors import FileError, InputError, did_you_mean, first_line
from hardsight.files.class_names import as_text, holds_names, label_numbers, rule_for_columns, whole_numbers
from hardsight.files.kinds import are_scores, check_format, finite_or_null, table_kind, with_formulas, without_formulas
from hardsight.files.parquet import read_parquet, table_notes
from hardsight.files.places import Place, place
from hardsight.files.reading import existing_file, naming, read_json, reading
from hardsight.files.run import not_a_run
from hardsight.files.table_files import read_csv, with_ids
from hardsight.files.wide_tables import as_arrow, is_pandas, is_table
from hardsight.files.writing import replacing
from hardsight.labels import Classes, rule_for_numbers
from hardsight.pandas_index import column_names, index_ids
from hardsight.scores import SCORES
from hardsight.screen import warn

CLASSES = ("label", "predicted", "given_label", "suggested_label", "predicted_label")  # columns of class numbers
HARDNESS = "hardness"  # metadata key of a table whose scores are oriented so that high is hard
HARD_END = "hard_end"  # the equivalent column in formats without metadata
LABEL_FREE = ("entropy", "avc_predicted")  # scores that rank samples without labels
SCORE_IT = "hardsight score FILE --features 'f*' --label NAME -o scores.parquet"  # for a feature table


def hardest(table: pa.Table, by: str = "avh", top: int | None = 10) -> pa.Table:
    """The hardest rows first, by the score's hard end; rows without the score are left out, ties keep their order.

    Example:
        >>> table = pa.table({"id": ["a", "b", "c"], "avh": [0.1, 0.3, None]})
        >>> hardest(table, "avh").column("id").to_pylist()
        ['b', 'a']
    """
    if not isinstance(plain(table), pa.Table):
        raise InputError(f"hardest takes the table that score gives, or a pyarrow.Table, got {type(table).__name__}.")
    if table.column_names.count(by) != 1:
        there = "no column" if by not in table.column_names else "more than one column"
        near = did_you_mean(by, table.column_names) if there == "no column" else ""
        raise InputError(f"the table has {there} {by!r}; it has {', '.join(table.column_names)}.{near}")
    kind = table.schema.field(by).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(f"samples are ranked by a column of numbers, and {by} holds {kind}.")
    top = None if top is None else check_count(top, "top")
    values = np.asarray(table.column(by).to_numpy(), dtype=np.float64)
    key = -values if hard_end(table.schema, by) == "high" else values
    order = np.argsort(key, kind="stable")[: np.isfinite(values).sum()]
    return table.take(pa.array(order[:top]))


def plain(table: Any) -> Any:
    """The `pyarrow.Table` of a `Result`; anything else unchanged."""
    main = None if isinstance(table, type) else getattr(table, "table", None)
    return main if isinstance(main, pa.Table) else table


def is_scores(table: Any, by: str | None = None) -> bool:
    """Whether a table in memory is a table of scores; `by` is a column that the caller ranks by."""
    return are_scores(column_names(table) or (), by)


def scores_given(source: Any, class_names: Sequence[str] | None = None) -> Any:
    """A scores table in memory (`ScoresTable`, pandas or polars) as Arrow, with original signs; anything else unchanged."""
    source = plain(source)
    if not is_table(source):
        return source
    try:
        table = pa.Table.from_pandas(source, preserve_index=False) if is_pandas(source) else as_arrow(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"a table of scores has one kind of value per column: {first_line(error)}") from error
    table, ids = as_measured(_without_mark(with_class_numbers(table, class_names))), index_ids(source)
    return table if ids is None or "id" in table.column_names else table.add_column(0, "id", pa.array(ids))


def hard_end(schema: pa.Schema, name: str) -> str:
    """The hard end of a column: high in a hardness table, otherwise that of the score; high for other columns."""
    return SCORES[name].hard if name in SCORES and not is_hardness(schema) else "high"


def is_hardness(schema: pa.Schema) -> bool:
    """Whether this is a hardness table, in which high is hard for every score, according to its metadata."""
    return bool(table_notes(schema).get("as") == HARDNESS)


def as_hardness(table: pa.Table) -> pa.Table:
    """A hardness table: scores whose low end is hard change sign, so that high is hard. A hardness table is returned unchanged.

    Example:
        >>> table = pa.table({"id": [1, 2], "avh": [0.1, 0.3], "confidence": [0.9, 0.2]})
        >>> turned = as_hardness(table)
        >>> turned.column("confidence").to_pylist(), as_hardness(turned).equals(turned), as_measured(turned).equals(table)
        ([-0.9, -0.2], True, True)
    """
    table = plain(table)
    return table if is_hardness(table.schema) else noted_as_hardness(_turned(table))


def noted_as_hardness(table: pa.Table) -> pa.Table:
    """Mark a table as a hardness table in its metadata; its scores already have their signs."""
    return table.replace_schema_metadata(_noted(table.schema, {**table_notes(table.schema), "as": HARDNESS}))


def as_measured(table: pa.Table) -> pa.Table:
    """Scores with their original signs: the inverse of `as_hardness`."""
    table = plain(table)
    if not is_hardness(table.schema):
        return table
    notes = {key: value for key, value in table_notes(table.schema).items() if key != "as"}
    return _turned(table).replace_schema_metadata(_noted(table.schema, notes))


def _turned(table: pa.Table) -> pa.Table:
    for index, column in enumerate(table.schema):
        if column.name in SCORES and SCORES[column.name].hard == "low":
            zero = pa.scalar(0, column.type)
            table = table.set_column(index, column, pc.subtract(zero, table.column(index)))  # and not -0.0
    return table


def noted_class_names(schema: pa.Schema) -> list[str] | None:
    """The class names in a table's metadata."""
    names = table_notes(schema).get("class_names")
    return [str(name) for name in names] if isinstance(names, list) and names else None


def with_class_names(table: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
    """The table with names in place of class numbers, as text; by default those of its metadata.

    Numbers stay where the names are numbers themselves: read again, "7" could not be told from class 7.

    Example:
        >>> with_class_names(pa.table({"id": ["a", "b"], "label": [1, None]}), ["cat", "dog"])["label"].to_pylist()
        ['dog', None]
    """
    names = names or noted_class_names(table.schema)
    if not names or all(name.strip().isdecimal() for name in names):
        return table
    words = pa.array(names, pa.string())
    for index, column in enumerate(table.schema):
        if column.name in CLASSES and pa.types.is_integer(column.type):
            numbers = table.column(index)
            known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
            text = pc.if_else(known, words.take(pc.if_else(known, numbers, 0)), numbers.cast(pa.string()))
            table = table.set_column(index, pa.field(column.name, pa.string()), text)
    return table


def with_class_numbers(table: pa.Table, class_names: Sequence[str] | None = None) -> pa.Table:
    """The table with class numbers under these names in all its columns of classes: names, and numbers that count the names in
    its metadata, are joined by name. By default, the classes are those of the metadata, or else the names held, in natural order.

    Example:
        >>> table = pa.table({"label": ["dog", None], "predicted": ["cat", "dog"]})
        >>> with_class_numbers(table, ["dog", "cat"]).to_pydict()
        {'label': [0, None], 'predicted': [1, 0]}
    """
    held = {name: table.column(name) for name in CLASSES if name in table.column_names}
    texts = {f"column {name}": as_text(column) for name, column in held.items() if holds_names(column.type)}
    counted = noted_class_names(table.schema)
    classes = Classes(class_names).under(counted)
    top = MOST_CLASSES if counted is None else len(counted)
    if classes.names == counted and _are_numbers_below(top, held.values()):  # as we write them: nothing to join
        return table
    of_names = rule_for_columns(texts, classes)
    numbers = [whole_numbers(column) for column in held.values() if not holds_names(column.type)]
    rule = rule_for_numbers(np.concatenate([np.empty(0, np.int64), *numbers]), Classes(of_names.class_names), counted)
    for note in (*of_names.notes, *rule.notes):
        warn(note)
    c = None if rule.class_names is None else len(rule.class_names)
    for name, column in held.items():
        with naming(f"column {name}"):
            labels = check_labels(label_numbers(column, of_names if holds_names(column.type) else rule), None, c)
        table = table.set_column(table.column_names.index(name), name, pa.array(labels, mask=labels < 0))
    return table if rule.class_names in (None, counted) else _under_names(table, rule.class_names)


def _are_numbers_below(top: int, columns: Iterable[pa.ChunkedArray]) -> bool:
    """Whether columns hold integers of 0 to top - 1, found without a look at rows: that would import pandas, half a second."""
    if not all(pa.types.is_integer(column.type) for column in columns):
        return False
    ends = [pc.min_max(column).as_py() for column in columns if column.null_count < len(column)]
    return all(end["min"] >= 0 and end["max"] < top for end in ends)


def renumbered(table: pa.Table, numbers: np.ndarray, names: Sequence[str]) -> pa.Table:
    """The table with class k as `numbers[k]`, and the names of the classes in that order in its metadata."""
    for index, column in enumerate(table.schema):
        if column.name in CLASSES and pa.types.is_integer(column.type):
            known = pc.if_else(pc.greater_equal(table.column(index), 0), table.column(index), None)
            table = table.set_column(index, column, pc.take(pa.array(numbers, column.type), known))
    return _under_names(table, names)


def _under_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.replace_schema_metadata(_noted(table.schema, {**table_notes(table.schema), "class_names": list(names)}))


def _noted(schema: pa.Schema, notes: dict[str, Any]) -> dict[bytes, bytes] | None:
    others = {key: value for key, value in (schema.metadata or {}).items() if key != b"hardsight"}
    return {**others, **({b"hardsight": json.dumps(notes).encode()} if notes else {})} or None


def read_scores(path: str | os.PathLike[str], class_names: Sequence[str] | None = None) -> pa.Table:
    """A scores table from Parquet, CSV (or .tsv) or JSON, or from the run directory that holds it.

    Scores have their original signs: a hardness table is converted back. Classes are numbered as in `class_names`; by default as
    in the metadata, which CSV and JSON do not have: there, in the order of their names.
    """
    path = place(path)
    if path.is_dir() and not (path / "scores.parquet").is_file() and not (path / "run.json").is_file():
        raise FileError(not_a_run(path))
    path = path / "scores.parquet" if path.is_dir() else path
    read = {".csv": _read_csv, ".tsv": _read_csv, ".json": _read_json}.get(path.suffix.lower(), read_parquet)
    with naming(path):
        return as_measured(_without_mark(with_class_numbers(read(existing_file(path)), class_names)))


def _without_mark(table: pa.Table) -> pa.Table:
    """Recognize a hardness table in CSV and JSON, which have no metadata, by the column `hard_end`."""
    if HARD_END not in table.column_names or pc.unique(table.column(HARD_END)).to_pylist() != ["high"]:
        return table
    return noted_as_hardness(table.drop_columns([HARD_END]))


def with_mark(table: pa.Table) -> pa.Table:
    """The table for a format without metadata: a hardness table gets the column `hard_end`."""
    return table.append_column(HARD_END, pa.array(["high"] * len(table))) if is_hardness(table.schema) else table


def _read_csv(path: Place) -> pa.Table:
    kinds = {"id": pa.string(), "path": pa.string(), "split": pa.string(), "status": pa.string()}
    table = read_csv(path, "not a readable scores table", kinds)
    for name in CLASSES:
        if name in table.column_names and holds_names(table.schema.field(name).type):
            text = as_text(table.column(name))
            known = pc.if_else(pc.equal(text, str(UNLABELED)), None, text)
            table = table.set_column(table.column_names.index(name), name, known)
    if "label" in table.column_names and holds_names(table.schema.field("label").type) and not are_scores(table.column_names):
        raise FileError(f"{path}: a table of scores has class numbers in label. Score a table of features first: {SCORE_IT}.")
    return table if "id" not in table.column_names else with_ids(path, table, with_formulas(table.column("id")))


def _read_json(path: Place) -> pa.Table:
    with reading(path, "not a readable scores table"):
        rows = read_json(path, "not a readable scores table")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise FileError(f"{path}: not a scores table in JSON: it must hold a list of rows.")
        return pa.Table.from_pylist(rows)


@dataclass
class Summary:
    """Summary of a table, gathered part by part: counts, accuracy, means and the hardest samples."""

    by: str = "avh"
    top: int = 10
    otherwise: str | None = None  # ranks the samples if none has a value of `by`: without labels
    num_classes: int | None = None  # default: counted from the labels
    num_samples: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    judged: int = 0
    correct: int = 0
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)
    rankings: dict[str, pa.Table] = field(default_factory=dict)  # the hardest samples by `by`, and by `otherwise`
    hardness: bool = False  # whether this is a hardness table

    def __post_init__(self) -> None:
        self.counting = self.num_classes is None

    @property
    def ranked_by(self) -> str:
        """The score that ranks the samples."""
        return next((name for name in (self.by, self.otherwise) if name and len(self.rankings.get(name, ()))), self.by)

    @property
    def hardest(self) -> pa.Table | None:
        """The hardest samples."""
        return self.rankings.get(self.ranked_by)

    @property
    def accuracy(self) -> float | None:
        """Share of labeled samples that are predicted correctly; None if none is labeled."""
        return self.correct / self.judged if self.judged else None

    @property
    def means(self) -> dict[str, float | None]:
        """Mean of each score over the rows that have it."""
        return {name: total / count if count else None for name, (total, count) in self.sums.items()}

    def add(self, part: pa.Table) -> None:
        """Add the next rows."""
        self.num_samples += len(part)
        self.hardness = is_hardness(part.schema)
        for entry in pc.value_counts(part.column("status")).to_pylist():
            self.statuses[entry["values"]] = self.statuses.get(entry["values"], 0) + entry["counts"]
        if self.counting:
            highest = pc.max(part.column("label")).as_py()
            self.num_classes = self.num_classes if highest is None else max(self.num_classes or 0, highest + 1)
        right = pc.equal(part.column("label"), part.column("predicted")).drop_null()
        self.judged += len(right)
        self.correct += pc.sum(right.cast(pa.int64())).as_py() or 0
        for name in part.column_names[4:]:
            column = part.column(name)
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = (total + (pc.sum(column).as_py() or 0.0), count + len(column) - column.null_count)
        for name in [self.by] if len(self.rankings.get(self.by, ())) else [self.by, self.otherwise]:
            if name is not None and name in part.column_names:
                both = [self.rankings[name], part] if name in self.rankings else [part]
                self.rankings[name] = hardest(pa.concat_tables(both), name, self.top)

    def as_dict(self) -> dict[str, Any]:
        """Values for run.json."""
        return {
            "samples": self.num_samples,
            "classes": self.num_classes,
            "accuracy": self.accuracy,
            "statuses": self.statuses,
            "means": self.means,
        }


class TableWriter(AbstractContextManager["TableWriter"]):
    """Write a table part by part; the file appears under its name only when complete.

    Parquet has class names and the mark of a hardness table in its metadata. The other formats have no metadata: names stand in
    place of class numbers, and the mark is a column.
    """

    def __init__(self, path: str | os.PathLike[str], schema: pa.Schema) -> None:
        self.path = place(path)
        self.format = check_format(self.path)
        self.schema = schema if self.format == ".parquet" else _as_read(schema.empty_table()).schema

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            temporary = stack.enter_context(replacing(self.path, table=table_kind(self.schema.names)))
            if self.format == ".parquet":
                writer = pq.ParquetWriter(temporary, self.schema, compression="zstd", write_page_checksum=True)
                self.parts: Any = stack.enter_context(writer)
            elif self.format == ".csv":
                self.parts = stack.enter_context(pacsv.CSVWriter(str(temporary), self.schema))
            else:
                self.parts = stack.enter_context(temporary.open("w", encoding="utf-8"))
                stack.push(self._end_of_list)
                self.parts.write("[")
                self.rows_before = False
            self.stack = stack.pop_all()  # everything is open: from here on __exit__ closes it
        return self

    def write(self, part: pa.Table) -> None:
        """Append rows."""
        if self.format == ".parquet":
            self.parts.write_table(plain(part))
        elif self.format == ".csv":
            self.parts.write_table(without_formulas(_as_read(plain(part))))
        else:
            for row in finite_or_null(_as_read(plain(part))).to_pylist():
                self.parts.write((",\n" if self.rows_before else "\n") + json.dumps(row, allow_nan=False, ensure_ascii=False))
                self.rows_before = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stack.__exit__(kind, error, trace)

    def _end_of_list(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.parts.write("\n]\n")


def _as_read(table: pa.Table) -> pa.Table:
    return with_mark(with_class_names(table))


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a whole table at once."""
    with TableWriter(path, table.schema) as writer:
        writer.write(table)

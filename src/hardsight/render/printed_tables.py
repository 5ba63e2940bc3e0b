"""`--table FILE`: the tables that a command printed, as a file.

.csv, .json and .parquet hold one table with full numbers: the first goes to FILE, each further one beside it under its own name.
.tex and .md hold all of them, as they are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardsight.errors import FileError, InputError
from hardsight.files.kinds import FORMATS
from hardsight.files.places import place
from hardsight.files.writing import check_output, is_same_file, write_text
from hardsight.render.latex import escaped, numbers, tabular
from hardsight.screen import Shown, ShownTable, printable, spoken
from hardsight.table import write_table

ENDINGS = (".csv", ".tex", ".md", ".json", ".parquet")


def check_tables(path: Path, others: Iterable[Any] = ()) -> None:
    """Refuse a file that cannot be written, or that another option or argument names, before anything slow."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: tables are written as {', '.join(ENDINGS)}: give a name with one of these endings.")
    check_output(place(path))
    if any(is_same_file(place(path), name) for value in others for name in _names(value)):
        raise InputError(f"--table {path}: this command reads or writes that file already; give another name.")


def _names(value: Any) -> Iterator[str | Path]:
    """What may be a file in the value of an option: all of it, or what follows `name=`."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _names(each)
    elif isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        yield value
        yield value.partition("=")[2]


def write_tables(tables: Sequence[ShownTable], path: Path, outputs: Sequence[str] = ()) -> list[Path]:
    """Write the tables; returns the files. `outputs` are the files that the command has written, which stay."""
    if path.suffix.lower() in FORMATS:
        return _write_rows(Shown(tables=list(tables)).records(), path, outputs)
    _check_not_an_output(path, outputs)
    text = "\n".join(map(as_latex if path.suffix.lower() == ".tex" else as_markdown, tables))
    write_text(path, text)
    return [path]


def _check_not_an_output(path: Path, outputs: Sequence[str]) -> None:
    if any(is_same_file(path, output) for output in outputs):
        raise FileError(f"{path} is an output of this command; give --table another name.")


def _write_rows(tables: dict[str, list[dict[str, Any]]], path: Path, outputs: Sequence[str]) -> list[Path]:
    written: list[Path] = []
    for name, rows in tables.items():
        beside = path.with_name(f"{path.stem}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}{path.suffix}")
        written.append(beside if written else path)
        _check_not_an_output(written[-1], outputs)
        write_table(as_arrow(rows, flat=path.suffix.lower() == ".csv"), written[-1])
    return written


def as_arrow(rows: Sequence[dict[str, Any]], flat: bool = False) -> pa.Table:
    """Rows as Arrow; `flat` leaves out lists, which a CSV has none of."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    return pa.table({name: column for name, column in columns.items() if not (flat and pa.types.is_nested(column.type))})


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.array(values, pa.string())  # a CSV has no column without a type
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


def arrow_tables(tables: Iterable[ShownTable]) -> dict[str, pa.Table]:
    """Printed tables by name, with full numbers; tables of one name are joined."""
    return {name: as_arrow(rows) for name, rows in Shown(tables=list(tables)).records().items()}


def as_latex(table: ShownTable) -> str:
    """A table environment with what was printed."""
    rows = [[*map(escaped, row[: table.words]), *map(numbers, row[table.words :])] for row in table.rows]
    return tabular([escaped(_spoken(name)) for name in table.header], rows, escaped(_spoken(_caption(table))), table.words)


def _spoken(text: str) -> str:
    """Text with the names of scores as people say them: AVH for avh, angular gap for angular_gap."""
    from hardsight.scores import SCORES

    return re.sub(r"\w+", lambda word: spoken(word[0]) if word[0] in SCORES else word[0], text)


def as_markdown(table: ShownTable) -> str:
    """A table of GitHub's Markdown with what was printed."""
    rules = [":--" if index < table.words else "--:" for index in range(len(table.header))]
    lines = [_line(map(markdown_text, table.header)), _line(rules), *(_line(map(markdown_text, row)) for row in table.rows)]
    return "\n".join([f"**{markdown_text(_caption(table))}**", "", *lines, ""])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|`*_<\[\]])", r"\\\1", printable(text)).replace("\n", " ")


def _caption(table: ShownTable) -> str:
    shared = ", ".join(f"{name} {value}" for name, value in table.of.items())
    return "; ".join(filter(None, [table.title or table.name, shared]))

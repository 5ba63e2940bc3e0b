"""A result on the screen, as a page (.html), and its printed tables as files: .tex, .md, and for `--table` .csv, .json, .parquet.

.csv, .json and .parquet hold one table with full numbers: the first goes to FILE, each further one beside it under its own name.
.tex and .md hold all of them, as they are printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hardsight.errors import FileError, InputError
from hardsight.files.kinds import FORMATS
from hardsight.files.places import place
from hardsight.files.writing import check_output, is_same_file, write_text
from hardsight.render import html_page
from hardsight.screen import Sentence, Shown, ShownTable, print_line, print_warning, printable, show_table, spoken
from hardsight.table import write_table

if TYPE_CHECKING:
    from hardsight.result import Result

ENDINGS = (".csv", ".tex", ".md", ".json", ".parquet")


def show(result: Result) -> None:
    """Print a result: its notes, its sentences and its tables."""
    for note in result.notes:
        print_warning(note)
    show_lines(result.lines())


def show_lines(lines: Iterable[Sentence | ShownTable]) -> None:
    """Print sentences and tables."""
    for item in lines:
        if isinstance(item, Sentence):
            print_line(item.text, **item.facts)
        else:
            show_table(item)


def write_document(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a page or the printed tables, by the extension of the path."""
    target = place(path)
    ending = target.suffix.lower()
    if ending == ".html":
        text = as_page(result)
    elif ending in (".tex", ".md"):
        text = as_printed([item for item in result.lines() if isinstance(item, ShownTable)], ending)
    else:
        raise InputError(f"{path}: a result is saved as .parquet, .csv, .json, .tex, .md or .html; give one of these endings.")
    write_text(target, text)


def as_page(
    result: Result, figures: Sequence[Path] | None = None, start: Mapping[str, Any] | None = None, command: str | None = None
) -> str:
    """The result as one HTML file: what is printed, the figures, and further tables.

    Args:
        figures: files of the figures, where they are drawn already.
        start: start.json of its run, which says how it was made.
        command: what read it from there, if another one.
    """
    from hardsight.render.saving import png_bytes

    parts = [html_page.paragraph(note, "no") for note in result.notes]
    parts += [_html(item) for item in result.lines()]
    if figures is None:
        parts += [html_page.drawn(png_bytes(figure), name) for name, figure in result.figures().items()]
    else:
        parts.append(html_page.figures(figures, wide=True))
    parts += [_html(item, result.folded) for item in result.details()]
    if start is not None:
        parts.append(html_page.again(start.get("words"), command))
        parts += [html_page.settings(start)] if {"arguments", "versions"} <= start.keys() else []
    where = "" if result.run is None or start is not None else str(result.run)  # in its run, it is the same wherever that lies
    return html_page.page(result.title or type(result).__name__, where, *parts)


def _html(item: Sentence | ShownTable, folded: bool = False) -> str:
    if isinstance(item, Sentence):
        return html_page.paragraph(item.text)
    table = html_page.table(item.header, item.rows, words=item.words)
    if folded:
        return html_page.folded(_caption(item), table)
    return html_page.heading(item.title) + table if item.title else table


# Printed tables as files


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
    write_text(path, as_printed(tables, path.suffix.lower()))
    return [path]


def as_printed(tables: Iterable[ShownTable], ending: str) -> str:
    """Tables as the text of a .tex or .md file."""
    return "\n".join(map(as_latex if ending == ".tex" else as_markdown, tables))


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
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(_spoken(_caption(table)))}}}",
        rf"\begin{{tabular}}{{{'l' * table.words}{'r' * (len(table.header) - table.words)}}}",
        r"\hline",
    ]
    lines += [_row([escaped(_spoken(name)) for name in table.header]), r"\hline", *map(_row, rows)]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}", ""])


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


# LaTeX: escaped text, and plain `tabular` tables that need no package

ESCAPES = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "–": "--", "−": "$-$", "±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "≤": r"$\leq$", "…": r"\dots{}",
}  # fmt: skip
SPECIAL = re.compile("[" + re.escape("".join(ESCAPES)) + "]")


def escaped(text: str) -> str:
    r"""Text escaped for LaTeX.

    Example:
        >>> escaped("norm_in_class, 95 %")
        'norm\\_in\\_class, 95 \\%'
    """
    return SPECIAL.sub(lambda match: ESCAPES[match[0]], "".join(c for c in text if c.isprintable()))


def numbers(text: str) -> str:
    r"""Text escaped for LaTeX, its numbers as they are set: a minus instead of a hyphen, and powers of ten.

    Example:
        >>> numbers("-25.2 [-31.0, 1e-05]")
        '$-$25.2 [$-$31.0, $10^{-5}$]'
    """
    minus = re.sub(r"(?<![\w.-])-(?=[.\d])", "−", text)
    return re.sub(r"(?<![\w.])(\d[\d.]*)e([+-]\d+)(?!\w)", _power, escaped(minus))


def _power(number: re.Match[str]) -> str:
    times = "" if number[1] == "1" else rf"{number[1]} \times "
    return f"${times}10^{{{int(number[2])}}}$"


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    guarded = f"{{}}{first}" if first.startswith("[") else first  # after \\, a bracket would be read as a length
    return " & ".join([guarded, *others]) + r" \\"

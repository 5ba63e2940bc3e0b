"""Words on the screen: names made harmless, tables and progress in one style, and what was shown kept for `--json` and files.

A command says things through `print_line`, `print_table`, `print_wrote`, `print_warning` and `print_next`. Inside `showing`,
which the options `--json`, `--quiet` and `--table` open, the same calls also keep the values behind the words.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

LONGEST = 60
LONGEST_NAME = 40  # in what an object says of itself
WIDTH = 100  # letters of such a line
FIRST_LINE, LONGEST_GAP = 10.0, 60.0  # seconds: of progress in a log, when it starts and how far lines are apart at most


def printable(text: str, longest: int | None = None) -> str:
    """Control, bidirectional and other invisible characters as visible escapes; long names cut.

    Example:
        >>> printable("cat\\x1b[31m")
        'cat\\\\x1b[31m'
    """
    shown = "".join(c if c == "\n" or not unicodedata.category(c).startswith("C") else repr(c)[1:-1] for c in text)
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


class Cell(str):
    """Text in a table, with the value that it shows: tables as JSON or CSV hold the value.

    A value may have parts, as an interval has ends: {"": 0.5, "low": 0.4, "high": 0.6} is x, x_low and x_high in column x.
    In a header, the value is the column's name.

    Example:
        >>> cell = Cell("72.3 %", 0.7231)
        >>> cell, cell.value
        ('72.3 %', 0.7231)
    """

    value: Any

    def __new__(cls, text: str, value: Any) -> Cell:
        cell = super().__new__(cls, text)
        cell.value = value
        return cell

    def __getnewargs__(self) -> tuple[str, Any]:  # type: ignore[override]
        return str(self), self.value  # what a copy is made from


def number(value: Any, form: str = ".4g") -> Cell:
    """Four digits, or a dash where there is none."""
    if value is None:
        return Cell("–", None)
    return Cell(str(value) if isinstance(value, (int, str)) and form == ".4g" else f"{value:{form}}", value)


def percent(share: float | None, deviation: float | None = None, digits: int = 2) -> Cell:
    """A share as a percentage, with its standard deviation where there is one; a dash where it is not known.

    Example:
        >>> percent(0.7231), percent(0.7231, 0.0028), percent(None)
        ('72.31', '72.31 ± 0.28', '–')
    """
    if share is None:
        return Cell("–", None)
    shown = f"{100 * share:.{digits}f}"
    return (
        Cell(shown, share)
        if deviation is None
        else Cell(f"{shown} ± {100 * deviation:.{digits}f}", {"": share, "std": deviation})
    )


def interval(low: float | None, high: float | None, digits: int = 3, factor: float = 1.0) -> Cell:
    """Where a difference or a coefficient lies; a dash where it is not known. With `factor` 100, shares become points.

    Example:
        >>> interval(-0.25, 0.5), interval(0.011, 0.038, 2, factor=100)
        ('[-0.250, +0.500]', '[+1.10, +3.80]')
    """
    ends = {"low": low, "high": high}
    if low is None or high is None:
        return Cell("–", ends)
    return Cell(f"[{factor * low:+.{digits}f}, {factor * high:+.{digits}f}]", ends)


def beside(cell: str, bounds: str) -> Cell:
    """A number and its interval in one cell.

    Example:
        >>> beside(number(0.5), interval(0.4, 0.6, 1)).value
        {'': 0.5, 'low': 0.4, 'high': 0.6}
    """
    return Cell(f"{cell} {bounds}", {"": value_of(cell), **value_of(bounds)})


def value_of(cell: str) -> Any:
    """What a cell shows: its value, or its text; none where there is only a dash."""
    return cell.value if isinstance(cell, Cell) else None if cell == "–" else cell


@dataclass(frozen=True)
class ShownTable:
    """A table as it is printed; `of` holds what all its rows share and the screen says above it."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str | None
    words: int  # columns of words, the others being numbers
    of: Mapping[str, Any]

    def records(self) -> list[dict[str, Any]]:
        """Its rows as plain values by the names of the columns."""
        keys = [_key(name) for name in self.header]
        return [{**plain_json(self.of), **_flat(zip(keys, row, strict=True))} for row in self.rows]


def _key(name: str) -> str:
    """A column's name in JSON: "mean change" is mean_change."""
    return str(name.value) if isinstance(name, Cell) else re.sub(r"\W+", "_", name).strip("_") or "note"


def _flat(row: Any) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, cell in row:
        value = plain_json(value_of(cell))
        parts = value if isinstance(value, dict) else {"": value}
        flat |= {f"{key}_{part}" if part else key: value for part, value in parts.items()}
    return flat


def plain_json(value: Any) -> Any:
    """A value as JSON has it; what is not a number (NaN, infinite) is null.

    Example:
        >>> plain_json({"a": float("nan"), "b": (1, 2.5)})
        {'a': None, 'b': [1, 2.5]}
    """
    if hasattr(value, "tolist"):  # a NumPy array or number
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    return [plain_json(item) for item in value] if isinstance(value, (list, tuple)) else str(value)


@dataclass
class Shown:
    """All that a command showed: numbers that its sentences say, tables, warnings, files and what to do next."""

    json: bool = False  # tables are not drawn: one document follows
    quiet: bool = False
    summary: dict[str, Any] = field(default_factory=dict)
    tables: list[ShownTable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    next: str | None = None

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of every table, by its name; tables of one name follow each other."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in self.tables:
            rows.setdefault(table.name, []).extend(table.records())
        return rows

    def document(self, command: str, version: str) -> dict[str, Any]:
        """All of it as one JSON document."""
        return {
            "hardsight": version,
            "command": command,
            "summary": plain_json(self.summary),
            "tables": self.records(),
            "warnings": self.warnings,
            "files": self.files,
            "next": self.next,
        }


_shown = Shown()


@contextmanager
def showing(json: bool = False, quiet: bool = False) -> Iterator[Shown]:
    """Keep what is shown inside. With `json`, tables are not drawn; with `quiet`, neither warnings nor progress appear."""
    global _shown
    before, _shown = _shown, Shown(json, quiet)
    try:
        yield _shown
    finally:
        _shown = before


def print_line(sentence: str, /, **facts: Any) -> None:
    """A sentence for the user on standard output, at once, and the numbers in it by name."""
    _shown.summary.update(facts)
    print(printable(sentence), flush=True)


def print_warning(sentence: str) -> None:
    """A warning on standard error."""
    _shown.warnings.append(sentence)
    if not _shown.quiet:
        print(f"warning: {printable(sentence)}", file=sys.stderr, flush=True)


def print_wrote(path: Any, more: str = "") -> None:
    """Say which file was written."""
    _shown.files.append(str(path))
    print(f"wrote {printable(str(path))}{more}", flush=True)


def print_next(*words: Any) -> None:
    """The command that users run next, as they would type it."""
    _shown.next = shlex.join(map(str, words))
    print(f"next: {printable(_shown.next)}", flush=True)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, words: int = 1,
    name: str = "table", of: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """A plain table on standard output; the first columns hold words, the others numbers.

    `name` and `of` are for machines: the table's name, and columns that the screen does not repeat.
    """
    _shown.tables.append(ShownTable(name, header, rows, title, words, of or {}))
    if _shown.json:
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    for index, column in enumerate(header):
        table.add_column(column, justify="left" if index < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell, LONGEST)) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(table)


def aligned(rows: Sequence[Sequence[str]], words: Sequence[bool]) -> list[str]:
    """Lines of a plain table: columns of words to the left, numbers to the right.

    Example:
        >>> aligned([["score", "mean"], ["avh", "0.25"], ["norm", "12"]], [True, False])
        ['  score  mean', '  avh    0.25', '  norm     12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, words, strict=True)
        return "  " + "  ".join(cell.ljust(width) if left else cell.rjust(width) for cell, width, left in cells).rstrip()

    return [line(row) for row in rows]


def wrapped(start: str, words: Sequence[str], most: int) -> list[str]:
    """Words with commas between them in at most `most` lines; how many are left out is said.

    Example:
        >>> wrapped("columns: ", ["id", "label"], most=2)
        ['columns: id, label']
    """
    lines, left = [start], list(words)
    while left:
        word = printable(left[0], LONGEST) + ("," if len(left) > 1 else "")
        if len(lines[-1]) + len(word) + 1 > WIDTH and lines[-1].strip():
            if len(lines) == most:
                lines[-1] += f" and {len(left)} more"
                break
            lines.append(" " * len(start))
        lines[-1] += word if lines[-1] in (start, " " * len(start)) else f" {word}"
        left.pop(0)
    return lines


def table_lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, most: int = 12) -> list[str]:
    """Rows of a table as lines of text, the first of them only.

    Example:
        >>> table_lines([{"method": "source", "accuracy": 0.5}, {"method": "cbst", "accuracy": 0.625}])
        ['  method  accuracy', '  source       0.5', '  cbst       0.625']
    """
    if not rows:
        return []
    names = [name for name in columns or rows[0] if name in rows[0]]
    cells = [[printable(number(row[name]), LONGEST_NAME) for name in names] for row in rows[:most]]
    left = [any(isinstance(row[name], (str, bool)) for row in rows) for name in names]
    return aligned([names, *cells], left) + ([f"  and {len(rows) - most} more"] if len(rows) > most else [])


def brief(thing: Any) -> str:
    """A few lines for a dataclass that holds arrays and tables, with their shapes instead of their values: its `__repr__`."""
    parts = [f"{item.name}={_brief_value(getattr(thing, item.name))}" for item in fields(thing) if item.repr]
    return "\n".join(wrapped(f"{type(thing).__name__}(", parts, most=12)) + ")"


def _brief_value(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(printable(value, LONGEST))
    if hasattr(value, "num_rows") and hasattr(value, "column_names"):
        return f"table of {value.num_rows} rows, {len(value.column_names)} columns"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"array {tuple(value.shape)} {value.dtype}"
    if isinstance(value, PurePath):
        return repr(str(value))
    if hasattr(value, "__len__"):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def keep_table(name: str, rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """A table that is too long for the screen: only --json and --table have it."""
    columns = list(rows[0]) if rows else []
    cells = [[Cell(str(row[column]), row[column]) for column in columns] for row in rows]
    _shown.tables.append(ShownTable(name, [Cell(column, column) for column in columns], cells, title, 1, {}))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """Progress on standard error with rate and time left; call it with what is done, what there is in all, and new words.

    A bar on a terminal; plain lines in a log, the first one after ten seconds.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    console = Console(stderr=True)
    if not console.is_terminal or _shown.quiet:
        yield ProgressLines(what, quiet=_shown.quiet)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, words=what: bar.update(task, completed=done, total=total, description=words)


class ProgressLines:
    """Progress in a log: a line now and then, each with a new estimate of the time left. Gaps double up to a minute."""

    def __init__(self, what: str, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.quiet, self.clock = what, quiet, clock
        self.gap, self.due = FIRST_LINE, clock() + FIRST_LINE
        self.began: tuple[float, int, int | None] | None = None  # when this count began, where it stood, what there is in all

    def __call__(self, done: int, total: int | None, words: str | None = None) -> None:
        now = self.clock()
        if self.began is None or total != self.began[2] or done < self.began[1]:
            self.began = (now, done, total)  # another count: its pace is its own
        if self.quiet or now < self.due:
            return
        self.gap = min(2 * self.gap, LONGEST_GAP)
        self.due = now + self.gap
        print(f"{printable(words or self.what)}: {self._words(done, total, now)}", file=sys.stderr, flush=True)

    def _words(self, done: int, total: int | None, now: float) -> str:
        assert self.began is not None
        if not total:
            return f"{done:,} done"
        begun, before, _ = self.began
        said = f"{done:,} of {total:,} ({100 * done / total:.0f} %)"
        if done == before or now == begun:
            return said
        return f"{said}, about {time_in_words((total - done) * (now - begun) / (done - before))} left"


def time_in_words(seconds: float) -> str:
    """A length of time for people.

    Example:
        >>> time_in_words(12.3), time_in_words(200), time_in_words(7500)
        ('12 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

"""Terminal output: escaped names, tables and progress in one style, and everything shown recorded for `--json` and files.

Commands print through `print_line`, `print_table`, `print_wrote`, `print_warning` and `print_next`. Inside `showing`, which the
options `--json`, `--quiet` and `--table` activate, the same calls also record the values behind the text.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
import textwrap
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

from hardsight.version import VERSION

__all__ = [
    "Cell", "Progress", "Say", "interval", "keep_table", "number", "percent", "plain_json", "print_line", "print_next",
    "print_table", "print_warning", "print_wrote", "progress_bar",
]  # fmt: skip

Progress = Callable[..., None]  # called with what is done, what there is in all and, in a long command, what is going on
Say = Callable[[str], None]  # called with a sentence for the user

LONGEST = 60
LONGEST_NAME = 40  # in the repr of an object
WIDTH, MOST_WORDS = 100, 500  # characters per line of a repr, and words in a list
FIRST_LINE, LONGEST_GAP = 10.0, 60.0  # seconds until the first line of progress in a log, and the longest gap between lines


def spoken(name: str) -> str:
    """A column's name as people say it: "AVH" for avh."""
    return {"avh": "AVH", "avh_relative": "AVH × classes", "el2n": "EL2N", "aum": "AUM"}.get(name, name.replace("_", " "))


def printable(text: str, longest: int | None = None) -> str:
    """Escape control, bidirectional and other invisible characters, and truncate long names.

    Example:
        >>> printable("cat\\x1b[31m")
        'cat\\\\x1b[31m'
    """
    shown = "".join(c if c == "\n" or not unicodedata.category(c).startswith("C") else repr(c)[1:-1] for c in text)
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


def first_few(names: Sequence[object], most: int = 5) -> str:
    """The first names, those with a comma in quotes, and how many more there are.

    Example:
        >>> first_few(["cat", "bee, large", "ant"], most=2)
        "cat, 'bee, large' and 1 more"
    """
    shown = ", ".join(repr(str(name)) if "," in str(name) else str(name) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


class Cell(str):
    """Text in a table together with its value, which is what JSON and CSV tables hold.

    A value may have parts, like the ends of an interval: {"": 0.5, "low": 0.4, "high": 0.6} is x, x_low and x_high in column x.
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
        return str(self), self.value  # for copy and pickle


def number(value: Any, form: str = ".4g") -> Cell:
    """A number with four digits, or a dash if there is none."""
    if value is None:
        return Cell("–", None)
    return Cell(str(value) if isinstance(value, (int, str)) and form == ".4g" else f"{value:{form}}", value)


def percent(share: float | None, deviation: float | None = None, digits: int = 2) -> Cell:
    """A share as a percentage, with its standard deviation if there is one; a dash if it is unknown.

    Example:
        >>> percent(0.7231), percent(0.7231, 0.0028), percent(None)
        ('72.31', '72.31 ± 0.28', '–')
    """
    if share is None:
        return Cell("–", None)
    shown = f"{100 * share:.{digits}f}"
    if deviation is None:
        return Cell(shown, share)
    return Cell(f"{shown} ± {100 * deviation:.{digits}f}", {"": share, "std": deviation})


def interval(low: float | None, high: float | None, digits: int = 3, factor: float = 1.0, sign: str = "+") -> Cell:
    """The interval of a difference or a coefficient; a dash if it is unknown. With `factor` 100, shares become points.

    With `sign` "", numbers above 0 have none: the interval of a share.

    Example:
        >>> interval(-0.25, 0.5), interval(0.011, 0.038, 2, factor=100)
        ('[-0.250, +0.500]', '[+1.10, +3.80]')
    """
    ends = {"low": low, "high": high}
    if low is None or high is None:
        return Cell("–", ends)
    return Cell(f"[{factor * low:{sign}.{digits}f}, {factor * high:{sign}.{digits}f}]", ends)


def beside(cell: str, bounds: str) -> Cell:
    """A number and its interval in one cell.

    Example:
        >>> beside(number(0.5), interval(0.4, 0.6, 1)).value
        {'': 0.5, 'low': 0.4, 'high': 0.6}
    """
    return Cell(f"{cell} {bounds}", {"": value_of(cell), **value_of(bounds)})


def value_of(cell: str) -> Any:
    """The value of a cell, or its text if it has none; None for a dash."""
    return cell.value if isinstance(cell, Cell) else None if cell == "–" else cell


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the numbers in it by name."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def line(text: str, /, **facts: Any) -> Sentence:
    """A sentence of a result, with its numbers by name for JSON.

    Example:
        >>> line("n = 3", samples=3).facts
        {'samples': 3}
    """
    return Sentence(text, facts)


@dataclass(frozen=True)
class ShownTable:
    """A printed table; `of` holds columns shared by all rows, which the screen shows above the table."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str | None = None
    words: int = 1  # number of text columns; the others are numeric
    of: Mapping[str, Any] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain values, keyed by column name."""
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
    """A value for JSON; NaN and infinity become null.

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
    """Everything a command showed: the numbers in its sentences, tables, warnings, files and the next command."""

    json: bool = False  # print one document at the end instead of tables
    quiet: bool = False
    summary: dict[str, Any] = field(default_factory=dict)
    tables: list[ShownTable] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    next: str | None = None

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of every table by name; tables with the same name are concatenated."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in self.tables:
            rows.setdefault(table.name, []).extend(table.records())
        return rows

    def document(self, command: str) -> str:
        """Everything as the JSON of `--json`: warnings come before the numbers that they are about."""
        document = {
            "hardsight": VERSION,
            "command": command,
            "warnings": self.warnings,
            "summary": plain_json(self.summary),  # the numbers in the sentences of `Result.lines`
            "tables": self.records(),  # its tables by name, with full numbers
            "files": self.files,
            "next": self.next,
        }
        return json.dumps(document, indent=2, allow_nan=False)


_shown = _outside = Shown()  # while no command runs


@contextmanager
def showing(json: bool = False, quiet: bool = False) -> Iterator[Shown]:
    """Record what is shown inside. `json` suppresses tables; `quiet` suppresses warnings and progress."""
    global _shown
    before, _shown = _shown, Shown(json, quiet)
    try:
        yield _shown
    finally:
        _shown = before


def print_line(sentence: str, /, **facts: Any) -> None:
    """Print a sentence to standard output, flush it, and record its numbers by name."""
    _shown.summary.update(facts)
    print(printable(sentence), flush=True)


def print_warning(sentence: str) -> None:
    """Print a warning to standard error."""
    if sentence in _shown.warnings:  # said when the samples were opened, and again by the result
        return
    _shown.warnings.append(sentence)
    if not _shown.quiet:
        print(f"warning: {printable(sentence)}", file=sys.stderr, flush=True)


def print_if_quiet(sentences: Sequence[str]) -> None:
    """Print why a command fails where nothing else is printed, to standard error."""
    for sentence in sentences if _shown.quiet else ():
        print(printable(sentence), file=sys.stderr, flush=True)


def print_in_command(sentence: str) -> None:
    """Print a sentence if a command runs; in Python, results say it themselves."""
    if _shown is not _outside:
        print_line(sentence)


def warn(sentence: str) -> None:
    """A warning of the command that runs, or a `UserWarning` in Python."""
    if _shown is _outside:
        warnings.warn(sentence, stacklevel=4)
    else:
        print_warning(sentence)


def warn_in_python(sentences: Sequence[str]) -> None:
    """A `UserWarning` each where no command runs, which prints the notes of its result itself."""
    if _shown is _outside:
        for sentence in sentences:
            warnings.warn(sentence, stacklevel=3)


def print_wrote(path: Any, more: str = "") -> None:
    """Report which file was written."""
    _shown.files.append(str(path))
    print(f"wrote {printable(str(path))}{more}", flush=True)


def print_next(*words: Any) -> None:
    """Suggest the next command, as the user would type it."""
    _shown.next = shlex.join(map(str, words))
    print(f"next: {printable(_shown.next)}", flush=True)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, words: int = 1,
    name: str = "table", of: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Print a plain table to standard output; the first `words` columns hold text, the others numbers.

    `name` and `of` are for JSON and files: the table's name, and columns that the screen does not repeat.
    """
    show_table(ShownTable(name, header, rows, title, words, of or {}))


def show_table(shown: ShownTable) -> None:
    """Print a table, and record it."""
    _shown.tables.append(shown)
    if _shown.json:
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=shown.title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    for index, column in enumerate(shown.header):
        table.add_column(column, justify="left" if index < shown.words else "right", overflow="fold")
    for row in shown.rows:
        table.add_row(*(Text(printable(cell, LONGEST)) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(table)


def aligned(rows: Sequence[Sequence[str]], words: Sequence[bool]) -> list[str]:
    """Lines of a plain table: text columns aligned left, numbers right.

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
    """Comma-separated words in at most `most` lines, ending with "and more" where some were left out.

    Example:
        >>> wrapped("columns: ", ["id", "label"], most=2)
        ['columns: id, label']
    """
    text = ", ".join(printable(word, LONGEST) for word in words[:MOST_WORDS])
    indent, ending = " " * len(start), ", and more" * (len(words) > MOST_WORDS)
    return textwrap.wrap(
        text + ending, WIDTH, initial_indent=start, subsequent_indent=indent, max_lines=most, placeholder=" and more",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def brief(thing: Any) -> str:
    """A short `__repr__` for a dataclass of arrays and tables, with their shapes instead of their values."""
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


def keep_table(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record a table that is too long for the screen, for --json and --table only."""
    columns = list(rows[0]) if rows else []
    cells = [[Cell(str(row[column]), row[column]) for column in columns] for row in rows]
    _shown.tables.append(ShownTable(name, [Cell(column, column) for column in columns], cells))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """Progress on standard error with rate and time left; call it with the count, the total and, optionally, a new description.

    A bar on a terminal; plain lines in a log, starting after ten seconds.
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
    """Progress in a log: occasional lines, each with a new estimate of the time left. Gaps double up to a minute."""

    def __init__(self, what: str, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.quiet, self.clock = what, quiet, clock
        self.gap, self.due = FIRST_LINE, clock() + FIRST_LINE
        self.began: tuple[float, int, int | None] | None = None  # time and count at the start, and the total

    def __call__(self, done: int, total: int | None, words: str | None = None) -> None:
        now = self.clock()
        if self.began is None or total != self.began[2] or done < self.began[1]:
            self.began = (now, done, total)  # a new count: restart the rate
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
        count = f"{done:,} of {total:,} ({100 * done / total:.0f} %)"
        if done == before or now == begun:
            return count
        return f"{count}, about {time_in_words((total - done) * (now - begun) / (done - before))} left"


def time_in_words(seconds: float) -> str:
    """A duration in human-readable form.

    Example:
        >>> time_in_words(12.3), time_in_words(200), time_in_words(7500)
        ('12 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

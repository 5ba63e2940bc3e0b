"""Words on the screen: names made harmless, tables and progress bars in one style."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import PurePath
from typing import Any

LONGEST = 60
LONGEST_NAME = 40  # in what an object says of itself
WIDTH = 100  # letters of such a line


def printable(text: str, longest: int | None = None) -> str:
    """Control, bidirectional and other invisible characters as visible escapes; long names cut.

    Example:
        >>> printable("cat\\x1b[31m")
        'cat\\\\x1b[31m'
    """
    shown = "".join(c if c == "\n" or not unicodedata.category(c).startswith("C") else repr(c)[1:-1] for c in text)
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


def number(value: Any) -> str:
    """Four digits, or a dash where there is none."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, (int, str)) else f"{value:.4g}"


def percent(share: float | None, deviation: float | None = None, digits: int = 2) -> str:
    """A share as a percentage, with its standard deviation where there is one; a dash where it is not known.

    Example:
        >>> percent(0.7231), percent(0.7231, 0.0028), percent(None)
        ('72.31', '72.31 ± 0.28', '–')
    """
    if share is None:
        return "–"
    shown = f"{100 * share:.{digits}f}"
    return shown if deviation is None else f"{shown} ± {100 * deviation:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 3, factor: float = 1.0) -> str:
    """Where a difference or a coefficient lies; a dash where it is not known. With `factor` 100, shares become points.

    Example:
        >>> interval(-0.25, 0.5), interval(0.011, 0.038, 2, factor=100)
        ('[-0.250, +0.500]', '[+1.10, +3.80]')
    """
    if low is None or high is None:
        return "–"
    return f"[{factor * low:+.{digits}f}, {factor * high:+.{digits}f}]"


def print_line(sentence: str) -> None:
    """A sentence for the user on standard output, at once."""
    print(printable(sentence), flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, words: int = 1) -> None:
    """A plain table on standard output; the first columns hold words, the others numbers."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < words else "right", overflow="fold")
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
    """Words with commas between them in at most so many lines; how many are left out is said.

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


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error with rate and time left; call it with what is done, what there is in all, and new words."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, words=what: bar.update(task, completed=done, total=total, description=words)

"""Words on the screen: names made harmless, tables and progress bars in one style."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardsight.table import Summary

LONGEST = 60


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


def print_summary(summary: Summary, class_names: Sequence[str] | None) -> None:
    """What `hardsight score` says on the screen: counts, accuracy, means and the hardest samples."""
    from hardsight.scores import SCORES

    accuracy = "–" if summary.accuracy is None else f"{100 * summary.accuracy:.2f} %"
    print(f"n = {summary.num_samples}   c = {number(summary.num_classes)}   accuracy = {accuracy}")
    odd = {name: count for name, count in summary.statuses.items() if name != "ok"}
    if odd:
        print("not fully scored: " + ", ".join(f"{count} {name}" for name, count in sorted(odd.items())))
    means = [(name, number(mean), SCORES[name].hard) for name, mean in summary.means.items()]
    print_table(("score", "mean", "hard end"), means)
    if summary.top == 0:
        return
    if summary.hardest is None or len(summary.hardest) == 0:
        print(f"no sample has a value of {summary.by} to rank by")
        return

    def name_of(label: int | None) -> str:
        return number(label) if class_names is None or label is None else class_names[label]

    shown = [name for name in ("avh", "confidence", "angular_gap") if name in summary.hardest.column_names]
    shown = list(dict.fromkeys([summary.by, *shown]))
    rows = [
        (str(row["id"]), name_of(row["label"]), name_of(row["predicted"]), *(number(row[name]) for name in shown))
        for row in summary.hardest.to_pylist()
    ]
    print_table(("id", "label", "predicted", *shown), rows, title=f"hardest {len(rows)} by {summary.by}", words=3)

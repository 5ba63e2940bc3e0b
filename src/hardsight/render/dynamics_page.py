"""The page of `hardsight dynamics`: what it says, its figures, and the table of epochs, in one HTML file."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hardsight.files.run import command_line, read_start
from hardsight.files.writing import write_text
from hardsight.render import html_page
from hardsight.screen import number

if TYPE_CHECKING:
    from hardsight.dynamics.description import Description


def write_dynamics_page(description: Description, run: Path, path: Path) -> None:
    """Write the page of a run's dynamics."""
    said = [part for tabular, lines in groupby(description.sentences, _is_tabular) for part in _said(list(lines), tabular)]
    start = read_start(run) or {}
    parts = [*said, html_page.figures(description.drawn, wide=True), _epochs(description.table)]
    parts += [html_page.again(start.get("words"), command_line())]
    parts += [html_page.settings(start)] if {"arguments", "versions"} <= start.keys() else []
    sentence = "When AVH settles, whether angles settle before norms, and how far features collapse."
    content = html_page.page(f"Dynamics: {run.resolve().name}", sentence, *parts, style=".step { margin: .2rem 0 .2rem 1.5rem }")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, content, "html")


def _is_tabular(line: str) -> bool:
    return "  " in line.strip()


def _said(lines: list[str], tabular: bool) -> list[str]:
    """Sentences as paragraphs, columns of numbers as they are printed."""
    if tabular:
        return [html_page.as_printed(lines)]
    return [html_page.paragraph(line.strip(), "" if line == line.lstrip() else "step") for line in lines]


def _epochs(table: pa.Table) -> str:
    """The numbers behind the figures; lists, as of histograms, are left out."""
    if len(table) == 0:
        return ""
    names = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    names = [name for name in names if table.column(name).null_count < len(table)]
    rows = [[number(row[name]) for name in names] for row in table.select(names).to_pylist()]
    return html_page.folded("Every epoch", html_page.table([name.replace("_", " ") for name in names], rows))

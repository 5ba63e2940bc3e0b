"""A result on the screen, and as a document: a page (.html), or its printed tables (.tex, .md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardsight.errors import InputError
from hardsight.files.places import place
from hardsight.files.writing import write_text
from hardsight.render import html_page
from hardsight.render.printed_tables import as_latex, as_markdown
from hardsight.screen import Sentence, ShownTable, print_line, print_warning, show_table

if TYPE_CHECKING:
    from hardsight.result import Result

DOCUMENTS = {".tex": as_latex, ".md": as_markdown}


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
    elif ending in DOCUMENTS:
        tables = [item for item in result.lines() if isinstance(item, ShownTable)]
        text = "\n".join(map(DOCUMENTS[ending], tables))
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
    parts += [_html(item) for item in result.details()]
    if start is not None:
        parts.append(html_page.again(start.get("words"), command))
        parts += [html_page.settings(start)] if {"arguments", "versions"} <= start.keys() else []
    where = "" if result.run is None or start is not None else str(result.run)  # in its run, it is the same wherever that lies
    return html_page.page(type(result).__name__, where, *parts)


def _html(item: Sentence | ShownTable) -> str:
    if isinstance(item, Sentence):
        return html_page.paragraph(item.text)
    title = html_page.heading(item.title) if item.title else ""
    return title + html_page.table(item.header, item.rows, words=item.words)

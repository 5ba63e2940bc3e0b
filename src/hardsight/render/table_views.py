"""How a table of scores looks in a terminal and in a notebook: one screen, whatever its size."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from textwrap import fill
from typing import Any

import pyarrow as pa

from hardsight.errors import HardsightError
from hardsight.screen import LONGEST_NAME, aligned, number, printable, wrapped

WIDTH = 100  # of a line of a note
SIDE = 64  # longest side of a thumbnail in a table, in pixels
MOST_BYTES = 100_000  # of all thumbnails in one view
LONGEST_SENTENCE = 160  # of a cell in a notebook, which wraps


@dataclass(frozen=True)
class TableView:
    """What is shown of a table: a headline, sentences about all rows, and some columns of some rows."""

    headline: str
    notes: Sequence[str]
    title: str  # of the rows
    rows: pa.Table  # the hardest, or the first
    shown: Sequence[str]  # columns

    @property
    def is_words(self) -> list[bool]:
        """Whether each shown column holds words rather than amounts."""
        kinds = [self.rows.schema.field(self.rows.column_names.index(name)).type for name in self.shown]
        amounts = [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in kinds]
        return [name == "id" or not amount for name, amount in zip(self.shown, amounts, strict=True)]

    def cells(self, longest: int = LONGEST_NAME) -> list[list[str]]:
        """The rows as words; sentences of at most `longest` letters."""
        rows = self.rows.select([self.rows.column_names.index(name) for name in self.shown]).to_pylist()
        return [[_cell(value, LONGEST_NAME if name == "id" else longest) for name, value in row.items()] for row in rows]


def _cell(value: Any, longest: int) -> str:
    value = f"{value:%Y-%m-%d %H:%M}" if isinstance(value, date) else value
    simple = isinstance(value, (int, float, str)) or value is None
    return printable(number(value) if simple else type(value).__name__, longest)


def as_text(view: TableView) -> str:
    """At most twenty lines or so."""
    notes = [line for note in view.notes for line in fill(printable(note), WIDTH, subsequent_indent="  ").splitlines()]
    table = aligned([view.shown, *view.cells()], view.is_words) if len(view.rows) else []
    return "\n".join([view.headline, *notes, view.title, *table, *wrapped("columns: ", view.rows.column_names, most=3)])


CELL = "padding:2px 10px;vertical-align:middle;text-align:"
HEAD = "border-bottom:1px solid rgba(128,128,128,.4);font-weight:600;" + CELL


def as_html(view: TableView, image_of: Callable[[Any], Any] | None = None) -> str:
    """The same as HTML without a script: it borrows the colors of the page, and pictures are inside it."""
    sides, columns = ["left" if words else "right" for words in view.is_words], view.rows.column_names
    header, rows = list(view.shown), [[f"<bdi>{escape(cell)}</bdi>" for cell in row] for row in view.cells(LONGEST_SENTENCE)]
    pictures = thumbnails(image_of, view.rows.column("id").to_pylist()) if image_of is not None and "id" in columns else []
    if any(pictures):
        header, sides = ["", *header], ["left", *sides]
        rows = [[_img(picture), *row] for picture, row in zip(pictures, rows, strict=True)]
    parts = [f"<div><b>{escape(view.headline)}</b></div>", *(f"<div>{escape(text)}</div>" for text in (*view.notes, view.title))]
    parts += [_table(header, rows, sides)] if rows else []
    if len(columns) > len(view.shown):
        parts.append(f"<div>columns: {escape(', '.join(printable(name, LONGEST_NAME) for name in columns[:40]))}</div>")
    return f"<div>{''.join(parts)}</div>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f'<th style="{HEAD}{side}">{escape(name)}</th>' for name, side in zip(header, sides, strict=True))
    cells = ["".join(f'<td style="{CELL}{side}">{cell}</td>' for cell, side in zip(row, sides, strict=True)) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _img(content: bytes | None) -> str:
    if content is None:
        return "–"
    text = base64.b64encode(content).decode("ascii")
    style = f"height:48px;max-width:{2 * SIDE}px;image-rendering:auto;margin:0"
    return f'<img alt="" style="{style}" src="data:image/webp;base64,{text}">'


def thumbnails(image_of: Callable[[Any], Any], ids: Sequence[Any]) -> list[bytes | None]:
    """Small WebP pictures of samples, as many as fit into MOST_BYTES; None where there is none."""
    made: list[bytes | None] = []
    room = MOST_BYTES
    for id in ids:
        try:
            image = image_of(id)
        except HardsightError:  # a picture that is broken or gone
            image = None
        content = None if image is None else thumbnail(image.copy(), SIDE)
        if content is not None and len(content) > room:
            content = None
        room -= len(content or b"")
        made.append(content)
    return made


def thumbnail(image: Any, side: int) -> bytes:
    """A WebP of at most `side` pixels, small ones without loss. The image itself is reduced: a copy would take as much memory."""
    if max(image.size) > side:
        image.thumbnail((side, side))
    stream = io.BytesIO()
    image = image if image.mode == "RGB" else image.convert("RGB")
    image.save(stream, "WEBP", lossless=max(image.size) <= SIDE, quality=82, method=2)
    return stream.getvalue()

"""How a table of scores looks in a terminal and in a notebook: one screen, whatever its size."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import fill
from typing import Any

import pyarrow as pa

from hardsight.errors import HardsightError
from hardsight.scores import SCORES
from hardsight.screen import LONGEST_NAME, aligned, number, printable, wrapped
from hardsight.table import LABEL_FREE, Summary, hard_end

BESIDE = ("avh", "confidence", "angular_gap")  # scores shown beside the one that ranks
MOST_COUNTS = 6  # words that are counted in the headline
WIDTH = 100  # of a line of a note
SIDE = 64  # longest side of a thumbnail, in pixels
MOST_BYTES = 100_000  # of all thumbnails in one view


@dataclass(frozen=True)
class TableView:
    """What is shown of a table."""

    name: str  # of the class
    rows: pa.Table | None  # the hardest, or the first
    num_rows: int
    columns: list[str]
    class_names: list[str] | None = None
    by: str | None = None  # the column that ranks, where there is one
    summary: Summary | None = None
    counts: dict[str, int] = field(default_factory=dict)  # rows by the words of one column
    chosen: tuple[str, ...] = ()  # columns to show
    notes: Sequence[str] = ()  # sentences about all rows

    @property
    def headline(self) -> str:
        """Counts and accuracy in one line."""
        if self.summary is None:
            counts = sorted(self.counts.items(), key=lambda entry: -entry[1])
            words = ", ".join(f"{count:,} {printable(name, LONGEST_NAME)}" for name, count in counts[:MOST_COUNTS])
            more = ", ..." * (len(counts) > MOST_COUNTS)
            return f"{self.num_rows:,} rows, {len(self.columns)} columns" + (f": {words}{more}" if words else "")
        summary, parts = self.summary, [f"{self.num_rows:,} sample{'s' * (self.num_rows != 1)}"]
        if summary.num_classes:
            parts.append(f"{summary.num_classes} class{'es' * (summary.num_classes != 1)}")
        if summary.accuracy is not None:
            parts.append(f"accuracy {100 * summary.accuracy:.2f} %")
        return ", ".join(parts)

    @property
    def odd(self) -> str | None:
        """Rows that are not fully scored, and why."""
        statuses = {} if self.summary is None else self.summary.statuses
        counts = [f"{count:,} {name}" for name, count in sorted(statuses.items()) if name != "ok"]
        return "not fully scored: " + ", ".join(counts) if counts else None

    def hard_end(self, name: str) -> str:
        """Which end of a score is hard in this table; nothing of another column."""
        return "" if name not in SCORES or self.rows is None else hard_end(self.rows.schema, name)

    @property
    def title(self) -> str:
        """What the rows are."""
        rows = 0 if self.rows is None else len(self.rows)
        if self.by is None:
            return f"first {rows} rows"
        if self.by not in SCORES:
            return f"first {rows} by {self.by}"
        return (
            f"hardest {rows} by {self.by} ({self.hard_end(self.by)} is hard)"
            if rows
            else f"no sample has a value of {self.by} to rank by"
        )

    @property
    def shown(self) -> list[str]:
        """Columns that fit on the screen."""
        if self.chosen:
            return [name for name in self.chosen if name in self.columns]
        if self.by is None:
            return list(dict.fromkeys(self.columns))[:8]
        named = [name for name in ("id", "label", "predicted") if name in self.columns]
        beside = LABEL_FREE if self.by in LABEL_FREE else BESIDE
        return list(dict.fromkeys([*named, self.by, *(name for name in beside if name in self.columns)]))

    def is_words(self, column: str) -> bool:
        """Whether a column holds words rather than amounts."""
        if column in ("id", "predicted") or column.endswith("label") or self.rows is None:  # classes have names
            return True
        kind = self.rows.schema.field(self.columns.index(column)).type
        return not (pa.types.is_floating(kind) or pa.types.is_integer(kind))

    def cells(self) -> list[list[str]]:
        """The rows as words."""
        if self.rows is None:
            return []
        rows = self.rows.select([self.columns.index(name) for name in self.shown]).to_pylist()
        return [[self._cell(name, value) for name, value in row.items()] for row in rows]

    def _cell(self, column: str, value: Any) -> str:
        names = self.class_names if column.endswith("label") or column == "predicted" else None
        if names and isinstance(value, int) and 0 <= value < len(names):
            value = names[value]
        simple = isinstance(value, (int, float, str)) or value is None
        return printable(number(value) if simple else type(value).__name__, LONGEST_NAME)

    @property
    def means(self) -> list[tuple[str, str]]:
        """Mean of each score."""
        return [] if self.summary is None else [(name, number(mean)) for name, mean in self.summary.means.items()]


def as_text(view: TableView) -> str:
    """At most twenty lines or so."""
    notes = [line for note in view.notes for line in fill(printable(note), WIDTH, subsequent_indent="  ").splitlines()]
    lines = [f"{view.name}: {view.headline}", *notes, *([view.odd] if view.odd else []), view.title]
    rows = view.cells()
    if rows:
        lines += aligned([view.shown, *rows], [view.is_words(name) for name in view.shown])
    means = [f"{name} {mean}" for name, mean in view.means]
    lines += wrapped("means: ", means, most=3) if means else wrapped("columns: ", view.columns, most=3)
    return "\n".join(lines)


CELL = "padding:2px 10px;vertical-align:middle;text-align:"
HEAD = "border-bottom:1px solid rgba(128,128,128,.4);font-weight:600;" + CELL


def as_html(view: TableView, image_of: Callable[[Any], Any] | None = None) -> str:
    """The same as HTML without a script: it borrows the colors of the page, and pictures are inside it."""
    sides = ["left" if view.is_words(name) else "right" for name in view.shown]
    header, rows = list(view.shown), [[f"<bdi>{escape(cell)}</bdi>" for cell in row] for row in view.cells()]
    ids = view.rows.column("id").to_pylist() if view.rows is not None and "id" in view.columns else []
    pictures = thumbnails(image_of, ids) if image_of is not None and view.by is not None else []
    if any(pictures):
        header, sides = ["", *header], ["left", *sides]
        rows = [[_img(picture), *row] for picture, row in zip(pictures, rows, strict=True)]
    notes = [*view.notes, *([view.odd] if view.odd else [])]
    parts = [f"<div><b>{escape(view.headline)}</b></div>", *(f"<div>{escape(note)}</div>" for note in notes)]
    parts += [f"<div>{escape(view.title)}</div>", _table(header, rows, sides) if rows else ""]
    if view.means:
        means = [[escape(name), mean, view.hard_end(name)] for name, mean in view.means]
        table = _table(["score", "mean", "hard end"], means, ["left", "right", "left"])
        parts.append(f"<details><summary>means of {len(means)} scores</summary>{table}</details>")
    elif len(view.columns) > len(view.shown):
        parts.append(f"<div>columns: {escape(', '.join(printable(name, LONGEST_NAME) for name in view.columns[:40]))}</div>")
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
        content = None if image is None else thumbnail(image, SIDE)
        if content is not None and len(content) > room:
            content = None
        room -= len(content or b"")
        made.append(content)
    return made


def thumbnail(image: Any, side: int) -> bytes:
    """A WebP of at most `side` pixels."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    small.save(stream, "WEBP", lossless=max(image.size) <= side, quality=82, method=2)
    return stream.getvalue()

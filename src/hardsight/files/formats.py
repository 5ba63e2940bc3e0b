"""The format of a file, detected from its first bytes, so that no output replaces a file of another kind."""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable

from hardsight.files.places import Place

START = 2**16  # bytes to inspect

WORDS = {
    "parquet": "a Parquet file",
    "csv": "a CSV table",
    "json": "a JSON file",
    "npz": "an .npz archive of arrays",
    "safetensors": "a safetensors file",
    "html": "an HTML page",
    "png": "a PNG image",
    "svg": "an SVG image",
    "pdf": "a PDF document",
    "tex": "a table in LaTeX",
    "md": "a table in Markdown",
    "text": "a text file",
}
ENDINGS = {".pq": "parquet", ".htm": "html", **{f".{kind}": kind for kind in WORDS}}
CONTROL = bytes({*range(32)} - {7, 8, 9, 10, 12, 13, 27})  # bytes that never occur in text


def kind_by_name(path: Place) -> str:
    """The format implied by a file's extension; text if it is unknown."""
    return ENDINGS.get(path.suffix.lower(), "text")


def holds(path: Place, kind: str) -> bool:
    """Whether a file has a format, by its first bytes. An empty file matches every format."""
    with path.open("rb") as file:
        start = file.read(START)
    return not start or LOOKS[kind](start)


def _npz(start: bytes) -> bool:
    """A zip whose first member is an array; other zips are documents, models or archives."""
    if start[:4] == b"PK\5\6":  # an empty zip
        return True
    if start[:4] != b"PK\3\4" or len(start) < 30:
        return False
    (length,) = struct.unpack_from("<H", start, 26)
    return start[30 : 30 + length].endswith(b".npy")


def _text(start: bytes) -> bool:
    return not start.translate(None, bytes(set(range(256)) - set(CONTROL)))


def _markup(*openings: bytes) -> Callable[[bytes], bool]:
    return lambda start: start.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(openings)


def _csv(start: bytes) -> bool:
    """Lines of text with the same number of cells, two or more; the last line may be cut off."""
    if not _text(start) or _markup(b"<", b"{", b"[")(start):
        return False
    lines = start.decode("utf-8-sig", "replace").splitlines(keepends=True)
    try:
        rows = [row for row in csv.reader(lines) if row]
    except csv.Error:
        return False
    widths = {len(row) for row in (rows[:-1] if len(start) == START else rows)}
    return len(widths) == 1 and widths.pop() > 1


LOOKS: dict[str, Callable[[bytes], bool]] = {
    "parquet": lambda start: start[:4] == b"PAR1",
    "csv": _csv,
    "json": lambda start: _text(start) and _markup(b"{", b"[")(start),
    "npz": _npz,
    "safetensors": lambda start: start[8:9] == b"{",
    "html": _markup(b"<!doctype html", b"<html"),
    "png": lambda start: start[:8] == b"\x89PNG\r\n\x1a\n",
    "svg": _markup(b"<?xml", b"<svg"),
    "pdf": lambda start: start[:4] == b"%PDF",
    "tex": lambda start: _text(start) and start.startswith(b"\\begin{table}"),  # not just any LaTeX document
    "md": lambda start: _text(start) and start.startswith(b"**") and b"\n| " in start,
    "text": lambda start: _text(start) and start[:4] != b"%PDF",
}

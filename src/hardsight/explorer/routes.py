"""What the browser asks for, and the answers: over HTTP (server.py) or a notebook's own channel (widget.py).

The browser gets columns as bytes, and filters, sorts and draws them itself. It asks for what only Python has: pictures,
features, dynamics, and the review, which is written here. Its side is page.html and, first of the scripts, js/main.js.

    /, /page.css, /js/...                             the page itself, as files
    /api/run, /api/column, /api/rows, /api/find       opening.py, display.py and columns.py: the table
    /api/sample, /api/neighbors, /api/cosines         sample_detail.py: one sample, and the angles between classes
    /thumb, /image                                    thumbnails.py
    /api/story, /api/epoch                            epochs.py
    /api/map                                          embedding_map.py
    /api/curves, /api/agreement, /api/selection, /api/export    selection.py, of what is selected
    /api/review, /api/mark, /api/mark-all, /api/undo  review.py
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import HardsightError
from hardsight.explorer import sample_detail, selection
from hardsight.explorer.columns import Column, signed
from hardsight.explorer.display import Display
from hardsight.explorer.epochs import Epochs
from hardsight.explorer.page import Page
from hardsight.explorer.thumbnails import LARGE

MOST_ROWS = 500  # in one request for ids and paths
MOST_GROUPS = 200  # in a table
STORY = ("avh", "confidence", "own_angle", "norm", "loss")  # curves of one sample over the epochs
MIME_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Answer:
    """What a request gets."""

    content: bytes
    media_type: str = "application/octet-stream"
    status: int = 200
    cache: str = "no-store"


def respond(page: Page, method: str, address: str, body: bytes) -> Answer:
    """The answer to a request: `address` is a path with its query, as in a URL. Any error becomes an answer."""
    path, _, query = address.partition("?")
    path = "/" + unquote(path).lstrip("/")
    if method == "GET" and path in page_files():
        name = page_files()[path]
        content = (files("hardsight.explorer") / name).read_bytes()
        return Answer(content, f"{MIME_TYPES[Path(name).suffix]}; charset=utf-8", cache="no-cache")
    for (of_method, pattern), answer in ANSWERS.items():
        match = pattern.fullmatch(path)
        if match and method == of_method:
            return _answered(answer, Query(page, match.groupdict(), dict(parse_qsl(query)), body))
    return _json({"error": "there is nothing at this address"}, 404)


@functools.cache
def page_files() -> dict[str, str]:
    """Address -> file of the package: a fixed list, so that no address can name another file."""
    scripts = sorted(path.name for path in (files("hardsight.explorer") / "js").iterdir() if path.name.endswith(".js"))
    named = {"/": "page.html", "/page.css": "page.css", "/icon.svg": "icon.svg", "/favicon.ico": "icon.svg"}
    return named | {f"/js/{name}": f"js/{name}" for name in scripts}


def _answered(answer: Callable[[Query], Any], query: Query) -> Answer:
    """What a function gives as an answer: bytes as they are, anything else as JSON; an error as the reason."""
    try:
        value = answer(query)
    except _Refused as error:
        return _json({"error": str(error)}, error.status)
    except HardsightError as error:
        return _json({"error": str(error)}, 400)
    except OSError as error:  # such as a run that was deleted: the file and the system's words
        return _json({"error": f"{error.filename}: {error.strerror}." if error.filename else str(error)}, 400)
    if isinstance(value, Answer):
        return value
    return Answer(value) if isinstance(value, bytes) else _json(value)


def _json(value: Any, status: int = 200) -> Answer:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return Answer(text.encode("utf-8", "replace"), "application/json", status)


def _picture(content: bytes) -> Answer:
    return Answer(content, "image/webp", cache="private, max-age=600")


class _Refused(Exception):
    """Why a request has no answer, and the HTTP status that says so; 404: a row, column or epoch that does not exist."""

    def __init__(self, reason: str, status: int = 404) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Query:
    """One request, and the page that it is about."""

    page: Page
    path: dict[str, str]  # what the path names, such as the row
    query: dict[str, str]
    body: bytes  # of a POST

    def text(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.query.get(name, default)

    def row(self) -> int:
        """The row that the path names."""
        return self.as_row(self.path["row"])

    def as_row(self, text: str) -> int:
        """A row from its number as text."""
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) < len(self.page.display)):
            raise _Refused("there is no such row")
        return int(text)

    def column(self, name: str) -> Column:
        """The column of a name: of the display, or of a map."""
        page = self.page
        column = page.columns.get(name) or page.maps.columns().get(name)
        if column is None:
            raise _Refused("there is no such column")
        return column

    def epochs(self) -> Epochs:
        """The dynamics; refused where there are none."""
        if self.page.display.epochs is None:
            raise _Refused("there are no dynamics")
        return self.page.display.epochs

    def map_method(self) -> str:
        """The map that the path names."""
        method = self.path["method"]
        if method not in self.page.maps.methods:
            raise _Refused("there is no such map")
        return method

    def selection(self) -> np.ndarray:
        """(n,) bool from a body of one bit per row, the lowest bit first; no body means every row."""
        n = len(self.page.display)
        if not self.body:
            return np.ones(n, bool)
        if len(self.body) != (n + 7) // 8:
            raise _Refused(f"a selection of {n} rows is {(n + 7) // 8} bytes, got {len(self.body)}")
        return np.unpackbits(np.frombuffer(self.body, np.uint8), count=n, bitorder="little").astype(bool)

    def fields(self) -> dict[str, Any]:
        """The body as a JSON object; empty if it is none."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {}

    def check_markable(self) -> None:
        """Samples can be marked."""
        if self.page.why_not_marked is not None:
            raise _Refused(self.page.why_not_marked, 403)


ANSWERS: dict[tuple[str, re.Pattern[str]], Callable[[Query], Any]] = {}  # (method, path) -> function


def _route(path: str, method: str = "GET") -> Callable[[Callable[[Query], Any]], Callable[[Query], Any]]:
    def registered(answer: Callable[[Query], Any]) -> Callable[[Query], Any]:
        ANSWERS[method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))] = answer
        return answer

    return registered


# Reading

_route("/api/run")(lambda query: query.page.about())
_route("/api/column")(lambda query: query.column(query.text("name")).bytes())
_route("/api/neighbors/{row}")(lambda query: sample_detail.neighbors(query.page.display, query.row()))
_route("/thumb/{row}")(lambda query: _picture(query.page.pictures.thumb(query.row())))
_route("/image/{row}")(lambda query: _picture(query.page.pictures.small(query.row(), LARGE)))


@_route("/api/rows")
def _rows(query: Query) -> Any:
    """Ids and paths of some rows."""
    rows = [query.as_row(number) for number in query.text("rows").split(",")[: MOST_ROWS + 1]]
    if len(rows) > MOST_ROWS:
        raise _Refused(f"at most {MOST_ROWS} rows at a time", 400)
    return [_identified(query.page.display, row) for row in rows]


def _identified(display: Display, row: int) -> dict[str, Any]:
    return {"id": display.ids[row].as_py(), "path": display.image_path(row)}


@_route("/api/find")
def _find(query: Query) -> Any:
    """Rows whose id contains a text, as uint32."""
    matches = pc.match_substring(query.page.display.ids, query.text("text")[:500], ignore_case=True)
    return np.flatnonzero(matches.to_numpy(zero_copy_only=False)).astype("<u4").tobytes()


@_route("/api/sample/{row}")
def _sample(query: Query) -> Any:
    """Everything about one sample."""
    row, page, display = query.row(), query.page, query.page.display
    return {
        "row": row,
        **_identified(display, row),
        "values": {name: column.value(row) for name, column in page.columns.items()},
        "classes": sample_detail.nearest_classes(display, [row]).get(row, []),
        "top": sample_detail.top_classes(display, row),
        "versions": sample_detail.versions(display, row),
        "trouble": page.pictures.trouble(row) if page.pictures.any else None,
        "explanation": None if display.suspects is None else display.suspects.explanations[row].as_py(),
        "duplicate_of": sample_detail.originals(display, [row]).get(row),
    }


@_route("/api/story/{row}")
def _story(query: Query) -> Any:
    """One sample's curves over the epochs."""
    row, epochs = query.row(), query.epochs()
    return {name: epochs.story(row, name) for name in STORY if name in epochs.measures}


@_route("/api/cosines")
def _cosines(query: Query) -> Any:
    cosines = sample_detail.cosines(query.page.display)
    if cosines is None:
        raise _Refused("there is no head, or too many classes to show each pair")
    return cosines.astype("<f4").tobytes()


@_route("/api/epoch/{index}/{measure}")
def _epoch(query: Query) -> Any:
    """One epoch's values of one measure, in the order of the rows."""
    epochs, index = query.epochs(), query.path["index"]
    if not index.isdecimal() or len(index) > 9 or int(index) >= len(epochs.files):
        raise _Refused("there is no such epoch")
    return epochs.values(int(index), query.path["measure"]).astype("<f4").tobytes()


@_route("/api/map/{method}")
def _map(query: Query) -> Any:
    """How far a map of the features is."""
    return query.page.maps.state(query.map_method())


@_route("/api/review")
def _reviewed(query: Query) -> Any:
    """All marks; or only the version, if it is the one that the page has."""
    version, _ = query.page.review.current()
    return {"version": version} if query.text("since") == str(version) else _marks(query.page)


def _marks(page: Page) -> dict[str, Any]:
    return {"version": page.review.current()[0], "marks": page.marks()}


# Taking a selection, or changing something


@_route("/api/curves", "POST")
def _curves(query: Query) -> Any:
    """Mean and standard deviation over the epochs of the selection, or of its groups by a column."""
    epochs, chosen, columns, by = query.epochs(), query.selection(), query.page.columns, query.text("by")
    names, groups = selection.groups_of(columns[by], chosen) if by in columns else (["selection"], chosen * 1 - 1)
    return selection.curves_of_groups(epochs, query.text("measure", "avh"), names, groups)


@_route("/api/agreement", "POST")
def _agreement(query: Query) -> Any:
    """Human frequency against a score, within the selection."""
    if selection.HUMAN not in query.page.columns:
        raise _Refused("there are no human data")
    human, chosen, by = query.page.columns[selection.HUMAN].values, query.selection(), query.text("by")
    values = query.column(query.text("score")).floats()
    result = selection.agreement(human[chosen], values[chosen])
    if by:
        result["groups"] = selection.within(human, values, *selection.groups_of(query.column(by), chosen, MOST_GROUPS))
    return result


@_route("/api/map/{method}", "POST")
def _start_map(query: Query) -> Any:
    """Start a map of the features, unless it is ready or on its way."""
    query.page.maps.start(query.map_method())
    return _map(query)


@_route("/api/map/{method}/stop", "POST")
def _stop_map(query: Query) -> Any:
    query.page.maps.stop(query.map_method())
    return _map(query)


@_route("/api/mark", "POST")
def _mark(query: Query) -> Any:
    """One mark: {"tab", "row", "mark", "suggestion"}; a mark of null removes it."""
    query.check_markable()
    page, change = query.page, query.fields()
    row, mark, suggestion = change.get("row"), change.get("mark"), change.get("suggestion")
    if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(page.display):
        raise _Refused("there is no such row")
    if not isinstance(mark, str | None) or isinstance(suggestion, bool) or not isinstance(suggestion, int | None):
        raise _Refused("mark must be a word or null, suggestion a class index or null", 400)
    page.review.put(_tab(change), page.display.ids[row].as_py(), mark, suggestion)
    return _marks(page)


@_route("/api/undo", "POST")
def _undo(query: Query) -> Any:
    """Take back the tab's last change; the answer says of which sample it was, or of how many and with which mark."""
    query.check_markable()
    review = query.page.review
    _, marks = review.current()
    undone = review.undo(_tab(query.fields()))
    mark = marks.get(undone[0]) if undone else None
    return _marks(query.page) | {"undone": len(undone), "id": undone[0] if undone else None, "mark": mark and mark.mark}


def _tab(fields: dict[str, Any]) -> str:
    return str(fields.get("tab", ""))[:64]


@_route("/api/mark-all", "POST")
def _mark_all(query: Query) -> Any:
    """Mark all unmarked samples of a selection: as fine, or as wrong with the class that is suggested for each."""
    query.check_markable()
    mark, display, chosen = query.text("mark"), query.page.display, query.selection()
    suggested = np.full(len(display), -1)
    if mark == "wrong label":
        suggested = signed(display.columns["suggested_label"]) if "suggested_label" in display.columns else suggested
        chosen &= (suggested >= 0) & (suggested != display.labels)
    rows = np.flatnonzero(chosen)
    classes = [None if code < 0 else code for code in suggested[rows].tolist()]
    ids = display.ids.take(pa.array(rows)).to_pylist()
    marked = query.page.review.put_all(query.text("tab")[:64], mark, dict(zip(ids, classes, strict=True)))
    return _marks(query.page) | {"marked": marked}


@_route("/api/selection", "POST")
def _selection(query: Query) -> Any:
    """What is selected now, for `View.selection`; no body means every row."""
    if not query.page.reports:
        raise _Refused("nobody asks for the selection of this page")
    query.page.selection = query.selection() if query.body else None
    return {}


@_route("/api/export", "POST")
def _export(query: Query) -> Any:
    """The selection or the review as a file."""
    page, form = query.page, query.text("format")
    if query.text("what") == "review":
        table = selection.review_table(page.display, page.review)
    else:
        table = selection.selection_table(page.display, np.flatnonzero(query.selection()), page.review)
    return Answer(selection.as_file(table, form, page.pictures.roots), selection.FORMATS[form])

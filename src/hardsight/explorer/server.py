"""The routes of the page, and the server that answers them.

The page asks for columns as bytes and keeps filters, sorting and drawing to itself; the server is asked for what only it
has: pictures, features, dynamics, and the review it writes.
"""

from __future__ import annotations

import asyncio
import functools
import json
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hardsight.errors import HardsightError
from hardsight.explorer import exporting, sample_detail
from hardsight.explorer.agreement import HUMAN, agreement, within
from hardsight.explorer.columns import Column, is_angle, on_screen, signed
from hardsight.explorer.embedding_map import Maps
from hardsight.explorer.groups import groups_of, listed
from hardsight.explorer.review import MARKS, Review
from hardsight.explorer.security import Guard
from hardsight.explorer.sheet import Sheet, default_axes
from hardsight.explorer.thumbnails import Pictures
from hardsight.explorer.two_runs import SECOND, ScoreChanges
from hardsight.version import VERSION

MOST_ROWS = 500  # asked for by number in one request
MOST_GROUPS = 200  # in a table
STORY = ("avh", "confidence", "own_angle", "norm", "loss")  # a sample's own curves, where there are any
HEADER_PATIENCE = 15.0  # seconds for the head of a request to arrive
NO_COMMANDS = ("ipykernel_launcher.py", "__main__.py", "-c")  # what a notebook or python -m was started with: nothing to type
GRACE = 2  # seconds that requests have to end when the server does


@dataclass
class Page:
    """Everything the routes answer from."""

    sheet: Sheet
    pictures: Pictures
    review: Review
    unmarked: str | None = None  # why samples cannot be marked
    comparison: ScoreChanges | None = None  # with a second run
    write_token: str = ""
    in_notebook: bool = False  # the page tells what is selected
    selection: np.ndarray | None = None  # (n,) bool, as the page told it last; None for all
    again: list[str] = field(default_factory=list)  # commands that show the same again
    apply: list[str] = field(default_factory=list)  # words of the command that applies the marks, where there is one

    def __post_init__(self) -> None:
        rounds = self.sheet.rounds
        self.maps = Maps(self.sheet, keep=self.unmarked is None)
        self.columns = {name: on_screen(column) for name, column in self.sheet.columns.items()}  # angles in degrees
        self.hidden = {} if rounds is None else rounds.hidden()  # columns that filters name and menus do not

    def about(self) -> dict[str, Any]:
        """What the page must know before its first drawing."""
        sheet = self.sheet
        x, y, color = default_axes(sheet)
        if self.comparison is not None and sheet.by in self.comparison.changes:
            x, y, color = sheet.by, sheet.by + SECOND, "outcome" if "outcome" in sheet.columns else color
        return {
            "version": VERSION,
            "name": sheet.name,
            "place": str(sheet.path),
            "comparison": None if self.comparison is None else self.comparison.described(),
            "n": len(sheet),
            "classes": sheet.class_names,
            "columns": [column.described() for column in self.columns.values()]
            + [column.described() | {"hidden": True} for column in self.hidden.values()]
            + self.maps.described_columns(),
            "maps": self.maps.described(),
            "axes": {"x": x, "y": y, "color": color},
            "by": sheet.by,
            "pictures": self.pictures.any,
            "closeups": sheet.snapshot is not None and sheet.snapshot.source.evidence == "features",
            "cosines": sheet.snapshot is not None and sheet.snapshot.head is not None,
            "epochs": [] if sheet.epochs is None else sheet.epochs.numbers,
            "measures": [] if sheet.epochs is None else sheet.epochs.measures,
            "degrees": [] if sheet.epochs is None else [name for name in sheet.epochs.measures if is_angle(name)],
            "moving": [] if sheet.epochs is None else sheet.epochs.measures,  # those with each sample's own values
            "human": HUMAN if HUMAN in sheet.columns else None,
            "reached": {} if sheet.rounds is None else sheet.rounds.reached(),
            "methods": {} if sheet.rounds is None else sheet.rounds.methods,
            "suspects": None if sheet.suspects is None else sheet.suspects.described(),
            "quick_filters": [quick.described() for quick in sheet.quick_filters],
            "marks": list(MARKS),
            "unmarked": self.unmarked,
            "review": None if self.review.path is None else str(self.review.path),
            "apply": shlex.join(self.apply),
            "write_token": self.write_token,
            "notebook": self.in_notebook,
            "start": {
                name: sheet.start.get(name)
                for name in ("command", "words", "arguments", "inputs", "versions", "counts", "seconds")
            },
            "again": self.how_again(),
            "hardness": sheet.hardness,
            "notes": sheet.notes,
        }

    def how_again(self) -> list[str]:
        """The command that made what is shown, then those that show it."""
        words, command = (str(self.sheet.start.get(name) or "") for name in ("words", "command"))
        made = command if words.startswith(NO_COMMANDS) else words or command
        return [made or f"hardsight score {shlex.quote(self.sheet.name)}", *self.again]


def build(page: Page, port: int, allowed_hosts: Sequence[str] = ()) -> Guard:
    """The guarded app."""
    routes = [Route(path, functools.partial(_served, name), methods=["GET"]) for path, name in page_files().items()]
    for path, answer in GETS.items():
        routes.append(Route(path, functools.partial(_get, page, answer), methods=["GET"]))
    for path, change in POSTS.items():
        routes.append(Route(path, functools.partial(_post, page, change), methods=["POST"]))
    guard = Guard(Starlette(routes=routes), port, allowed_hosts, page.in_notebook)
    page.write_token = guard.write_token
    return guard


def page_files() -> dict[str, str]:
    """Address -> file of the package: a fixed list, so no address can name another file."""
    scripts = sorted(path.name for path in (files("hardsight.explorer") / "js").iterdir() if path.name.endswith(".js"))
    named = {"/": "page.html", "/page.css": "page.css", "/icon.svg": "icon.svg", "/favicon.ico": "icon.svg"}
    return named | {f"/js/{name}": f"js/{name}" for name in scripts}


KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _served(name: str, request: Request) -> Response:
    kind = KINDS[Path(name).suffix]
    content = (files("hardsight.explorer") / name).read_bytes()
    return Response(content, media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})


class _NotThere(Exception):
    """A row, column or epoch that the sheet does not have."""


def _get(page: Page, answer: Callable[[Page, Request], Response], request: Request) -> Response:
    try:
        return answer(page, request)
    except (_NotThere, HardsightError, OSError) as error:
        return _refused(error)


async def _post(page: Page, answer: Callable[[Page, Request, bytes], Response], request: Request) -> Response:
    body = await request.body()
    try:
        return await run_in_threadpool(answer, page, request, body)
    except (_NotThere, HardsightError, OSError) as error:
        return _refused(error)


def _refused(error: Exception) -> Response:
    """Why there is no answer: a row that is not there, a mistake, or what the system says, as of a run that was deleted."""
    words = f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
    return _json({"error": words}, 404 if isinstance(error, _NotThere) else 400)


def _json(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), status, {"cache-control": "no-store"}, "application/json")


def _binary(values: bytes) -> Response:
    return Response(values, headers={"cache-control": "no-store"}, media_type="application/octet-stream")


# What is read


def _about(page: Page, request: Request) -> Response:
    return _json(page.about())


def _column(page: Page, request: Request) -> Response:
    return _binary(_named(page, request.query_params.get("name", "")).bytes())


def _rows(page: Page, request: Request) -> Response:
    """Ids and paths of some rows."""
    text = request.query_params.get("rows", "")
    wanted = [_row(page, number) for number in text.split(",")[: MOST_ROWS + 1]]
    if len(wanted) > MOST_ROWS:
        return _json({"error": f"at most {MOST_ROWS} rows at a time"}, 400)
    paths = page.sheet.paths
    return _json([{"id": page.sheet.ids[row].as_py(), "path": None if paths is None else paths[row].as_py()} for row in wanted])


def _find(page: Page, request: Request) -> Response:
    """Rows whose id contains some text, as uint32."""
    text = request.query_params.get("text", "")[:500]
    matches = pc.match_substring(page.sheet.ids, text, ignore_case=True).to_numpy(zero_copy_only=False)
    return _binary(np.flatnonzero(matches).astype("<u4").tobytes())


def _thumb(page: Page, request: Request) -> Response:
    return _picture(page.pictures.thumb(_row(page, request.path_params["row"])))


def _image(page: Page, request: Request) -> Response:
    return _picture(page.pictures.large(_row(page, request.path_params["row"])))


def _picture(content: bytes) -> Response:
    return Response(content, headers={"cache-control": "private, max-age=600"}, media_type="image/webp")


def _sample(page: Page, request: Request) -> Response:
    """One sample from near."""
    row, sheet = _row(page, request.path_params["row"]), page.sheet
    return _json(
        {
            "row": row,
            "id": sheet.ids[row].as_py(),
            "path": None if sheet.paths is None else sheet.paths[row].as_py(),
            "values": {name: _value(column, row) for name, column in page.columns.items()},
            "classes": sample_detail.nearest_classes(sheet, [row]).get(row, []),
            "top": sample_detail.top_classes(sheet, row),
            "versions": sample_detail.versions(sheet, row),
            "trouble": page.pictures.trouble(row) if page.pictures.any else None,
            "explanation": None if sheet.suspects is None else sheet.suspects.explanations[row].as_py(),
            "duplicate_of": _twin(page, row),
        }
    )


def _twin(page: Page, row: int) -> dict[str, Any] | None:
    """The sample that one repeats: its id, and its row if it is in the sheet."""
    id = None if page.sheet.suspects is None else page.sheet.suspects.twin(row)
    return None if id is None else {"id": id, "row": _places(page, [id])[0]}


def _story(page: Page, request: Request) -> Response:
    """One sample's curves over the epochs."""
    row, epochs = _row(page, request.path_params["row"]), page.sheet.epochs
    if epochs is None:
        raise _NotThere("there are no dynamics")
    return _json({name: epochs.story(row, name) for name in STORY if name in epochs.measures})


def _neighbors(page: Page, request: Request) -> Response:
    return _json(sample_detail.neighbors(page.sheet, _row(page, request.path_params["row"])))


def _cosines(page: Page, request: Request) -> Response:
    cosines = sample_detail.cosines(page.sheet)
    if cosines is None:
        raise _NotThere("there is no head, or too many classes to show each pair")
    return _binary(cosines.astype("<f4").tobytes())


def _epoch(page: Page, request: Request) -> Response:
    """One epoch's values of one measure, in the order of the rows."""
    epochs = page.sheet.epochs
    at = request.path_params["at"]
    if epochs is None or not at.isdecimal() or len(at) > 9 or int(at) >= len(epochs.files):
        raise _NotThere("there is no such epoch")
    return _binary(epochs.values(int(at), request.path_params["measure"]).astype("<f4").tobytes())


def _map(page: Page, request: Request) -> Response:
    """How far a map of the features is."""
    return _json(page.maps.state(_method(page, request)))


def _reviewed(page: Page, request: Request) -> Response:
    """All marks, or only that nothing changed since the version the page has."""
    version, _ = page.review.current()
    return _json({"version": version} if request.query_params.get("since") == str(version) else _marks(page))


def _marks(page: Page) -> dict[str, Any]:
    """The version and all marks, by row."""
    version = page.review.current()[0]
    return {"version": version, "marks": placed_marks(page)}


def placed_marks(page: Page) -> list[dict[str, Any]]:
    """All marks on samples of the sheet, by row."""
    _, marks = page.review.current()
    rows = zip(_places(page, list(marks)), marks.values(), strict=True)
    return [{"row": row, "mark": mark.mark, "suggestion": mark.suggestion} for row, mark in rows if row is not None]


def _places(page: Page, ids: list[str]) -> list[int | None]:
    return list(pc.index_in(pa.array(ids, pa.string()), value_set=page.sheet.ids).to_pylist())


# What takes a selection, or changes something


def _curves(page: Page, request: Request, body: bytes) -> Response:
    """Mean and spread over the epochs of the selection, or of its groups by a column."""
    epochs = page.sheet.epochs
    if epochs is None:
        raise _NotThere("there are no dynamics")
    chosen = _mask(page, body)
    by = request.query_params.get("by", "")
    names, groups = groups_of(page.columns[by], chosen) if by in page.columns else (["selection"], chosen * 1 - 1)
    return _json(listed(epochs, request.query_params.get("measure", "avh"), names, groups))


def _agreement(page: Page, request: Request, body: bytes) -> Response:
    """Human frequency against a score, within the selection."""
    if HUMAN not in page.columns:
        raise _NotThere("there are no human data")
    chosen = _mask(page, body)
    score = _named(page, request.query_params.get("score", ""))
    human, by = page.columns[HUMAN].values, request.query_params.get("by", "")
    result = agreement(human[chosen], score.floats()[chosen])
    if by:
        names, groups = groups_of(_named(page, by), chosen, MOST_GROUPS)
        result["groups"] = within(human, score.floats(), names, groups)
    return _json(result)


def _rounds(page: Page, request: Request, body: bytes) -> Response:
    """What each method of self-training kept of the selection, round by round."""
    if page.sheet.rounds is None:
        raise _NotThere("there was no self-training")
    return _json(page.sheet.rounds.summary(_mask(page, body)))


def _start_map(page: Page, request: Request, body: bytes) -> Response:
    """Begin a map of the features, or only say how far it is."""
    method = _method(page, request)
    page.maps.start(method)
    return _json(page.maps.state(method))


def _stop_map(page: Page, request: Request, body: bytes) -> Response:
    method = _method(page, request)
    page.maps.stop(method)
    return _json(page.maps.state(method))


def _mark(page: Page, request: Request, body: bytes) -> Response:
    """One mark: {"tab", "row", "mark", "suggestion"}; a mark of null takes it away."""
    if page.unmarked is not None:
        return _json({"error": page.unmarked}, 403)
    change = _object(body)
    row, mark, suggestion = change.get("row"), change.get("mark"), change.get("suggestion")
    if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(page.sheet):
        raise _NotThere("there is no such row")
    if not isinstance(mark, str | None) or isinstance(suggestion, bool) or not isinstance(suggestion, int | None):
        return _json({"error": "mark is a word or null, suggestion a class index or null"}, 400)
    page.review.put(str(change.get("tab", ""))[:64], page.sheet.ids[row].as_py(), mark, suggestion)
    return _json(_marks(page))


def _undo(page: Page, request: Request, body: bytes) -> Response:
    if page.unmarked is not None:
        return _json({"error": page.unmarked}, 403)
    undone = page.review.undo(str(_object(body).get("tab", ""))[:64])
    return _json(_marks(page) | {"undone": len(undone)})


def _mark_all(page: Page, request: Request, body: bytes) -> Response:
    """All samples of a selection that have no mark yet: as fine, or as wrong with the class that is suggested for each."""
    if page.unmarked is not None:
        return _json({"error": page.unmarked}, 403)
    mark, sheet, chosen = request.query_params.get("mark", ""), page.sheet, _mask(page, body)
    suggested = np.full(len(sheet), -1)
    if mark == "wrong label":
        suggested = signed(sheet.columns["suggested_label"]) if "suggested_label" in sheet.columns else suggested
        chosen &= (suggested >= 0) & (suggested != sheet.labels())
    rows = np.flatnonzero(chosen)
    classes = [None if code < 0 else code for code in suggested[rows].tolist()]
    ids = sheet.ids.take(pa.array(rows)).to_pylist()
    marked = page.review.put_all(request.query_params.get("tab", "")[:64], mark, dict(zip(ids, classes, strict=True)))
    return _json(_marks(page) | {"marked": marked})


def _selection(page: Page, request: Request, body: bytes) -> Response:
    """What is selected now, for whoever reads it in Python; no body is every row."""
    if not page.in_notebook:
        raise _NotThere("nobody asked for the selection")
    page.selection = _mask(page, body) if body else None
    return _json({})


def _export(page: Page, request: Request, body: bytes) -> Response:
    """The selection or the review as a file."""
    form = request.query_params.get("format", "")
    if request.query_params.get("what") == "review":
        table = exporting.review_table(page.sheet, page.review)
    else:
        table = exporting.selection_table(page.sheet, np.flatnonzero(_mask(page, body)), page.review)
    content = exporting.written(table, form, page.pictures.roots)
    return Response(content, headers={"cache-control": "no-store"}, media_type=exporting.FORMATS[form])


GETS: dict[str, Callable[[Page, Request], Response]] = {
    "/api/run": _about,
    "/api/column": _column,
    "/api/rows": _rows,
    "/api/find": _find,
    "/api/sample/{row}": _sample,
    "/api/story/{row}": _story,
    "/api/neighbors/{row}": _neighbors,
    "/api/cosines": _cosines,
    "/api/epoch/{at}/{measure}": _epoch,
    "/api/map/{method}": _map,
    "/api/review": _reviewed,
    "/thumb/{row}": _thumb,
    "/image/{row}": _image,
}
POSTS: dict[str, Callable[[Page, Request, bytes], Response]] = {
    "/api/curves": _curves,
    "/api/agreement": _agreement,
    "/api/rounds": _rounds,
    "/api/map/{method}": _start_map,
    "/api/map/{method}/stop": _stop_map,
    "/api/mark": _mark,
    "/api/mark-all": _mark_all,
    "/api/undo": _undo,
    "/api/export": _export,
    "/api/selection": _selection,
}


def _row(page: Page, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) < len(page.sheet)):
        raise _NotThere("there is no such row")
    return int(text)


def _named(page: Page, name: str) -> Column:
    column = page.columns.get(name) or page.hidden.get(name) or page.maps.columns().get(name)
    if column is None:
        raise _NotThere("there is no such column")
    return column


def _method(page: Page, request: Request) -> str:
    method = str(request.path_params["method"])
    if method not in page.maps.methods:
        raise _NotThere("there is no such map")
    return method


def _mask(page: Page, body: bytes) -> np.ndarray:
    """(n,) bool from one bit per row, the lowest bit first; no body is every row."""
    n = len(page.sheet)
    if not body:
        return np.ones(n, bool)
    if len(body) != (n + 7) // 8:
        raise _NotThere(f"a selection of {n} rows is {(n + 7) // 8} bytes, got {len(body)}")
    return np.unpackbits(np.frombuffer(body, np.uint8), count=n, bitorder="little").astype(bool)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _value(column: Column, row: int) -> Any:
    value = column.values[row]
    if column.names is None:
        return float(value) if np.isfinite(value) else None
    return column.names[value] if value < len(column.names) else None


def serve(app: Guard, opened: socket.socket, ready: Callable[[], None] | None = None) -> None:
    """Answer until interrupted."""
    make_server(app, ready).run(sockets=[opened])


def make_server(app: Guard, ready: Callable[[], None] | None = None) -> Any:
    """A uvicorn server that calls `ready` when the first request would be answered."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        """Closes a connection that sends nothing, or only half the head of a request, for too long."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.waiting = asyncio.get_running_loop().call_later(HEADER_PATIENCE, self.give_up)

        def give_up(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self.waiting.cancel()
            super().connection_lost(exc)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if ready is not None:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets=sockets)
            for connection in list(self.server_state.connections):  # those that took longer
                connection.transport.abort()
            await asyncio.sleep(0.01)  # each is closed in a turn of the loop

    settings = uvicorn.Config(
        app,
        http=Impatient,
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return Server(settings)

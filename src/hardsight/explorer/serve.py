"""`start`: from the options of `hardsight explore` to a server that is ready to run."""

from __future__ import annotations

import shlex
import socket
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from hardsight.explorer.display import Display
from hardsight.explorer.opening import open_page
from hardsight.explorer.review import Review, review_file
from hardsight.explorer.routes import Page, build
from hardsight.explorer.security import Guard
from hardsight.explorer.server import listen, make_server
from hardsight.explorer.settings import ExploreSettings, ReportSettings
from hardsight.explorer.thumbnails import Pictures
from hardsight.files.kinds import kind_in_file
from hardsight.options import takes
from hardsight.screen import Progress


@dataclass
class Started:
    """A server that is ready to run, and notes for the user."""

    guard: Guard
    socket: socket.socket
    address: str  # with the token
    page: Page
    notes: list[str] = field(default_factory=list)

    def run(self, browser: bool) -> None:
        """Run until Ctrl-C; the address is printed as soon as requests are answered."""

        def ready() -> None:
            print(f"hardsight is at {self.address}\nPress Ctrl-C to stop.", flush=True)
            Thread(target=self.page.pictures.warm, daemon=True).start()
            if browser:
                Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()

        make_server(self.guard, ready).run(sockets=[self.socket])


@takes(ExploreSettings)
def start(
    x: Any, second: Any = None, *, settings: ExploreSettings | None = None, progress: Progress | None = None,
    in_notebook: bool = False, **options: Any,
) -> Started:  # fmt: skip
    """Open a run, or two to compare, and a port to serve it on.

    Marks are saved in review.parquet of the (first) run directory, or next to a file: photo.review.parquet for photo.npz; the
    result's `notes` say where, or why not. With `in_notebook`, a notebook on this machine may show the page in a frame, and
    the page reports what is selected.
    """
    settings = ExploreSettings.given(settings, options)
    page, notes = _open_page(x, second, settings, progress)
    page.in_notebook = in_notebook
    listener, note = listen(settings.host, settings.port)
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    allowed = list(settings.allowed_hosts)
    if settings.remote:
        notes.append("Other machines can connect: whoever has the address with its token sees the images and can mark them.")
        if not settings.every_address:
            allowed.append(f"{host}:{port}")
    guard = build(page, port, allowed)
    address = f"http://{'127.0.0.1' if settings.every_address else host}:{port}/?token={guard.token}"
    return Started(guard, listener, address, page, [*([note] if note else []), *notes])


def _open_page(x: Any, second: Any, settings: ExploreSettings, progress: Progress | None) -> tuple[Page, list[str]]:
    """The page, and notes for the user."""
    display, comparison = open_page(x, settings, second, keep=not settings.read_only, progress=progress)
    review = Review.of(display)
    why_not = "this page was opened with --read-only." if settings.read_only else review.why_not_saved()
    page = Page(display, Pictures(display, settings.images), review, why_not, comparison)
    if display.path is not None:
        page.again = _commands(x, second, settings)
        if why_not is None and settings.split is None and _can_be_applied(display):  # clean knows how it read a table
            page.apply = ["hardsight", "clean", str(x), "--apply", str(review_file(Path(x))), "-o", "labels.csv"]
    marks = f"Marks are saved in {page.marks_in}." if why_not is None else f"Marks cannot be saved: {why_not}"
    return page, [*display.notes, marks]


def _can_be_applied(display: Display) -> bool:
    """Whether `hardsight clean --apply` can turn marks on these samples into labels: it reads snapshots and scores tables."""
    assert display.path is not None
    readable = display.snapshot is not None or (display.path.is_file() and kind_in_file(display.path) == "scores")
    return "label" in display.columns and readable


def _commands(x: Any, second: Any, settings: ExploreSettings) -> list[str]:
    """Commands that show the same page, with paths as they were written; of one run, also as a report."""
    runs = [str(path) for path in (x, second) if isinstance(path, (str, Path))]
    explore = shlex.join(["hardsight", "explore", *runs, *settings.as_words()])
    if second is not None:
        return [explore]
    shown = ReportSettings(**{field.name: getattr(settings, field.name) for field in ReportSettings.fields()})
    return [explore, f"{shlex.join(['hardsight', 'report', *runs, *shown.as_words()])}    # the same page as one file"]

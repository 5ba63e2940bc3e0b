"""`hardsight.explore`: the page in a notebook, with its selection and marks available in Python.

The server runs in a thread of the kernel. The frame's address contains the token and the origin of the notebook. Only a
page with the token can declare that origin, and no other may show the page in a frame (`security.py`).
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from html import escape
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.errors import RunError
from hardsight.explorer.downloads import review_table, selection_table
from hardsight.explorer.routes import Page
from hardsight.explorer.serve import Started, start
from hardsight.explorer.server import make_server
from hardsight.explorer.settings import ExploreSettings
from hardsight.options import takes
from hardsight.result import Result, ScoresTable

if TYPE_CHECKING:
    from hardsight.option_types import ExploreOptions


HEIGHT = 720  # pixels of the frame
PATIENCE = 20.0  # seconds for the server to start or to end


@takes(ExploreSettings)
def explore(
    x: Any,
    second: str | Path | None = None,
    *,
    settings: ExploreSettings | None = None,
    height: int = HEIGHT,
    **options: Unpack[ExploreOptions],
) -> View:
    """Explore a run in a notebook: the page of `hardsight explore` in a frame. Outside a notebook, print its address.

    Args:
        x: a run directory, a scores table (.parquet, .csv) or a snapshot (.npz, .npy, .parquet); or a table from score or
            clean, whose marks are then only in `View.marks`.
        second: a run to compare with, on the ids that both have.
        settings: all options as one object; each is also a keyword.
        height: of the frame, in pixels.

    Returns:
        A `View`: `selection` and `marks` are tables of what is selected and marked now; `close()` stops the server.
    """
    settings = ExploreSettings.given(settings, options)
    view = View(start(x, second, settings=settings, in_notebook=in_notebook()), height)
    view.show()
    return view


class View:
    """An open page: what is selected and marked in it.

    Attributes:
        address: of the page, with its token. Anyone on this machine who has it can open the page.
    """

    def __init__(self, started: Started, height: int = HEIGHT) -> None:
        self.started, self.page, self.address, self.height = started, started.page, started.address, height
        up = Event()
        self._server = make_server(started.guard, up.set)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [started.socket]}, daemon=True)
        self._thread.start()
        self._shown_in: int | None = None  # the cell
        if not up.wait(PATIENCE):
            raise RunError(f"the page did not start within {PATIENCE:g} s.")
        Thread(target=started.page.pictures.warm, daemon=True).start()

    @property
    def ids(self) -> list[str]:
        """Ids of the samples that are selected now; all, if nothing is selected."""
        return list(self.page.display.ids.take(pa.array(self._rows())).to_pylist())

    @property
    def selection(self) -> ScoresTable:
        """The samples that are selected now, with all their columns; all, if nothing is selected."""
        display, pictures = self.page.display, PagePictures(self.page) if self.page.pictures.any else None
        return ScoresTable(selection_table(display, self._rows(), self.page.review), display.class_names, pictures, display.by)

    @property
    def marks(self) -> Result:
        """The samples that are marked: id, label, mark, suggestion. They are also saved in the run or next to the file."""
        self.page.review.current()  # includes those of other processes
        marks = Result(review_table(self.page.display, self.page.review))
        marks.counted = "mark"
        return marks

    def _rows(self) -> np.ndarray:
        chosen = self.page.selection
        return np.arange(len(self.page.display)) if chosen is None else np.flatnonzero(chosen)

    def close(self) -> None:
        """Stop the server; the frame no longer works. `selection` and `marks` stay as they are."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self.started.socket.close()

    @property
    def closed(self) -> bool:
        """Whether the server has stopped."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Keep a script running until Ctrl-C, or until the view is closed."""
        try:
            while self._thread.is_alive():
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"View of {self.page.display.name}, closed"
        n, chosen, marked = len(self.page.display), len(self._rows()), len(self.page.review.current()[1])
        return f"View of {self.page.display.name} at {self.address}: {chosen:,} of {n:,} samples selected, {marked:,} marked"

    def show(self) -> None:
        """Show the frame, or print the address outside a notebook."""
        if not in_notebook():
            print(f"hardsight is at {self.address}", flush=True)
            return
        from IPython import display

        self._shown_in = _cell()
        display.display(display.HTML(self.frame()))

    def _ipython_display_(self) -> None:
        """What a notebook shows as the value of a cell: the frame, unless the cell shows it already."""
        if not in_notebook() or self.closed:
            print(repr(self))
        elif self._shown_in != _cell():
            self.show()

    def frame(self) -> str:
        """The frame as HTML. A script fills in the host name and the origin that the browser uses for the notebook."""
        name, port = f"hardsight-{secrets.token_hex(6)}", self.started.guard.port
        words = {"name": name, "port": port, "token": self.started.guard.token, "height": self.height}
        link = f'<a href="{escape(self.address)}" target="_blank" rel="noopener noreferrer">open it in a tab</a>'
        caption = f"<div>hardsight explore, {escape(self.page.display.name)}: {link}</div>"
        return f'<div id="{name}">{caption}</div><script>{SCRIPT % json.dumps(words)}</script>'


class PagePictures:
    """Images by id, for a table of the page's samples."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def image(self, id: str) -> Any:
        """The image of a sample; raises an error if it cannot be read, which the table shows as a dash."""
        return self.page.pictures.image(pc.index(self.page.display.ids, pa.scalar(id, pa.string())).as_py())


# Cookies are sent only in a frame of the same site, so the page gets the host name of the notebook: localhost or 127.0.0.1.
SCRIPT = """
(({name, port, token, height}) => {
  const box = document.getElementById(name), host = location.hostname;
  if (!box || box.querySelector("iframe") || !["localhost", "127.0.0.1"].includes(host)) return;
  const frame = document.createElement("iframe");
  frame.src = `http://${host}:${port}/?token=${token}&frame=${encodeURIComponent(location.origin)}`;
  frame.title = "hardsight explore";
  frame.style.cssText = `width:100%%;height:${height}px;border:1px solid rgba(128,128,128,.4)`;
  box.prepend(frame);
})(%s);
"""


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, which can show HTML."""
    shell = _shell()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def _cell() -> int | None:
    return getattr(_shell(), "execution_count", None)

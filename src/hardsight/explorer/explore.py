"""`hardsight.explore`: the page in a notebook or a browser, with its selection and marks available in Python."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from hardsight.explorer.opening import open_page
from hardsight.explorer.page import Page
from hardsight.explorer.selection import review_table, selection_table
from hardsight.explorer.server import Server
from hardsight.explorer.settings import ExploreSettings
from hardsight.options import takes
from hardsight.result import InOrder, Result, ScoresTable

if TYPE_CHECKING:
    from hardsight.option_types import ExploreOptions


@takes(ExploreSettings)
def explore(
    x: Any = None, *, second: Any = None, settings: ExploreSettings | None = None, **options: Unpack[ExploreOptions]
) -> View:
    """Explore samples: the page of `hardsight explore` as a widget of a notebook.

    Outside a notebook, or with a port, it is served on this machine, and its address printed.

    Args:
        x: whatever `Snapshot.open` opens: a run directory, a file, arrays, a frame, a table of scores, a `Snapshot`; or a
            `Result`. Marks on a run or a file are saved there, others are only in `View.marks`.
        second: another of these to compare with, on the ids that both have.
        settings: all options as one object; each is also a keyword.

    Returns:
        A `View`: `selection` and `marks` are tables of what is selected and marked now. Where it is served, `close()` stops the
        server, and `wait()` keeps a script running.
    """
    settings = ExploreSettings.given(settings, options)
    page = open_page(x, second, settings)
    page.reports = True
    if in_notebook() and settings.port is None:
        from hardsight.explorer.widget import Widget  # needs anywidget

        return Widget(page)
    view = ServedView(page, Server(page, settings))
    print(f"hardsight is at {view.address}", flush=True)
    return view


def in_notebook() -> bool:
    """Whether this is a kernel that can show a widget: Jupyter's, or that of marimo."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is not None:
        return True
    return "marimo" in sys.modules and bool(sys.modules["marimo"].running_in_notebook())


class Marks(Result):
    """What samples are marked as."""

    counted = "mark"


class View:
    """An open page: what is selected and marked in it."""

    page: Page

    @property
    def ids(self) -> list[Any]:
        """Ids of the samples that are selected now, integers or text as they were given; all, if nothing is selected."""
        return list(self.page.display.own_ids.take(pa.array(self._rows())).to_pylist())

    @property
    def selection(self) -> ScoresTable:
        """The samples that are selected now, with all their columns; all, if nothing is selected."""
        display = self.page.display
        pictures = InOrder(display.own_ids, self.page.pictures) if self.page.pictures.any else None
        return ScoresTable(selection_table(display, self._rows(), self.page.review), display.class_names, pictures, display.by)

    @property
    def marks(self) -> Marks:
        """The samples that are marked: id, label, mark, suggestion. They are also saved in the run or next to the file."""
        self.page.review.current()  # includes those of other processes
        return Marks(review_table(self.page.display, self.page.review))

    def close(self) -> None:
        """Close the page. `selection` and `marks` stay as they are."""

    def _rows(self) -> np.ndarray:
        chosen = self.page.selection
        return np.arange(len(self.page.display)) if chosen is None else np.flatnonzero(chosen)

    def __repr__(self) -> str:
        n, chosen, marked = len(self.page.display), len(self._rows()), len(self.page.review.current()[1])
        return f"View of {self.page.display.name}: {chosen:,} of {n:,} samples selected, {marked:,} marked"


class ServedView(View):
    """A page on a port of this machine."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server, self.address = page, server, server.address
        server.start()

    def close(self) -> None:
        """Stop the server."""
        self.server.close()

    @property
    def closed(self) -> bool:
        """Whether the server has stopped."""
        return self.server.closed

    def wait(self) -> None:
        """Keep a script running until Ctrl-C, or until the view is closed."""
        try:
            while not self.closed:
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.close()

    def __repr__(self) -> str:
        return f"{super().__repr__()}{', closed' if self.closed else f', at {self.address}'}"

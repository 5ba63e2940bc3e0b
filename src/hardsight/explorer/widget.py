"""`Widget`: the page in a notebook, as an anywidget: JupyterLab, VS Code, Colab, marimo.

The page is one file in a frame without an address (one_file.py). What it would ask a server over HTTP, it asks through the
channel between the notebook and its kernel, and routes.py answers as ever: no port is opened, and nothing is fetched.
"""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

from hardsight.errors import require
from hardsight.explorer.explore import View
from hardsight.explorer.one_file import one_file
from hardsight.explorer.page import Page
from hardsight.explorer.routes import respond

anywidget: Any = require("anywidget", extra="notebook", purpose="explore in a notebook")
traitlets: Any = require("traitlets", extra="notebook", purpose="explore in a notebook")

HEIGHT = 900  # pixels of the frame


@functools.cache
def script() -> str:
    """The module that a notebook loads: widget.js, which makes the frame, with the page in it."""
    source = (files("hardsight.explorer") / "widget.js").read_text("utf-8")
    return f"const PAGE = {json.dumps(one_file(None))};\n{source}"


class Widget(anywidget.AnyWidget, View):  # type: ignore[misc]
    """An open page in a notebook: as the value of a cell, it is shown there.

    Attributes:
        height: of the frame, in pixels; it can be set.
        selected: how many samples are selected, as the browser says; `observe` it to follow the selection.
    """

    height = traitlets.Int(HEIGHT).tag(sync=True)
    selected = traitlets.Int().tag(sync=True)
    __repr__ = View.__repr__

    def __init__(self, page: Page) -> None:
        super().__init__(_esm=script(), selected=len(page.display))
        self.page = page
        self.on_msg(self._asked)

    def _asked(self, _: Any, message: dict[str, Any], buffers: list[Any]) -> None:
        """Answer a request of the page: the same as over HTTP, as one message with its bytes beside it."""
        body = bytes(buffers[0]) if buffers else b""
        answer = respond(self.page, message["method"], message["address"], body)
        self.send({"id": message["id"], "status": answer.status, "type": answer.media_type}, [answer.content])

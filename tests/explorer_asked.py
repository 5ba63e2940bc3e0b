"""A running explorer, asked by hand: every header is the test's own."""

from __future__ import annotations

import http.client
import json
from typing import Any

from hardsight.explorer.opening import open_page
from hardsight.explorer.server import Server
from hardsight.explorer.settings import ExploreSettings


def start(x: Any, second: Any = None, **options: Any) -> Server:
    """A server of the page, ready to run."""
    settings = ExploreSettings.given(None, options)
    return Server(open_page(x, second, settings), settings)


class Asked:
    """A running server, asked by hand."""

    def __init__(self, started: Server) -> None:
        self.token, self.port = started.guard.token, started.socket.getsockname()[1]
        self.write, self.host = started.guard.write_token, f"127.0.0.1:{self.port}"
        self.cookie = {"Cookie": f"{started.guard.cookie}={self.token}"}

    def __call__(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        sent = {"Host": self.host, **self.cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.content = answer.read()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def post(self, path: str, told: Any, **headers: str) -> http.client.HTTPResponse:
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        return self(path, "POST", content, **{"X_Hardsight": self.write, **headers})

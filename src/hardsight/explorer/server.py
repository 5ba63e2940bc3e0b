"""`Server`: a page on a port of this machine that browsers are willing to open, behind its guard."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from hardsight.errors import InputError, RunError
from hardsight.explorer.page import Page
from hardsight.explorer.routes import respond
from hardsight.explorer.security import Guard, Receive, Scope, Send
from hardsight.explorer.settings import ExploreSettings

HEADER_PATIENCE = 15.0  # seconds for the head of a request to arrive
GRACE = 2  # seconds that requests have to end when the server does
PATIENCE = 20.0  # seconds for a server in a thread to start or to end
FIRST, TRIES = 8321, 200
# Chromium and Firefox refuse to open these ports: ERR_UNSAFE_PORT.
UNSAFE = frozenset(
    [1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111]
    + [113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548]
    + [554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566]
    + [6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080]
)


class Server:
    """A page, ready to be served.

    Attributes:
        address: of the page, with its token. Anyone on this machine who has it can open the page.
        notes: for the user, one sentence each.
    """

    def __init__(self, page: Page, settings: ExploreSettings) -> None:
        self.page, self.notes = page, list(page.notes)
        self.socket, moved = listen(settings.host, settings.port)
        port = self.socket.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        allowed = list(settings.allowed_hosts)
        if settings.remote:
            self.notes.append("Other machines can connect: whoever has the address with its token sees and can mark the images.")
            allowed += [] if settings.every_address else [f"{host}:{port}"]
        self.notes = [*([moved] if moved else []), *self.notes]
        self.guard = Guard(_app(page), port, allowed)
        page.write_token = self.guard.write_token
        self.address = f"http://{'127.0.0.1' if settings.every_address else host}:{port}/?token={self.guard.token}"
        self._thread: Thread | None = None

    def run(self, browser: bool) -> None:
        """Run until Ctrl-C; the address is printed as soon as requests are answered."""

        def ready() -> None:
            print(f"hardsight is at {self.address}\nPress Ctrl-C to stop.", flush=True)
            if browser:
                Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()

        self._serve(ready)

    def start(self) -> None:
        """Run in a thread, and return as soon as requests are answered."""
        up = Event()
        self._thread = Thread(target=self._serve, args=(up.set,), daemon=True)
        self._thread.start()
        if not up.wait(PATIENCE):
            raise RunError(f"the page did not start within {PATIENCE:g} s.")

    def _serve(self, ready: Callable[[], None]) -> None:
        Thread(target=self.page.pictures.warm, daemon=True).start()
        self._uvicorn = _uvicorn(self.guard, ready)
        self._uvicorn.run(sockets=[self.socket])

    @property
    def closed(self) -> bool:
        """Whether it does not run in a thread."""
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Stop the server in its thread."""
        if self._thread is not None:
            self._uvicorn.should_exit = True
            self._thread.join(PATIENCE)
        self.socket.close()


def _app(page: Page) -> Any:
    """The page's answers as an ASGI app; each is made in a thread, so that a slow one does not keep others waiting."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"") if scope["method"] == "POST" else b""  # in one piece, by the guard
        address = f"{scope['raw_path'].decode('latin-1')}?{scope['query_string'].decode('latin-1')}"
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        answer = await asyncio.to_thread(respond, page, method, address, body)
        headers = {"content-type": answer.media_type, "content-length": len(answer.content), "cache-control": answer.cache}
        sent = [(name.encode(), str(value).encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": sent})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.content})

    return app


def listen(host: str, port: int | None) -> tuple[socket.socket, str | None]:
    """A listening socket at the port or the next free one, and a note if that is not the requested one."""
    wanted = FIRST if port is None else port
    for number in [0] if wanted == 0 else range(wanted, min(wanted + TRIES, 65536)):
        if number in UNSAFE:
            continue
        try:
            opened = _bound(host, number)
        except PermissionError as error:
            raise InputError(f"port {number} could not be opened: {error.strerror}. Choose one above 1024.") from error
        except OSError as error:
            if isinstance(error, socket.gaierror):
                raise InputError(f"--host {host}: {error.strerror}.") from error
            continue
        if number == 0 and opened.getsockname()[1] in UNSAFE:
            opened.close()
            return listen(host, 0)
        why = "browsers refuse it" if wanted in UNSAFE else "it is taken"
        moved = port not in (None, 0) and number != wanted
        return opened, f"port {wanted}: {why}, so the page is at {number}" if moved else None
    raise InputError(f"no free port between {wanted} and {min(wanted + TRIES, 65536) - 1}; give another --port.")


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(256)
    except BaseException:
        opened.close()
        raise
    return opened


def _uvicorn(app: Guard, ready: Callable[[], None]) -> Any:
    """A uvicorn server that calls `ready` as soon as it answers requests."""
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

    class Quick(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets=sockets)
            for connection in list(self.server_state.connections):  # requests that take longer
                connection.transport.abort()
            await asyncio.sleep(0.01)  # lets the loop close them

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
    return Quick(settings)

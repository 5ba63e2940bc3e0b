"""The HTTP server: a free port that browsers are willing to open, and uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from hardsight.errors import InputError
from hardsight.explorer.security import Guard

HEADER_PATIENCE = 15.0  # seconds for the head of a request to arrive
GRACE = 2  # seconds that requests have to end when the server does
FIRST, TRIES = 8321, 200
# Chromium and Firefox refuse to open these ports: ERR_UNSAFE_PORT.
UNSAFE = frozenset(
    [1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111]
    + [113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548]
    + [554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566]
    + [6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080]
)


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


def make_server(app: Guard, ready: Callable[[], None] | None = None) -> Any:
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

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if ready is not None:
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
    return Server(settings)

"""Access control: one layer around all routes, so that no route can forget it.

Host             must be one of the allowed names with the port: a foreign name that resolves to this machine is refused
Sec-Fetch-Site   same-origin or none (typed, bookmarked); a page of another site gets nothing
Origin           if there is one, it must be ours
token            once in the address, which sets a cookie and redirects to a clean address; compared in constant time
POST             needs the write token in a header as well, which only our own page can read
frame            no other page may show ours in a frame
body             limited in size and in time; that of a refused request is read and dropped
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 4 * 2**20  # bytes: a selection of 30 million rows, one bit each
PATIENCE = 20.0  # seconds for a body to arrive
LINGER = 2.0  # seconds for the rest of the body of a refused request
MOST_URL = 16_384
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=()",
}


class Guard:
    """An ASGI app that lets only the person who started the server through to `app`.

    Args:
        app: what is guarded.
        port: the server's.
        allowed_hosts: further NAME:PORT, for people behind `ssh -L` or a proxy.
    """

    def __init__(self, app: App, port: int, allowed_hosts: Iterable[str] = ()) -> None:
        self.app, self.port = app, port
        self.token, self.write_token = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.cookie = f"hardsight_{port}"  # cookies do not tell ports apart, so their names must
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        for name in allowed_hosts:
            self.hosts.add(name.lower())
            if name.endswith((":80", ":443")):  # browsers leave the usual port out
                self.hosts.add(name.lower().rpartition(":")[0])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # websockets are not used
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await _refuse(receive, send, *refused)
            return
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if scope["path"] == "/" and "token" in query:
            if hmac.compare_digest(query["token"][0].encode(), self.token.encode()):
                cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                await _answer(send, 303, "", {"location": "./", "set-cookie": cookie})
            else:
                await _refuse(receive, send, 403, "This address has another token. Use the one that hardsight printed.")
            return
        if not hmac.compare_digest(_cookie(headers, self.cookie).encode(), self.token.encode()):
            await _refuse(receive, send, 403, "Open the address that hardsight printed: it holds the token.")
            return
        if scope["method"] == "POST":
            token = headers.get(b"x-hardsight", b"")
            if not hmac.compare_digest(token, self.write_token.encode()):
                await _refuse(receive, send, 403, "A change needs the page's own token.")
                return
            body = await _body(receive)
            if isinstance(body, int):
                await _refuse(receive, send, body, "The request is too large or came too slowly.")
                return
            receive = _again(body)
        await self.app(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self.hosts:
            return 403, "This name is not served here. See --allowed-host."
        if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return 403, "Requests from other sites are refused."
        origin = headers.get(b"origin")
        if origin is not None and _netloc(origin) not in self.hosts:
            return 403, "Requests from other origins are refused."
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST."
        if not scope["path"].startswith("/") or len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_URL:
            return 400, "Not an address of this server."
        return None


def _netloc(origin: bytes) -> str:
    """NAME:PORT of an origin; empty if it is malformed, such as http://[."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower()
    except ValueError:
        return ""


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Header values by name; a header that occurs twice has no value, since two readers could choose differently."""
    values: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        values[name] = b"" if name in values and name != b"cookie" else value
    return values


def _cookie(headers: dict[bytes, bytes], name: str) -> str:
    cookies = headers.get(b"cookie", b"").decode("latin-1").split(";")
    return dict(cookie.strip().partition("=")[::2] for cookie in cookies).get(name, "")


async def _body(receive: Receive) -> bytes | int:
    """The body, or 413 if it is too large, or 408 if it is too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return 400
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY:
                    return 413
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return 408


def _again(body: bytes) -> Receive:
    """Replays a body that was read already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *extra]
        await send(message)

    return guarded


async def _refuse(receive: Receive, send: Send, status: int, words: str) -> None:
    """Refuse a request, after the rest of it has arrived.

    A connection that is closed with bytes unread is reset, and a reset overtakes the answer: the other side would see an
    error of the network instead of the reason.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            message: Message = {"type": "http.request", "more_body": True}
            while message["type"] == "http.request" and message.get("more_body"):
                message = await receive()
    await _answer(send, status, words, {"connection": "close"})


async def _answer(send: Send, status: int, words: str, headers: dict[str, str]) -> None:
    values = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store", **headers}
    start = {"type": "http.response.start", "status": status, "headers": [(k.encode(), v.encode()) for k, v in values.items()]}
    await _with_headers(send)(start)
    await send({"type": "http.response.body", "body": (words + "\n").encode() if words else b""})

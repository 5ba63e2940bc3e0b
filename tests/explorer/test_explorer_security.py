"""Who may ask the server: hosts, origins, tokens, paths, and images that are not what they claim to be."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from benchmarks.timing import extra_memory
from explorer_asked import Asked
from explorer_browser import listening
from explorer_runs import digits_run
from hardsight.errors import InputError
from hardsight.explorer.security import HEADERS, MOST_BODY
from hardsight.explorer.serve import Started, start
from hardsight.explorer.server import UNSAFE, listen
from hardsight.table import write_table


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("security") / "run", n=50)


@pytest.fixture(scope="module")
def ask(run: Path) -> Iterator[Asked]:
    with running(start(run, port=0, allowed_hosts=["near.example:9000", "book.example:443"])) as asked:
        yield asked


@contextlib.contextmanager
def running(started: Started) -> Iterator[Asked]:
    with listening(started):
        yield Asked(started)


def test_the_token_is_asked_for_once_and_leaves_the_address(ask: Asked) -> None:
    for cookie in ("", "hardsight_1=x", f"hardsight_{ask.port}=wrong", f"hardsight_{ask.port}="):
        assert ask("/", Cookie=cookie).status == 403
        assert ask("/api/run", Cookie=cookie).status == 403
        assert ask("/thumb/0", Cookie=cookie).status == 403
    assert ask("/?token=wrong", Cookie="").status == 403
    welcome = ask(f"/?token={ask.token}", Cookie="")
    assert welcome.status == 303 and welcome.headers["location"] == "./" and welcome.headers["referrer-policy"] == "no-referrer"
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and ask.token in cookie
    assert ask("/").status == 200 and ask("/").content.startswith(b"<!doctype html>")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "localhost.evil.com:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost:{port}.evil.com",
        "",
        "near.example",
    ],
)
def test_foreign_hosts_are_refused(ask: Asked, host: str) -> None:
    assert ask("/api/run", Host=host.format(port=ask.port)).status in (400, 403)


def test_own_and_allowed_hosts_are_served(ask: Asked) -> None:
    for host in (f"localhost:{ask.port}", f"[::1]:{ask.port}", "near.example:9000", "NEAR.example:9000", "book.example"):
        assert ask("/api/run", Host=host).status == 200
    assert ask("/api/run", Host="book.example", Origin="https://book.example").status == 200


def test_two_hosts_and_an_absolute_address_are_refused(ask: Asked) -> None:
    for head in (
        f"GET /api/run HTTP/1.1\r\nHost: {ask.host}\r\nHost: evil.com\r\nCookie: {ask.cookie['Cookie']}\r\n\r\n",
        f"GET http://evil.com/api/run HTTP/1.1\r\nHost: evil.com\r\nCookie: {ask.cookie['Cookie']}\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", ask.port), 20) as opened:
            opened.sendall(head.encode())
            assert opened.recv(64).split()[1] in (b"400", b"403")


def test_a_websocket_is_not_opened(ask: Asked) -> None:
    for origin in ("http://evil.com", f"http://{ask.host}"):
        head = (
            f"GET /api/run HTTP/1.1\r\nHost: {ask.host}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", ask.port), 20) as opened:
            opened.sendall(head.encode())
            assert opened.recv(64).split()[1] == b"403"  # another origin; or ours, without the cookie


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_get_nothing(ask: Asked, site: str) -> None:
    assert ask("/api/run", Sec_Fetch_Site=site).status == 403
    assert ask(f"/?token={ask.token}", Sec_Fetch_Site=site).status == 403
    assert ask("/api/run", Sec_Fetch_Site="same-origin").status == 200


def test_a_refusal_arrives_though_the_body_comes_late(ask: Asked) -> None:
    """A connection closed with bytes unread is reset, and the reason is lost on the way."""
    lines = ["POST /api/mark HTTP/1.1", f"Host: {ask.host}", "Origin: http://evil.com", "Content-Length: 60000", "", ""]
    with socket.create_connection(("127.0.0.1", ask.port), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        time.sleep(0.2)
        for _ in range(3):
            connection.sendall(b" " * 20_000)
            time.sleep(0.05)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 403") and b"Requests from other origins are refused." in answer


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.com", "http://127.0.0.1:1", "file://", "http://[", "http://]:80", "http://[x]:y"]
)
def test_other_origins_change_nothing(ask: Asked, run: Path, origin: str) -> None:
    assert ask.post("/api/mark", {"row": 0, "mark": "drop"}, Origin=origin).status == 403
    assert ask("/api/run", Origin=origin).status == 403
    preflight = ask("/api/mark", "OPTIONS", Origin=origin, Access_Control_Request_Method="POST")
    assert preflight.status in (403, 405) and not any("access-control" in name.lower() for name in preflight.headers)
    assert not (run / "review.parquet").exists()


def test_a_mark_in_a_deleted_run_says_why(tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=20)
    with running(start(run, port=0)) as ask:
        shutil.rmtree(run)
        for path in ("/api/mark", "/api/undo"):
            answer = ask.post(path, {"row": 0, "mark": "drop"})
            assert answer.status == 400 and "No such file or directory" in json.loads(answer.content)["error"]  # type: ignore[attr-defined]
    assert not run.exists()


def test_a_change_needs_the_pages_own_token(ask: Asked, run: Path) -> None:
    told = json.dumps({"row": 0, "mark": "drop"}).encode()
    assert ask("/api/mark", "POST", told).status == 403
    assert ask("/api/mark", "POST", told, X_Hardsight="wrong").status == 403
    assert ask("/api/mark", "POST", told, X_Hardsight=ask.token, Content_Type="text/plain").status == 403
    assert not (run / "review.parquet").exists()


@pytest.mark.parametrize(
    "path",
    ["/static/../../etc/passwd", "/js/../server.py", "/js/%2e%2e/server.py", "/js/..%2fserver.py", "//etc/passwd",
     "/js/main.js%00", "/..\\server.py", "/js/", "/server.py", "/%2e%2e/%2e%2e/etc/passwd", "/thumb/..%2f..%2fetc%2fpasswd"],
)  # fmt: skip
def test_no_address_leads_to_a_file(ask: Asked, path: str) -> None:
    answer = ask(path)
    assert answer.status in (400, 404)
    assert b"root:" not in answer.content and b"import " not in answer.content  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", ["-1", "50", "1" + "0" * 30, "NaN", "1e3", "0x1", "٣", "1.0", " "])
def test_rows_that_are_not_there(ask: Asked, row: str) -> None:
    from urllib.parse import quote

    for path in (
        f"/thumb/{quote(row)}",
        f"/api/sample/{quote(row)}",
        f"/api/neighbors/{quote(row)}",
        f"/api/rows?rows={quote(row)}",
    ):
        assert ask(path).status in (400, 404)
    assert ask.post("/api/mark", {"row": row, "mark": "fine"}).status in (400, 404)


def test_odd_questions_are_answered_without_a_crash(ask: Asked) -> None:
    assert ask("/api/rows?rows=" + ",".join(["1"] * 501)).status == 400
    assert ask("/api/rows?rows=" + ",".join(["1"] * 100)).status == 200
    assert ask("/api/column?name=nothing").status == 404
    assert ask("/api/epoch/0/avh").status == 404
    assert ask("/api/find?text=" + "x" * 20_000).status == 400
    assert ask.post("/api/curves?measure=avh", b"").status == 404
    assert ask.post("/api/export?what=selection&format=exe", b"").status == 400
    assert ask.post("/api/export?what=selection&format=csv", b"123").status == 404
    for told in (b"", b"[]", b"{" * 2000, b'{"row": true}', b'{"row": 1e400}', {"row": 0, "mark": 5}, {"row": 0, "mark": "no"}):
        assert ask.post("/api/mark", told).status in (400, 404)
    assert ask.post("/api/mark", b" " * (MOST_BODY + 1)).status == 413


def test_headers_are_on_every_answer(ask: Asked) -> None:
    for answer in (ask("/"), ask("/js/main.js"), ask("/api/run"), ask("/thumb/0"), ask("/nothing"), ask("/", Cookie="")):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy and "http" not in policy


def test_long_heads_and_idle_clients_do_not_stop_others(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection(("127.0.0.1", ask.port), 20) as opened:
        opened.sendall(f"GET / HTTP/1.1\r\nHost: {ask.host}\r\nX: ".encode() + b"x" * 200_000)
        assert opened.recv(64).split()[1] in (b"400", b"431")
    idle = [socket.create_connection(("127.0.0.1", ask.port), 20) for _ in range(200)]
    for one in idle[:100]:
        one.sendall(b"GET / HT")
    begun = time.monotonic()
    assert ask("/api/run").status == 200 and time.monotonic() - begun < 10
    for one in idle:
        one.close()


def test_half_a_head_is_not_waited_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.server.HEADER_PATIENCE", 0.3)
    with running(start(run, port=0)) as asked, socket.create_connection(("127.0.0.1", asked.port), 20) as opened:
        opened.sendall(b"GET / HT")
        opened.settimeout(10)
        assert opened.recv(64) == b""


def test_a_server_that_ends_closes_the_requests_it_cannot_wait_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.server.GRACE", 0.1)
    with running(start(run, port=0)) as asked:
        client = socket.create_connection(("127.0.0.1", asked.port), 20)
        head = f"POST /api/mark HTTP/1.1\r\nHost: {asked.host}\r\nCookie: {asked.cookie['Cookie']}\r\n"
        client.sendall(f"{head}X-Hardsight: {asked.write}\r\nContent-Length: 9\r\n\r\n1234".encode())  # half of its body
        assert asked("/api/run").status == 200  # the server has got as far as the other request
    with client, contextlib.suppress(ConnectionResetError):
        client.settimeout(10)
        while client.recv(4096):
            pass
    gc.collect()  # a transport that was not closed says so now


# Images


def make_images(folder: Path, outside: Path) -> dict[str, Callable[[], None]]:
    """File name -> what makes it."""

    def noise(mode: str, size: tuple[int, int], **save: Any) -> Callable[[str], None]:
        return lambda name: Image.effect_noise(size, 80).convert(mode).save(folder / name, **save)

    outside.write_bytes(b"")
    Image.new("RGB", (9, 9), "red").save(outside, "PNG")
    made: dict[str, Any] = {
        "cmyk.jpg": noise("CMYK", (20, 10)),
        "palette.png": lambda name: Image.new("PA", (5, 5)).convert("RGBA").quantize().save(folder / name, transparency=0),
        "sixteen.png": lambda name: Image.fromarray(np.full((6, 6), 40_000, np.uint16)).save(folder / name),
        "one.png": noise("L", (1, 1)),
        "line.png": noise("L", (1, 20_000)),
        "moving.gif": lambda name: Image.new("P", (8, 8)).save(
            folder / name, save_all=True, append_images=[Image.new("P", (8, 8), 1)]
        ),
        "ünï 😀 name.png": noise("RGB", (8, 8)),
        "new\nline.png": noise("RGB", (8, 8)),
        "cut.png": lambda name: cut(folder / name),
        "script.png": lambda name: (folder / name).write_text(
            "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
        ),
        "page.png": lambda name: (folder / name).write_text("<html><script>alert(1)</script>"),
        "empty.png": lambda name: (folder / name).write_bytes(b""),
        "bomb.png": lambda name: bomb(folder / name, 30_000),
        "link.png": lambda name: (folder / name).symlink_to(outside),
        "folder.png": lambda name: (folder / name).mkdir(),
    }
    return made


def cut(path: Path) -> None:
    Image.effect_noise((60, 60), 80).save(path)
    path.write_bytes(path.read_bytes()[:600])


def bomb(path: Path, side: int) -> None:
    """A PNG of side x side pixels in a few kB, written without ever holding them."""
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(bytes(1 + side // 8)) for _ in range(side)) + packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


BROKEN = {"cut.png", "script.png", "page.png", "empty.png", "bomb.png", "link.png", "folder.png"}
OUTSIDE = [
    "../outside.png",
    "/etc/passwd",
    "file:///etc/passwd",
    "http://127.0.0.1:9/x.png",
    "\\\\host\\share\\x.png",
    "//host/x.png",
    "gone.png",
    "",
]


def test_only_re_encoded_pictures_of_the_root_leave(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    made = make_images(root, tmp_path / "outside.png")
    for name, make in made.items():
        make(name)  # type: ignore[call-arg]
    paths = [*made, *OUTSIDE]
    write_table(
        pa.table({"id": [f"i{k}" for k in range(len(paths))], "avh": np.linspace(0, 1, len(paths)), "path": paths}),
        tmp_path / "scores.parquet",
    )
    with running(start(tmp_path / "scores.parquet", images=str(root), port=0)) as asked:
        used = extra_memory(lambda: asked(f"/thumb/{paths.index('bomb.png')}"))
        assert used is None or used < 200  # MB: its pixels alone would be 900
        for row, path in enumerate(paths):
            answer = asked(f"/thumb/{row}")
            content = answer.content  # type: ignore[attr-defined]
            assert answer.status == 200 and answer.headers["content-type"] == "image/webp"
            assert content[:4] == b"RIFF" and content[8:12] == b"WEBP" and b"script" not in content
            trouble = json.loads(asked(f"/api/sample/{row}").content)["trouble"]  # type: ignore[attr-defined]
            assert (trouble is not None) == (path in BROKEN or path in OUTSIDE), (path, trouble)


# Ports and names


def test_ports_taken_or_unsafe_are_passed_over() -> None:
    first, said = listen("127.0.0.1", 0)
    with first:
        number = first.getsockname()[1]
        second, said = listen("127.0.0.1", number)
        with second:
            assert second.getsockname()[1] != number and said is not None and "taken" in said
    third, said = listen("127.0.0.1", 6000)
    with third:
        assert third.getsockname()[1] not in UNSAFE and said is not None and "browsers refuse" in said
    with pytest.raises(InputError, match="0 to 65535"):
        listen("127.0.0.1", 70_000)


def test_other_machines_only_if_it_is_said_twice(run: Path, cli: Callable[..., Any]) -> None:
    done = cli("explore", run, "--host", "0.0.0.0", "--no-browser")
    assert done.code == 2 and "--allow-remote" in done.err
    started = start(run, host="0.0.0.0", allow_remote=True, port=0)
    started.socket.close()
    assert any("Other machines can connect" in note for note in started.notes)
    done = cli("explore", run, "--allowed-host", "http://x/", "--no-browser")
    assert done.code == 2 and "NAME:PORT" in done.err

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
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from benchmarks.timing import extra_memory
from explorer_asked import Asked, start
from explorer_browser import listening
from explorer_runs import digits_run
from hardsight.explorer.security import HEADERS, MOST_BODY
from hardsight.explorer.server import UNSAFE, Server, listen
from hardsight.table import write_table


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("security") / "run", n=50)


@pytest.fixture(scope="module")
def ask(run: Path) -> Iterator[Asked]:
    with running(start(run, port=0, allowed_hosts=["near.example:9000", "book.example:443"])) as asked:
        yield asked


@contextlib.contextmanager
def running(started: Server) -> Iterator[Asked]:
    with listening(started):
        yield Asked(started)


def test_the_token_is_asked_for_once_and_leaves_the_address(ask: Asked) -> None:
    for cookie in ("", "hardsight_1=x", f"hardsight_{ask.port}=wrong", f"hardsight_{ask.port}="):
        assert [ask(path, Cookie=cookie).status for path in ("/", "/api/run", "/thumb/0")] == [403] * 3
    assert ask("/?token=wrong", Cookie="").status == 403
    welcome = ask(f"/?token={ask.token}", Cookie="")
    assert welcome.status == 303 and welcome.headers["location"] == "./" and welcome.headers["referrer-policy"] == "no-referrer"
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and ask.token in cookie
    assert ask("/").status == 200 and ask("/").content.startswith(b"<!doctype html>")  # type: ignore[attr-defined]


def test_own_and_allowed_hosts_are_served_and_no_others(ask: Asked) -> None:
    foreign = ["evil.com", "localhost.evil.com", "127.0.0.1", "127.0.0.1:1", f"localhost:{ask.port}.evil.com", "", "near.example"]
    for host in (*foreign, f"evil.com:{ask.port}", f"localhost.evil.com:{ask.port}"):
        assert ask("/api/run", Host=host).status in (400, 403), host
    for host in (f"localhost:{ask.port}", f"[::1]:{ask.port}", "near.example:9000", "NEAR.example:9000", "book.example"):
        assert ask("/api/run", Host=host).status == 200
    assert ask("/api/run", Host="book.example", Origin="https://book.example").status == 200


UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


@pytest.mark.parametrize(
    "head",
    [
        "/api/run HTTP/1.1\r\nHost: {host}\r\nHost: evil.com\r\nCookie: {cookie}",
        "http://evil.com/api/run HTTP/1.1\r\nHost: evil.com\r\nCookie: {cookie}",
        "/api/run HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.com\r\n" + UPGRADE,
        "/api/run HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n" + UPGRADE,  # without the cookie
        "/ HTTP/1.1\r\nHost: {host}\r\nX: " + "x" * 200_000,
    ],
)
def test_requests_that_no_page_makes_are_refused(ask: Asked, head: str) -> None:
    with socket.create_connection(("127.0.0.1", ask.port), 20) as opened:
        opened.sendall(f"GET {head}\r\n\r\n".format(host=ask.host, cookie=ask.cookie["Cookie"]).encode())
        status = opened.recv(64).split()[1]
    assert status == b"403" if UPGRADE in head else status in (b"400", b"403", b"431")


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
    for token in ("", "wrong", ask.token):
        assert ask.post("/api/mark", {"row": 0, "mark": "drop"}, X_Hardsight=token, Content_Type="text/plain").status == 403
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
    for path in ("/thumb/", "/api/sample/", "/api/neighbors/", "/api/rows?rows="):
        assert ask(path + quote(row)).status in (400, 404)
    assert ask.post("/api/mark", {"row": row, "mark": "fine"}).status in (400, 404)


def test_odd_questions_are_answered_without_a_crash(ask: Asked) -> None:
    asked = {"/api/column?name=nothing": 404, "/api/epoch/0/avh": 404, "/api/find?text=" + "x" * 20_000: 400}
    asked |= {"/api/rows?rows=" + ",".join(["1"] * count): status for count, status in ((100, 200), (501, 400))}
    for path, status in asked.items():
        assert ask(path).status == status, path
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


def test_idle_clients_do_not_stop_others(ask: Asked) -> None:
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


def make_images(folder: Path, outside: Path) -> list[str]:
    """Images of every kind, and files that are none; their names."""
    Image.new("RGB", (9, 9), "red").save(outside)
    noise = {"cmyk.jpg": ("CMYK", (20, 10)), "one.png": ("L", (1, 1)), "line.png": ("L", (1, 20_000)), "cut.png": ("L", (60, 60))}
    for name, (mode, size) in (noise | dict.fromkeys(("ünï 😀 name.png", "new\nline.png"), ("RGB", (8, 8)))).items():
        Image.effect_noise(size, 80).convert(mode).save(folder / name)
    (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:600])
    Image.new("PA", (5, 5)).convert("RGBA").quantize().save(folder / "palette.png", transparency=0)
    Image.fromarray(np.full((6, 6), 40_000, np.uint16)).save(folder / "sixteen.png")
    Image.new("P", (8, 8)).save(folder / "moving.gif", save_all=True, append_images=[Image.new("P", (8, 8), 1)])
    (folder / "script.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (folder / "page.png").write_text("<html><script>alert(1)</script>")
    (folder / "empty.png").touch()
    bomb(folder / "bomb.png", 30_000)
    (folder / "link.png").symlink_to(outside)
    (folder / "folder.png").mkdir()
    return [path.name for path in folder.iterdir()]


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
    paths = [*make_images(root, tmp_path / "outside.png"), *OUTSIDE]
    table = {"id": [f"i{k}" for k in range(len(paths))], "avh": np.linspace(0, 1, len(paths)), "path": paths}
    write_table(pa.table(table), tmp_path / "scores.parquet")
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


def test_other_machines_are_said_loudly(run: Path) -> None:
    started = start(run, host="0.0.0.0", allow_remote=True, port=0)
    started.socket.close()
    assert any("Other machines can connect" in note for note in started.notes)

"""A real browser for the explorer's tests: Debian's Chromium, driven by Playwright.

The page works while a test goes on, so a test waits for what it asserts: `expect` polls an element, `eventually` any
value, and `ready` waits until the page has nothing left to fetch or draw.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from benchmarks.explore import find_browser
from explorer_asked import start
from hardsight.explorer.server import Server

CHROMIUM = find_browser()
OTHER_HOST = "notebooks.example"  # a name of this machine, to the browser alone
PATIENCE = 20_000  # milliseconds, on a busy machine


ARGUMENTS = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {OTHER_HOST} 127.0.0.1"]  # no sandbox: root in CI


def needed() -> None:
    """Skip, with the reason, where there is no browser."""
    pytest.importorskip("playwright", reason="the browser tests need playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium-headless-shell")


def cut_off(page: Any, panel: str) -> int:
    """How many pixels of a panel are beyond its edge: on a phone, a table must fit."""
    return int(page.evaluate("(at) => { const p = document.querySelector(at); return p.scrollWidth - p.clientWidth; }", panel))


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def listening(server: Server) -> Iterator[Server]:
    """Serve in a thread until the end of the block."""
    server.start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def served(run: Path, second: Path | None = None, **options: Any) -> Iterator[str]:
    """The explorer's address, served by a thread of this process: quicker than `commanded`."""
    with listening(start(run, second, port=0, **options)) as started:
        yield started.address


@contextmanager
def commanded(*words: object) -> Iterator[str]:
    """`hardsight explore WORDS` in a process of its own; the address it prints."""
    options = ["explore", "--no-browser", "--port", "0", *map(str, words)]
    command = [sys.executable, "-c", "from hardsight.cli import main; main()", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ))
    assert process.stdout is not None
    output = ""
    try:
        for line in process.stdout:
            output += line
            if address := re.search(r"http://\S+", line):
                yield address[0]
                break
        else:
            raise AssertionError(f"the server did not start: {output}")
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@dataclass
class Watched:
    """A page, and everything it should not have done."""

    page: Any
    wrong: list[str] = field(default_factory=list)  # console errors, exceptions, failed requests
    elsewhere: list[str] = field(default_factory=list)  # requests to other origins
    posted: list[str] = field(default_factory=list)  # addresses of POST requests

    def open(self, address: str, view: str = "") -> Any:
        origin = address.split("/?")[0]
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("dialog " + dialog.message), dialog.dismiss()))
        self.page.on("response", lambda answer: answer.status >= 400 and self.wrong.append(f"{answer.status} {answer.url}"))
        allowed = (origin, "data:", "blob:", "file:")
        self.page.on("request", lambda asked: asked.url.startswith(allowed) or self.elsewhere.append(asked.url))
        self.page.on("request", lambda asked: asked.method == "POST" and self.posted.append(asked.url))
        self.page.goto(address + (f"#{view}" if view else ""))
        ready(self.page)
        return self.page

    def leave(self) -> None:
        """Stop asking the server, which is about to end."""
        self.page.goto("about:blank")

    def check(self) -> None:
        assert self.wrong == []
        assert self.elsewhere == []


@contextmanager
def browsing(watched: Watched, run: Path, second: Path | None = None, view: str = "", **options: Any) -> Iterator[Any]:
    """A page on a server that ends after it."""
    with served(run, second, **options) as address:
        yield watched.open(address, view)
        watched.leave()


def expect(what: Any) -> Any:
    """Playwright's own, with more patience: `expect(locator).to_have_text(...)` polls until it holds."""
    from playwright.sync_api import expect as playwright_expect

    playwright_expect.set_options(timeout=PATIENCE)
    return playwright_expect(what)


def eventually(page: Any, probe: Callable[[], Any], expected: Any) -> None:
    """Assert that a probe comes to equal a value while the page goes on."""
    for _ in range(PATIENCE // 20):
        if probe() == expected:
            return
        page.wait_for_timeout(20)
    assert probe() == expected


def ready(page: Any) -> None:
    """Wait until the page has fetched and drawn everything it was asked for."""
    page.wait_for_selector("html[data-ready=yes]", timeout=30_000)


def settled(page: Any, text: str, selector: str = "#count") -> None:
    """Wait until an element says something and the page is at rest: a tile that is replaced under the mouse takes no click."""
    page.locator(selector, has_text=re.compile(text)).first.wait_for(timeout=PATIENCE)
    ready(page)


def view(page: Any) -> dict[str, list[str]]:
    """What the address says after #, as the page itself has it now."""
    return parse_qs(page.evaluate("() => location.hash.slice(1)"))


def drawn_filter(page: Any) -> list[Any]:
    """The first filter of the address, such as ["box", "own_angle", "norm", x0, x1, y0, y1]."""
    return list(json.loads(view(page)["f"][0]))


def counted(page: Any) -> int:
    """How many samples are selected, by what the page says."""
    return int(page.locator("#count").inner_text().split()[0].replace(",", ""))


def first_tile(page: Any, id: str) -> None:
    """Wait until the first sample shown is this one."""
    page.locator(f"#grid .tile:first-child[aria-label^='{id}, ']").wait_for(timeout=PATIENCE)


def drag(page: Any, *places: tuple[float, float], within: Any = None) -> None:
    """Over the scatter, of the page or `within` a frame of it, from place to place, in shares of its width and height."""
    cloud = (within or page).locator("#cloud")
    cloud.scroll_into_view_if_needed()
    box = cloud.bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    page.mouse.move(*at[0])
    page.mouse.down()
    for place in at[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def point_at_end(canvas: Any) -> None:
    """Point at the last value of curves; `hover` waits until the canvas has found its place."""
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": canvas.bounding_box()["width"] - 14, "y": 60})


def downloads(page: Any, folder: Path, what: str, form: str, within: Any = None) -> Path:
    """Export something by the menu, of the page or `within` a frame of it, and where it was saved."""
    (within or page).locator("#export summary").click()
    with page.expect_download() as coming:
        (within or page).locator(f"[data-what={what}][data-format={form}]").click()
    path = folder / coming.value.suggested_filename
    coming.value.save_as(path)
    return path

"""A real browser for the explorer's tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


def needed() -> None:
    """Skip, with the reason, where there is no browser."""
    pytest.importorskip("playwright", reason="the browser tests need playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])  # no sandbox: root in CI
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def served(*words: object) -> Iterator[str]:
    """`hardsight explore WORDS` in a process of its own; the address it prints."""
    command = [
        sys.executable,
        "-c",
        "from hardsight.cli import main; main()",
        "explore",
        "--no-browser",
        "--port",
        "0",
        *map(str, words),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ))
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if found := re.search(r"http://\S+", line):
                yield found[0]
                break
        else:
            raise AssertionError(f"the server did not start: {said}")
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

    def open(self, address: str, view: str = "") -> Any:
        origin = address.split("/?")[0]
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("dialog " + dialog.message), dialog.dismiss()))
        self.page.on("response", lambda answer: answer.status >= 400 and self.wrong.append(f"{answer.status} {answer.url}"))
        allowed = (origin, "data:", "blob:", "file:")
        self.page.on("request", lambda asked: asked.url.startswith(allowed) or self.elsewhere.append(asked.url))
        self.page.goto(address + (f"#{view}" if view else ""))
        self.page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
        return self.page

    def check(self) -> None:
        assert self.wrong == []
        assert self.elsewhere == []


def view(page: Any) -> dict[str, list[str]]:
    """What the address says after #."""
    from urllib.parse import parse_qs

    return parse_qs(page.url.partition("#")[2])


def counted(page: Any) -> int:
    """How many samples are selected, by what the page says."""
    return int(page.locator("#count").inner_text().split()[0].replace(",", ""))


def drag(page: Any, *places: tuple[float, float]) -> None:
    """Over the scatter, from place to place, in shares of its width and height."""
    page.locator("#cloud").scroll_into_view_if_needed()
    box = page.locator("#cloud").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    page.mouse.move(*at[0])
    page.mouse.down()
    for place in at[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def settled(page: Any, text: str, selector: str = "#count") -> None:
    """Wait until an element says something."""
    page.locator(selector, has_text=re.compile(text)).first.wait_for(timeout=20_000)


def downloads(page: Any, folder: Path, what: str, form: str) -> Path:
    page.locator("#export summary").click()
    with page.expect_download() as coming:
        page.locator(f"[data-what={what}][data-format={form}]").click()
    path = folder / coming.value.suggested_filename
    coming.value.save_as(path)
    return path

"""Response times of the page in a real headless Chromium.

Main-thread times are the processor time of the page's main thread between the end of an action and the finished frame, as
reported by the browser. The data is synthetic, since only its size matters; thumbnails are the built-in digits.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Measurement, peak_memory
from hardsight.errors import MissingExtra

READY = {50_000: 3.0, 1_000_000: 6.0}  # seconds from the command to its URL
USABLE = {50_000: 2.0, 1_000_000: 5.0}  # seconds from the URL to a responsive page
REDRAWN = {50_000: 50.0, 1_000_000: 200.0}  # ms of the main thread from the end of a brush, filter or zoom
THUMBNAILS = 1.0  # seconds
MEMORY = 600.0  # MB on top of the columns, at 1,000,000 rows
CLASSES = 100


def make_table(n: int, seed: int = 0) -> pa.Table:
    """A realistic scores table: angles, norms and the scores derived from them."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    angle = np.clip(rng.normal(1.1, 0.18, n), 0.05, 3)
    norm = rng.gamma(30, 1.2, n)
    nearest = np.clip(rng.normal(1.35, 0.08, n), 0.05, 3)
    margin = norm * (np.cos(angle) - np.cos(nearest))
    confidence = 1 / (1 + np.exp(-0.6 * margin))
    predicted = np.where(margin > 0, label, (label + 1 + rng.integers(0, CLASSES - 1, n)) % CLASSES)
    columns = {
        "id": pa.array(np.arange(n)).cast(pa.string()),
        "label": label,
        "predicted": predicted,
        "status": pa.array(["ok"]).take(pa.array(np.zeros(n, np.int64))),
        "avh": angle / (angle + (CLASSES - 1) * 1.5),
        "own_angle": angle,
        "nearest_angle": nearest,
        "angular_gap": angle - nearest,
        "norm": norm,
        "confidence": confidence,
        "loss": -np.log(np.maximum(confidence, 1e-12)),
        "logit_margin": margin,
        "entropy": rng.random(n),
    }
    return pa.table(columns)


def find_browser() -> str | None:
    """Path of an installed Chromium; the headless shell first, which starts and draws with less work."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def run(n: tuple[int, ...] = (50_000, 1_000_000), rounds: int = 5) -> list[Measurement]:
    """Everything for each number of points, with a server of its own."""
    browser = find_browser()
    if browser is None:
        raise MissingExtra("this needs Chromium: apt-get install chromium-headless-shell")
    lines: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="hardsight-bench-") as folder:
        for points in n:
            file = Path(folder) / f"{points}.parquet"
            pq.write_table(make_table(points), file)
            lines += _measured(points, file, browser, rounds)
    return lines


def _measured(n: int, file: Path, browser: str, rounds: int) -> list[Measurement]:
    from playwright.sync_api import sync_playwright

    case = f"{n:,} points"
    start = time.perf_counter()
    with _server(file) as (address, process), sync_playwright() as play:
        ready = time.perf_counter() - start
        opened = play.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = opened.new_context(viewport={"width": 1440, "height": 900}).new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        usable = time.perf_counter() - start
        lines = [
            Measurement(case, "server ready", ready, "s", limit=READY.get(n)),
            Measurement(case, "page usable", usable, "s", limit=USABLE.get(n)),
        ]
        for what in ACTIONS:
            best = min(_main_thread(page, what, turn) for turn in range(rounds))
            lines.append(Measurement(case, f"{what}, main thread", best, "ms", limit=REDRAWN.get(n)))
        lines.append(Measurement(case, "thumbnails after a brush", _thumbnails(page), "s", limit=THUMBNAILS))
        here = (address.split("/?")[0], "data:", "blob:", "about:")
        elsewhere = [url for url in requested if not url.startswith(here)]
        lines.append(Measurement(case, "requests elsewhere", float(len(elsewhere)), "", limit=0.0))
        memory = peak_memory(process.pid)
        if memory is not None:
            columns = 9 * 4 * n / 2**20 + 3 * n / 2**20  # float32 scores, codes of classes
            limit = MEMORY if n >= 1_000_000 else None
            lines.append(Measurement(case, "server memory beside the columns", memory - columns, "MB", limit=limit))
        opened.close()
    return lines


@contextmanager
def _server(file: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    words = ["explore", str(file), "--no-browser", "--port", "0", "--images", "digits"]
    process = subprocess.Popen([sys.executable, "-m", "hardsight", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            address = re.search(r"http://\S+", line)
            if address:
                yield address[0], process
                break
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def _brush(page: Any, turn: int) -> None:
    """Release a box selection in the middle; the drag happened before."""
    box = page.locator("#cloud").bounding_box()
    page.mouse.move(box["x"] + box["width"] * (0.35 + 0.02 * turn), box["y"] + box["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7, steps=3)


ACTIONS: dict[str, tuple[Any, Any]] = {  # what comes before, and the end, from which the time is taken
    "brush": (_brush, lambda page, turn: page.mouse.up()),
    "filter": (
        lambda page, turn: None,
        lambda page, turn: page.evaluate(f"() => document.querySelectorAll('#view-classes .pick')[{turn}].click()"),
    ),
    "zoom": (lambda page, turn: page.locator("#cloud").focus(), lambda page, turn: page.keyboard.press("+")),
}


def _main_thread(page: Any, what: str, turn: int) -> float:
    """Main-thread milliseconds from the end of an action until everything is redrawn."""
    begin, end = ACTIONS[what]
    page.evaluate("() => document.getElementById('clear').click()")
    page.wait_for_timeout(300)
    begin(page, turn)
    page.wait_for_timeout(300)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # the thread's own time, not wall time
    page.evaluate(WATCH)
    before = _busy(session)
    end(page, turn)
    page.evaluate("() => window.redrawn.then(() => 0)")
    used = _busy(session) - before
    session.detach()
    return used * 1e3


# A promise that the next redraw is on screen: the first message after its frame. Thumbnails load later and are timed separately.
WATCH = """() => { window.redrawn = new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    const watch = new MutationObserver(() => { watch.disconnect(); requestAnimationFrame(() => port2.postMessage(0)); });
    watch.observe(document.documentElement, { attributeFilter: ["data-redraws"] });
}); }"""


def _busy(session: Any) -> float:
    """Seconds of main-thread work so far."""
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def _thumbnails(page: Any) -> float:
    """Seconds from the end of a brush until every thumbnail in view is drawn."""
    page.evaluate("() => document.getElementById('clear').click()")
    page.wait_for_timeout(300)
    _brush(page, 7)
    turns = page.evaluate("() => document.getElementById('grid').dataset.turns")
    complete = f"""() => document.getElementById('grid').dataset.turns !== '{turns}'
        && [...document.querySelectorAll('#grid img')].every((image) => image.complete && image.naturalWidth
            || image.getBoundingClientRect().top > document.getElementById('grid').getBoundingClientRect().bottom)"""
    start = time.perf_counter()
    page.mouse.up()
    while not page.evaluate(complete):
        page.wait_for_timeout(10)
    return time.perf_counter() - start

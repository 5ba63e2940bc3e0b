"""`hardsight.explore`: who may show the page in a frame, and what comes back from it; then in a real JupyterLab."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from explorer_asked import Asked
from explorer_browser import drag, expect
from explorer_runs import digits_run
from hardsight.explorer import explore
from hardsight.explorer.explore import View
from hardsight.explorer.security import HEADERS
from hardsight.explorer.serve import start
from jupyter_lab import PATIENCE, jupyter_lab, open_notebook, run_cell, write_notebook

NOTEBOOK = "http://localhost:8888"
IN_FRAME: dict[str, Any] = {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("notebook") / "run", n=40)


@pytest.fixture
def view(run: Path) -> Iterator[View]:
    """As `hardsight.explore` makes it in a notebook."""
    opened = View(start(run, port=0, in_notebook=True))
    yield opened
    opened.close()


def policy(answer: Any) -> str:
    return str(re.search(r"frame-ancestors ([^;]+)", answer.headers["content-security-policy"])[1])  # type: ignore[index]


def test_a_frame_is_for_the_notebook_alone(view: View) -> None:
    ask = Asked(view.started)
    assert policy(ask("/")) == "'none'" and ask("/").headers["x-frame-options"] == "DENY"  # until a notebook shows the token
    welcome = ask(f"/?token={ask.token}&frame={NOTEBOOK}", Cookie="", **IN_FRAME)
    assert welcome.status == 303 and welcome.headers["location"] == "./" and "SameSite=Strict" in welcome.headers["set-cookie"]
    page = ask("/", **IN_FRAME)
    assert page.status == 200 and policy(page) == NOTEBOOK and page.headers["x-frame-options"] is None
    others = {name: value for name, value in HEADERS.items() if name not in ("x-frame-options", "content-security-policy")}
    assert {name: page.headers[name] for name in others} == others
    assert page.headers["content-security-policy"].replace(NOTEBOOK, "'none'") == HEADERS["content-security-policy"]


def test_no_other_origin_gets_in_and_none_without_the_token(view: View) -> None:
    ask = Asked(view.started)
    for origin in (
        "https://evil.com", "http://localhost.evil.com", "*", "http://*", "'self'", "http://localhost:8888;script-src%20*",
        "null", "", "http://localhost:8888%20https://evil.com", "http://localhost:8888%0d%0aX-Evil:1",
    ):  # fmt: skip
        assert ask(f"/?token={ask.token}&frame={origin}", Cookie="", **IN_FRAME).status == 303
        page = ask("/")
        assert policy(page) == "'none'" and page.headers["x-frame-options"] == "DENY" and page.headers["x-evil"] is None, origin

    for path in (f"/?token=wrong&frame={NOTEBOOK}", f"/?frame={NOTEBOOK}", f"/api/run?token=wrong&frame={NOTEBOOK}"):
        ask(path, Cookie="", **IN_FRAME)
    assert policy(ask("/")) == "'none'"
    assert ask("/", Cookie="", **IN_FRAME).status == 403  # a frame without the cookie


def test_a_page_elsewhere_opens_the_frame_and_nothing_more(view: View) -> None:
    ask = Asked(view.started)
    for path in ("/api/run", "/api/column?name=avh", "/thumb/0", "/js/main.js"):
        assert ask(path, **IN_FRAME).status == 403
        assert ask(path, Sec_Fetch_Site="same-site").status == 403
    for other in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Dest": "document"}):
        assert ask("/", **(IN_FRAME | other)).status == 403
    assert ask.post("/api/selection", b"", **IN_FRAME).status == 403


def test_outside_a_notebook_no_frame_is_allowed(run: Path) -> None:
    view = View(start(run, port=0))
    ask = Asked(view.started)
    assert ask(f"/?token={ask.token}&frame={NOTEBOOK}", Cookie="", **IN_FRAME).status == 403
    assert ask(f"/?token={ask.token}&frame={NOTEBOOK}", Cookie="").status == 303
    assert policy(ask("/")) == "'none'"
    assert ask.post("/api/selection", bytes(5)).status == 404
    assert b'"notebook": false' in ask("/api/run").content  # type: ignore[attr-defined]
    view.close()


def test_the_selection_comes_back(view: View) -> None:
    ask, n = Asked(view.started), 40
    assert view.ids == [str(row) for row in range(n)] and len(view.selection) == n  # nothing is selected: all are
    chosen = np.zeros(n, bool)
    chosen[[3, 17, 39]] = True
    assert ask.post("/api/selection", np.packbits(chosen, bitorder="little").tobytes()).status == 200
    assert view.ids == ["3", "17", "39"]
    assert view.selection["id"].to_pylist() == view.ids
    whole = hardsight.score(view.page.display.path)
    assert view.selection["avh"].to_pylist() == pytest.approx(whole.take([3, 17, 39])["avh"].to_pylist(), rel=1e-6)
    assert "3 of 40 samples selected, 0 marked" in repr(view)
    assert ask.post("/api/selection", bytes(4)).status == 404 and view.ids == ["3", "17", "39"]  # of another length
    assert ask.post("/api/selection", b"").status == 200 and len(view.ids) == n
    assert ask.post("/api/selection", bytes(5)).status == 200 and view.ids == [] and len(view.selection) == 0


def test_marks_come_back(view: View) -> None:
    ask = Asked(view.started)
    assert len(view.marks) == 0
    assert ask.post("/api/mark", {"tab": "t", "row": 7, "mark": "wrong label", "suggestion": 2}).status == 200
    marked = view.marks.to_pylist()
    assert [(row["id"], row["mark"], row["suggestion"]) for row in marked] == [("7", "wrong label", 2)]
    assert "1 marked" in repr(view) and "1 wrong label" in repr(view.marks)
    ask.post("/api/undo", {"tab": "t"})


def test_elsewhere_the_address_is_printed_and_it_ends(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = hardsight.explore(run, port=0)
    assert capsys.readouterr().out == f"hardsight is at {view.address}\n"
    assert not view.page.in_notebook and not view.closed
    view.close()
    assert view.closed and repr(view) == "View of run, closed" and len(view.ids) == 40
    with pytest.raises(OSError):
        Asked(view.started)("/")


def test_the_frame_is_shown_once_a_cell(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    shell, shown = types.SimpleNamespace(kernel=object(), execution_count=1), list[str]()
    show = types.SimpleNamespace(HTML=lambda text: text, display=shown.append)
    fake = types.SimpleNamespace(get_ipython=lambda: shell, display=show)
    monkeypatch.setitem(sys.modules, "IPython", fake)  # type: ignore[arg-type]
    assert explore.in_notebook()
    view.show()
    view._ipython_display_()  # the value of the same cell
    assert len(shown) == 1
    shell.execution_count = 2
    view._ipython_display_()
    assert len(shown) == 2
    assert shown[0].count("<script>") == 1 and view.started.guard.token in shown[0] and 'target="_blank"' in shown[0]
    view.page.display.name = "<img src=x onerror=alert(1)>"
    assert "<img" not in view.frame() and "&lt;img" in view.frame()
    shell.kernel = None  # IPython in a terminal
    assert not explore.in_notebook()


CELLS = (
    "import hardsight\nhardsight.score('run')",
    "view = hardsight.explore('run', port=0)",
    "print(len(view.ids), 'of', len(view.page.display), 'selected')\nprint('first', view.ids[:1], view.selection.num_rows)",
    "print('marks', view.marks.select(['id', 'mark']).to_pylist())\nview.close()",
    "print('closed', view.closed)",
)


@pytest.mark.slow  # about 15 s: a server, a kernel and a page of 10 MB
def test_a_notebook_from_the_first_cell_to_the_last(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="this test needs JupyterLab: pip install jupyterlab")
    digits_run(tmp_path / "run", n=200)
    write_notebook(tmp_path / "first.ipynb", CELLS)
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    blocked: list[str] = []
    page.on("console", lambda message: "frame-ancestors" in message.text and blocked.append(message.text))
    with jupyter_lab(tmp_path) as address:
        open_notebook(page, address, "first.ipynb")
        table = run_cell(page, 0)
        expect(table.locator("table").first).to_contain_text("angular_gap")
        expect(table).to_contain_text("200 samples, 10 classes, accuracy")
        pictures = table.locator("img")
        expect(pictures).to_have_count(10)
        assert all(picture.evaluate("image => image.naturalWidth") == 8 for picture in pictures.all())

        run_cell(page, 1)
        frame = page.frame_locator("iframe[title='hardsight explore']")
        frame.locator("html[data-ready=yes]").wait_for(timeout=PATIENCE, state="attached")
        expect(frame.locator("#count")).to_have_text("200 samples")
        (inner,) = [frame for frame in page.frames if frame.url.startswith("http://localhost:") and "/lab" not in frame.url
                    and "/doc" not in frame.url]  # fmt: skip
        assert "token" not in inner.url
        drag(page, (0.3, 0.3), (0.7, 0.7), within=frame)
        expect(frame.locator("#count")).to_contain_text("of 200 samples")
        chosen = frame.locator("#count").inner_text().split()[0]

        expect(run_cell(page, 2)).to_contain_text(f"{chosen} of 200 selected")
        expect(run_cell(page, 3)).to_contain_text("marks []")
        expect(run_cell(page, 4)).to_contain_text("closed True")
    context.close()
    assert blocked == []

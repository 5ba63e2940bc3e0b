"""A person at a real JupyterLab in Chromium: the table shows itself, the explorer opens in a frame, its selection comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer_browser import expect
from explorer_runs import digits_run
from jupyter_lab import PATIENCE, jupyter_lab, open_notebook, run_cell, write_notebook

CELLS = (
    "import hardsight\nhardsight.score('run')",
    "view = hardsight.explore('run', port=0)",
    "print(len(view.ids), 'of', len(view.page.sheet), 'selected')\nprint('first', view.ids[:1], view.selection.num_rows)",
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
        drag_in(page, frame)
        expect(frame.locator("#count")).to_contain_text("of 200 samples")
        chosen = frame.locator("#count").inner_text().split()[0]

        expect(run_cell(page, 2)).to_contain_text(f"{chosen} of 200 selected")
        expect(run_cell(page, 3)).to_contain_text("marks []")
        expect(run_cell(page, 4)).to_contain_text("closed True")
    context.close()
    assert blocked == []


def drag_in(page: Any, frame: Any) -> None:
    """Over the middle of the scatter in the frame."""
    frame.locator("#cloud").scroll_into_view_if_needed()
    box = frame.locator("#cloud").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()

"""The page in a real browser: each feature driven as a person would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from explorer_browser import Watched, browser, counted, drag, needed, served, settled, view
from explorer_runs import digits_run


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    needed()
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("explorer") / "digits", human=True, dynamics=True, degraded=True)


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    needed()
    with served(run) as at:
        yield at


@pytest.fixture
def watched(chromium: Any) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light")
    found = Watched(context.new_page())
    yield found
    found.check()
    context.close()


def test_everything_follows_a_box(watched: Watched, address: str, run: Path) -> None:
    page = watched.open(address)
    table = pq.read_table(run / "scores.parquet").to_pandas()
    assert counted(page) == len(table) == 400
    assert page.locator("#grid .tile").count() == 60
    drag(page, (0.3, 0.2), (0.7, 0.8))
    settled(page, r"of 400 samples")
    box = json.loads(view(page)["f"][0])
    assert box[:3] == ["box", "own_angle", "norm"]
    inside = table[table.own_angle.between(box[3], box[4]) & table.norm.between(box[5], box[6])]
    assert 0 < len(inside) < 400
    assert counted(page) == len(inside)
    shown = {row.split("\t")[0]: row.split("\t")[1] for row in page.locator("#view-classes tbody tr").all_inner_texts()}
    assert sum(int(count) for count in shown.values()) == len(inside)
    assert page.locator("#page-name").inner_text().endswith(f"of {len(inside)}")
    hardest = inside.sort_values("avh", ascending=False).iloc[0]
    settled(page, "", f"#grid .tile:first-child[aria-label^='{hardest.id}, ']")
    page.keyboard.press("Escape")
    settled(page, "^400 samples$")

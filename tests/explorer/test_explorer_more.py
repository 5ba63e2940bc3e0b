"""The page in a real browser, continued: hostile names, exports, two runs, rounds, the report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from benchmarks.explore import make_table
from explorer_browser import (
    Watched,
    counted,
    downloads,
    drag,
    drawn_filter,
    eventually,
    expect,
    first_tile,
    ready,
    served,
    settled,
)
from explorer_runs import digits_run, two_heads
from hardsight.explorer.report import report
from hardsight.explorer.selection import agreement
from hardsight.table import write_table

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\u202edrowsrever",
    "\u2066isolated",
    "a\x00b\x1b[31mred",
    "x" * 100_000,
    "${alert(1)}`'\"",
    "javascript:alert(1)",
    "=cmd()",
    "line\nbreak\u2028",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    groups = [HOSTILE[k % 10] for k in range(40)]
    folder = tmp_path_factory.mktemp("hostile") / "<b>run\u202e"
    return digits_run(folder, n=40, names=HOSTILE, columns={"group": pa.array(groups)})


def harmless_everywhere(page: Any) -> None:
    """No markup came alive, and no character that turns or hides text is on the page."""
    for tab in page.get_by_role("tab").all():
        tab.click()
        ready(page)
        expect(page.locator(f"#{tab.get_attribute('aria-controls')}")).not_to_be_empty()
    assert page.locator("img[src=x]").count() == 0
    text = page.locator("body").inner_text()
    words = text + page.content().replace("\n", "").partition('id="data"')[0]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\u2028]", words)
    assert "\\u{202e}drowsrever" in words and "<img src=x onerror" in text
    assert max(len(line) for line in text.split("\n")) < 1000


def test_hostile_names_are_only_text(watched: Watched, hostile: Path) -> None:
    with served(hostile) as address:
        page = watched.open(address, "color=label")
        page.locator("#legend .entry").first.wait_for()
        page.locator("#view-classes tbody tr").first.wait_for()
        page.locator("#grid .tile").first.click()
        page.locator("#detail .bars").wait_for()
        page.keyboard.press("w")
        page.locator("#chooser[open]").wait_for()
        page.keyboard.press("Escape")
        expect(page.locator("#chooser")).to_be_hidden()
        page.keyboard.press("Escape")
        expect(page.locator("#detail")).to_be_hidden()
        harmless_everywhere(page)
        page.get_by_role("tab", name="Classes").click()
        page.locator("#view-classes .pick", has_text="<img").click()
        settled(page, "of 40 ")
        page.reload()
        ready(page)
        settled(page, "of 40 ")
        watched.leave()


def test_hostile_names_in_the_report_and_on_the_terminal(
    watched: Watched, hostile: Path, tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])  # they hold no names
    done = cli("report", hostile, "-o", tmp_path / "report.html")
    assert done.code == 0 and "\u202e" not in done.out
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert source.count("<script") == 2 and "onerror=alert" not in source.replace("\\u003cimg src=x onerror=alert(1)>", "")
    page = watched.open((tmp_path / "report.html").as_uri(), "color=label")
    harmless_everywhere(page)


def test_exports_of_a_selection(watched: Watched, tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=150, columns={"path": pa.array([f"img/{k}.png" for k in range(150)])})
    with served(run) as address:
        page = watched.open(address, 'f=["in","label",["digit 3"]]')
        expected = pq.read_table(run / "scores.parquet").to_pandas().query("label == 3")
        assert counted(page) == len(expected)
        table = pq.read_table(downloads(page, tmp_path, "selection", "parquet")).to_pandas()
        assert table.id.tolist() == expected.id.tolist() and set(table.label_name) == {"digit 3"}
        np.testing.assert_allclose(table.avh, expected.avh, rtol=1e-6)
        listed = downloads(page, tmp_path, "selection", "txt").read_text().splitlines()
        assert listed == [f"img/{id}.png" for id in expected.id]
        watched.leave()


def test_two_runs_side_by_side(watched: Watched, tmp_path: Path) -> None:
    heads = zip(("before", "after"), two_heads(), strict=True)
    one, two = (digits_run(tmp_path / name, n=200, head=head) for name, head in heads)
    first, second = (pq.read_table(run / "scores.parquet").to_pandas() for run in (one, two))
    assert (second.avh < first.avh).mean() > 0.6  # and yet it did not get easier
    change = (second.avh.rank() - first.avh.rank()).to_numpy() / 200
    turn = (second.label != second.predicted).to_numpy() * 1 - (first.label != first.predicted).to_numpy()
    same, lower = turn == 0, (second.confidence < first.confidence).to_numpy()
    with served(one, two) as address:
        page = watched.open(address)
        panel = page.locator("#view-compare")
        for name, row in (("Wrong now", (2 * turn + change).argmax()), ("Right now", (2 * turn + change).argmin())):
            tile = page.get_by_role("group", name=name).locator(".tile").first
            expect(tile).to_have_attribute("aria-label", re.compile(f"^sample {row},"))
        expect(panel).to_contain_text(
            f"same outcome, ranked easier{(change[same] < 0).sum()} ({100 * (change[same] < 0).mean():.1f} %)"
        )
        expect(panel).to_contain_text("Values of AVH are not compared: one head is linear, the other cosine.")
        for words in ("got easier", "mean AVH"):
            expect(panel).not_to_contain_text(words, ignore_case=True)
        worst = second.loc[(2 * turn + change).argmax()]
        page.get_by_role("group", name="Wrong now").locator(".tile").first.click()
        expect(page.locator("#detail .labels")).to_contain_text(f"in afterdigit {worst.predicted:.0f}")
        page.keyboard.press("Escape")
        panel.get_by_role("combobox", name="Score to compare").select_option("confidence")  # which is on one scale
        expect(panel).to_contain_text(f"mean confidence{first.confidence.mean():.4g} → {second.confidence.mean():.4g}")
        expect(panel).to_contain_text(f"got harder{((turn > 0) | (same & lower)).sum()} (")
        panel.get_by_role("button", name="right, then wrong").click()
        settled(page, f"^{(turn > 0).sum()} of 200")
        page.get_by_role("button", name="Plot one against the other").click()
        expect(page.locator("#axis-y")).to_have_value("confidence (2)")
        watched.leave()


def test_the_report_opens_from_disk_and_is_the_same_page(watched: Watched, tmp_path: Path) -> None:
    run = digits_run(tmp_path / "run", n=300, human=True, dynamics=True)
    file = report(run)
    moved = tmp_path / "elsewhere.html"
    file.rename(moved)
    page = watched.open(moved.as_uri())
    table = pq.read_table(run / "scores.parquet").to_pandas()
    text = page.locator("#about").inner_text()
    assert f"{100 * (table.label == table.predicted).mean():.2f} %" in text and "hardsight report run" in text
    eventually(page, lambda: page.locator("#about figure img").first.evaluate("(image) => image.naturalWidth") > 500, True)
    first_tile(page, table.sort_values("avh", ascending=False, kind="stable").id.iloc[0])
    page.locator("#grid img").first.scroll_into_view_if_needed()
    expect(page.locator("#grid img").first).to_have_js_property("naturalWidth", 8)
    drag(page, (0.3, 0.2), (0.7, 0.8))
    settled(page, "of 300 samples")
    box = drawn_filter(page)
    inside = np.degrees(table.own_angle).between(box[3], box[4]) & table.norm.between(box[5], box[6])
    assert abs(counted(page) - inside.sum()) <= 2  # numbers are kept in 16 bits here
    for tab, place in (("Class angles", "#view-angles .matrix"), ("Agreement", "#view-agreement .headline")):
        page.get_by_role("tab", name=tab).click()
        page.locator(place).wait_for()
    human = pq.read_table(run / "samples" / "part-00000.parquet", columns=["human"]).to_pandas().human
    settled(page, f"n = {counted(page)}$", "#view-agreement .headline")  # of the selection
    said = page.locator("#view-agreement .headline").inner_text().replace("[", " ").replace(",", " ").replace("]", " ").split()
    expected = agreement(human[inside].to_numpy(), table.avh[inside].to_numpy())
    assert [float(word) for word in said[2:5]] == pytest.approx([expected[key] for key in ("spearman", "low", "high")], abs=0.01)
    page.locator("#view-agreement").get_by_role("combobox", name="Groups").select_option("correct")
    ready(page)
    row = page.locator("#view-agreement tbody tr", has_text="right").inner_text().split("\t")
    mine = inside & (table.label == table.predicted)
    assert abs(int(row[1]) - mine.sum()) <= 2
    assert float(row[2]) == pytest.approx(spearmanr(human[mine], table.avh[mine]).statistic, abs=0.02)
    page.get_by_role("tab", name="Dynamics").click()
    page.locator("#view-dynamics .key .entry").nth(1).wait_for()
    page.locator("#view-dynamics").get_by_role("combobox", name="Measure").select_option("norm")
    ready(page)
    page.locator("#view-dynamics canvas").hover(position={"x": 60, "y": 60})
    first = pq.read_table(run / "dynamics" / "epoch=0001.parquet").to_pandas().norm
    settled(page, "epoch 1: right ", "#view-dynamics .said")
    shown = float(page.locator("#view-dynamics .said").inner_text().split("right ")[1].split()[0])
    assert shown == pytest.approx(first[mine].mean(), rel=0.01)
    page.keyboard.press("Escape")
    settled(page, "^300 samples$")
    page.locator("#grid .tile").first.click()
    page.locator("#detail .bars li").first.wait_for()
    page.get_by_role("img", name="This sample over the epochs").wait_for()


def test_a_report_of_50_000_samples_is_under_5_mb(watched: Watched, tmp_path: Path) -> None:
    write_table(make_table(50_000), tmp_path / "scores.parquet")
    file = report(tmp_path / "scores.parquet")
    assert file.stat().st_size < 5_000_000
    page = watched.open(file.as_uri())
    assert counted(page) == 50_000


def test_a_report_of_more_says_that_it_is_a_sample(tmp_path: Path) -> None:
    write_table(make_table(90_000), tmp_path / "scores.parquet")
    source = report(tmp_path / "scores.parquet").read_text(encoding="utf-8")
    assert len(source) < 5_500_000 and "an even subsample of 60,000 samples" in source and '["samples","90,000"]' in source

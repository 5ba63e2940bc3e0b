"""A subset, the groups of an audit and a drift are filters of the explorer: columns joined by id, and a table to click.

The map, degrees and the phone are here too: one browser for them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explorer_browser import Watched, counted, cut_off, drag, drawn_filter, eventually, expect, ready, served, settled, view
from explorer_runs import digits_run, half_done
from hardsight.errors import FileError, InputError
from hardsight.explorer import embedding_process
from hardsight.explorer.columns import words
from hardsight.explorer.quick_filters import add_quick_filters
from hardsight.explorer.settings import ReportSettings
from hardsight.explorer.sheet import Sheet, open_sheet
from hardsight.groups.group_files import audit_to_file, drift_to_file
from hardsight.table import write_table

N = 120


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an audit of its own; a drift from a noisy run, and a subset of the first 30, lie elsewhere."""
    folder = tmp_path_factory.mktemp("filters")
    pens = [1 if row % 3 else 2 for row in range(N)]  # numbers, which are an axis unless an audit says they are groups
    run = digits_run(folder / "run", n=N, columns={"pen": pens})
    before = digits_run(folder / "before", n=N, noise=3.0)
    audit_to_file(run, group="pen")
    drift_to_file(before, run, folder / "drift.parquet")
    reasons = ["hardest of its class" if row % 2 else "spread" for row in range(30)]
    write_table(pa.table({"id": [str(row) for row in range(30)], "reason": reasons}), folder / "subset.parquet")
    return run


def opened(run: Path, **options: Any) -> Sheet:
    sheet = open_sheet(run)
    add_quick_filters(sheet, ReportSettings(**options))
    return sheet


def test_each_is_a_column_joined_by_id(run: Path, tmp_path: Path) -> None:
    sheet = opened(run, subset=run.parent / "subset.parquet", drift=run.parent / "drift.parquet")
    assert [quick.column for quick in sheet.quick_filters] == ["subset", "subset_reason", "pen", "drift", "drift_outcome"]
    assert words(sheet.columns["subset"]).to_pylist() == ["in the subset"] * 30 + ["not in it"] * 90
    assert words(sheet.columns["subset_reason"]).to_pylist()[:3] == ["spread", "hardest of its class", "spread"]
    ranked = pa.table({"id": [str(row) for row in range(30)], "reason": [f"hardest, rank {row}" for row in range(30)]})
    write_table(ranked, tmp_path / "ranked.parquet")
    columns = [quick.column for quick in opened(run, subset=tmp_path / "ranked.parquet").quick_filters]
    assert columns == ["subset", "pen"]  # thirty reasons of a sample each are no groups
    assert words(sheet.columns["pen"]).to_pylist()[:4] == ["2", "1", "1", "2"]
    assert set(sheet.quick_filters[2].notes) == {"1", "2"}  # with the verdict of each
    drift = set(words(sheet.columns["drift"]).to_pylist())
    assert drift <= {"harder", "easier", "no change"} and "easier" in drift
    assert sheet.columns["drift_change"].hard == "high" and sheet.columns["pen"].names == ["1", "2"]


def test_files_that_do_not_fit_are_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    write_table(pa.table({"id": ["x"], "reason": ["y"]}), tmp_path / "subset.parquet")
    with pytest.raises(InputError, match="none of its ids is among the samples \\(it has 'x', run has '0'\\)"):
        opened(run, subset=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="not what hardsight drift writes: there is no column harder"):
        opened(run, drift=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="not what hardsight audit writes"):
        opened(run, audit=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="does not exist"):
        opened(run, subset=tmp_path / "nothing.parquet")


def test_a_click_filters(watched: Watched, run: Path) -> None:
    with served(run, subset=run.parent / "subset.parquet", drift=run.parent / "drift.parquet", hardness=True) as address:
        page = watched.open(address, "tab=quick")
        rows = page.locator("#view-quick tbody tr")
        expect(rows.first).to_contain_text("in the subset")
        page.get_by_role("button", name="Select subset: in the subset").click()
        settled(page, "^30 of 120 samples$")
        page.get_by_role("button", name="Select pen: 2").click()
        settled(page, "^10 of 120 samples$")
        expect(page.locator("#filters .chip")).to_have_count(2)
        expect(rows.filter(has_text="in the subset").locator("td").nth(1)).to_have_text("10")
        page.get_by_role("button", name="Remove the filter subset").click()
        settled(page, "^40 of 120 samples$")
        page.locator("#clear").click()
        settled(page, "^120 samples$")
        page.set_viewport_size({"width": 400, "height": 860})
        for tab in ("quick", "classes", "confusions"):
            page.locator(f"#tab-{tab}").click()
            eventually(page, partial(cut_off, page, f"#view-{tab}"), 0)
        page.set_viewport_size({"width": 1280, "height": 860})
        page.locator("#tab-filter").click()
        page.locator("#filter-column").select_option("drift")
        page.get_by_role("checkbox", name="easier").check()
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#filters .chip")).to_contain_text("drift: easier")
        assert 0 < counted(page) < 120
        expect(page.locator("#run-name")).to_contain_text("high is hard in every score")
        page.locator("#tab-run").click()
        again = page.locator("#view-run .again")
        expect(again).to_contain_text("How to do it again")
        expect(again.locator("pre")).to_have_text(
            re.compile(r"^hardsight extract\nhardsight explore .*--as hardness\nhardsight report ")
        )
        watched.leave()


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    with served(run) as opened:
        yield opened


def test_a_map_is_a_pair_of_axes_and_the_page_works_while_a_slow_one_is_made(
    watched: Watched, address: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = watched.open(address, "color=label")
    page.locator("#map").select_option("pca")
    expect(page.locator("#axis-y")).to_have_value("pca_2")
    drag(page, (0.3, 0.2), (0.7, 0.6))
    settled(page, "of 120 samples")
    ready(page)
    box, table = drawn_filter(page), pq.read_table(run / "map-pca.parquet").to_pandas()
    assert box[:3] == ["box", "pca_1", "pca_2"]
    assert counted(page) == (table.x.between(*box[3:5]) & table.y.between(*box[5:7])).sum() > 0
    page.reload()  # the address brings the map back
    ready(page)
    expect(page.locator("#map")).to_have_value("pca")
    settled(page, "of 120 samples")
    page.keyboard.press("Escape")
    settled(page, "^120 samples")
    page.locator("#cloud").focus()
    for _ in range(4):
        page.keyboard.press("+")
    eventually(page, lambda: int(page.locator("#over").get_attribute("data-pictures") or 0) > 5, True)
    page.keyboard.press("0")
    eventually(page, lambda: page.locator("#over").get_attribute("data-pictures"), "0")
    page.locator("#map").select_option("")
    expect(page.locator("#axis-x")).to_have_value("own_angle")
    finish = Event()
    monkeypatch.setattr(embedding_process, "placed", half_done(finish))
    page.locator("#map").select_option("tsne")
    expect(page.locator("#map-progress")).to_contain_text("t-SNE map 50 %")
    page.locator("#sort").select_option("norm")
    ready(page)
    assert view(page)["sort"] == ["norm"]
    finish.set()
    expect(page.locator("#axis-x")).to_have_value("tsne_1")
    expect(page.locator("#map-progress")).to_be_hidden()


def test_degrees_empty_views_and_three_ticks_on_a_phone(watched: Watched, address: str, run: Path) -> None:
    page = watched.open(address, "sort=own_angle&tab=filter")
    angle = np.degrees(pq.read_table(run / "scores.parquet").column("own_angle").to_numpy())
    expect(page.locator("#grid .tile .value").first).to_have_text(f"{angle.max():.3g}°")
    page.get_by_role("spinbutton", name="lowest").fill("60")
    page.get_by_role("button", name="Apply").click()
    settled(page, f"^{(angle >= 60).sum()} of 120")
    expect(page.locator(".chip")).to_have_text("angle to given class from 60°×")
    page.locator("#grid .tile").first.click()
    expect(page.locator("#detail")).to_contain_text(f"angle to given class{angle.max():.4g}°")
    ends = page.locator("#detail .bars .ends .track").inner_text()
    shown = [float(text.rstrip("°")) for text in page.locator("#detail .bars .value").all_inner_texts()]
    low, high = (int(end) for end in re.findall(r"\d+", ends))
    assert 0 < low < min(shown) and max(shown) <= high < max(shown) + 1.1
    page.keyboard.press("Escape")
    page.get_by_role("spinbutton", name="lowest").fill("181")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#grid")).to_have_text("No sample matches all filters.")
    page.locator("#nothing").get_by_role("button", name="Clear all filters").click()
    settled(page, "^120 samples")
    expect(page.locator("#nothing")).to_be_hidden()
    expect(page.locator("#no-pictures")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    eventually(page, lambda: page.evaluate("() => hardsight.scatter.frame.w < 390"), True)
    counts = page.evaluate("""() => { const { scatter, columns } = hardsight; return Object.fromEntries(columns.shown().map(
        ({ name }) => [name, scatter.marks(name, ...columns.extent(name), scatter.frame.w / 90).length])); }""")
    names = {name: n for name, n in counts.items() if name not in ("correct", "split", "pen")}  # of two values
    assert len(names) > 8 and all(3 <= n <= 8 for n in names.values()), names
    few = """async () => { const { ticks } = await import("/js/axes.js"); const few = [];
        for (let k = 0; k < 3000; k++) { const low = (k % 37) - 18.3, high = low + 1.013 ** (k / 2) * 1e-4;
            const n = ticks(low, high, 2 + (k % 5)).length; if (n < 3 || n > 14) few.push([low, high, n]); }
        return few; }"""
    assert page.evaluate(few) == []
    assert page.evaluate("async () => (await import('/js/axes.js')).ticks(1, 2, 5, true)") == [1, 2]
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390

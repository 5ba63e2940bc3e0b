"""A subset, the groups of an audit and a drift are filters of the explorer: columns joined by id, and a table to click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from explorer_browser import Watched, counted, expect, served, settled
from explorer_runs import digits_run
from hardsight.act.groups import audit_to_file, drift_to_file
from hardsight.errors import FileError, InputError
from hardsight.explorer.columns import words
from hardsight.explorer.opening import Sheet, open_sheet
from hardsight.explorer.quick_filters import add_quick_filters
from hardsight.explorer.settings import ReportSettings
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


def test_each_is_a_column_joined_by_id(run: Path) -> None:
    sheet = opened(run, subset=run.parent / "subset.parquet", drift=run.parent / "drift.parquet")
    assert [quick.column for quick in sheet.quick_filters] == ["subset", "subset_reason", "pen", "drift", "drift_outcome"]
    assert words(sheet.columns["subset"]).to_pylist() == ["in the subset"] * 30 + ["not in it"] * 90
    assert words(sheet.columns["subset_reason"]).to_pylist()[:3] == ["spread", "hardest of its class", "spread"]
    assert words(sheet.columns["pen"]).to_pylist()[:4] == ["2", "1", "1", "2"]
    assert set(sheet.quick_filters[2].notes) == {"1", "2"}  # with the verdict of each
    drift = set(words(sheet.columns["drift"]).to_pylist())
    assert drift <= {"harder", "easier", "no change"} and "easier" in drift
    assert sheet.columns["drift_change"].hard == "high" and sheet.columns["pen"].names == ["1", "2"]


def test_files_that_do_not_fit_are_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    write_table(pa.table({"id": ["x"], "reason": ["y"]}), tmp_path / "subset.parquet")
    with pytest.raises(InputError, match="no id of it is among the samples \\(it has 'x', run has '0'\\)"):
        opened(run, subset=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="not what hardsight drift writes: there is no column harder"):
        opened(run, drift=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="not what hardsight audit writes"):
        opened(run, audit=tmp_path / "subset.parquet")
    with pytest.raises(FileError, match="does not exist"):
        opened(run, subset=tmp_path / "nothing.parquet")


def test_a_click_filters(watched: Watched, run: Path) -> None:
    with served(run, subset=run.parent / "subset.parquet", drift=run.parent / "drift.parquet") as address:
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
        page.locator("#tab-filter").click()
        page.locator("#filter-column").select_option("drift")
        page.get_by_role("checkbox", name="easier").check()
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#filters .chip")).to_contain_text("drift: easier")
        assert 0 < counted(page) < 120
        watched.leave()

"""`explore` and `report` with `--as hardness`: high is hard in every score, on the page, over the epochs and in exports."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explorer_runs import digits_run
from hardsight.explorer.downloads import as_file, selection_table
from hardsight.explorer.report import report
from hardsight.explorer.review import Review
from hardsight.explorer.routes import Page
from hardsight.explorer.serve import start
from hardsight.explorer.settings import ExploreSettings
from hardsight.explorer.sheet import Sheet, open_sheet, turn_scores
from hardsight.scores import SCORES
from hardsight.table import hardest, is_hardness, read_scores

LOW = [name for name in ("confidence", "norm", "nearest_angle", "logit_margin") if SCORES[name].hard == "low"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("turned") / "run", n=60, dynamics=True)


def turned(path: Path) -> Sheet:
    sheet = open_sheet(path)
    turn_scores(sheet)
    return sheet


def opened(*runs: Path, **options: Any) -> Page:
    started = start(*runs, settings=ExploreSettings(port=0, **options))
    started.socket.close()
    return started.page


def test_scores_whose_low_end_is_hard_change_their_sign(run: Path) -> None:
    before, sheet = open_sheet(run), turned(run)
    assert len(LOW) == 4
    for name, column in sheet.columns.items():
        sign = -1 if name in SCORES and SCORES[name].hard == "low" else 1
        np.testing.assert_array_equal(column.values, sign * before.columns[name].values, err_msg=name)
        assert column.hard == "high" or name not in SCORES
        assert ("other sign" in column.unit) is (sign == -1)
    assert sheet.notes[-1].startswith("As hardness: high is hard in every score.") and "confidence" in sheet.notes[-1]
    assert not is_hardness(pq.read_schema(run / "scores.parquet"))  # what is kept stays as measured


def test_angles_on_the_screen_and_curves_over_the_epochs(run: Path) -> None:
    before, after = opened(run), opened(run, hardness=True)
    column = after.columns["nearest_angle"]
    assert column.unit == "degrees, other sign" and -180 <= column.values.min() <= column.values.max() <= 0
    assert before.sheet.epochs is not None and after.sheet.epochs is not None
    for measure, sign in (("confidence", -1), ("norm", -1), ("nearest_angle", -1), ("avh", 1), ("correct", 1)):
        values = [page.sheet.epochs.values(2, measure) for page in (before, after) if page.sheet.epochs is not None]
        np.testing.assert_array_equal(values[1], sign * values[0])


def test_an_exported_selection_says_that_it_was_turned(run: Path, tmp_path: Path) -> None:
    sheet, rows = turned(run), np.arange(10, 30)
    table = selection_table(sheet, rows, Review(None, sheet.class_names))
    measured = selection_table(open_sheet(run), rows, Review(None, sheet.class_names))
    assert is_hardness(table.schema) and max(table.column("confidence").to_pylist()) <= 0
    assert hardest(table, "confidence", 5).column("id").equals(hardest(measured, "confidence", 5).column("id"))
    for form in ("csv", "parquet"):
        (tmp_path / f"some.{form}").write_bytes(as_file(table, form, []))
        read = read_scores(tmp_path / f"some.{form}")  # turned back
        assert read.column_names == measured.column_names
        np.testing.assert_allclose(read.column("confidence").to_numpy(), measured.column("confidence").to_numpy(), rtol=1e-6)
    assert b"hard_end" not in as_file(measured, "csv", [])
    assert pq.read_table(io.BytesIO(as_file(table, "parquet", []))).column("norm").equals(pa.chunked_array(table.column("norm")))


def test_two_runs_as_hardness(run: Path, tmp_path: Path) -> None:
    other = digits_run(tmp_path / "other", n=60, noise=2.0)
    before, after = opened(run, other), opened(run, other, hardness=True)
    for name in ("confidence (2)", "confidence change", "nearest_angle (2)"):
        np.testing.assert_array_equal(after.columns[name].values, -before.columns[name].values)
        assert after.columns[name].hard == "high" and after.columns[name].unit.endswith("other sign")
    np.testing.assert_array_equal(after.columns["avh change"].values, before.columns["avh change"].values)


def test_how_to_do_it_again_repeats_the_options(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])
    monkeypatch.chdir(run.parent)
    page = opened(Path("run"), hardness=True, images="digits", read_only=True)
    assert page.about()["again"] == [
        "hardsight extract",
        "hardsight explore run --port 0 --read-only --images digits --as hardness",
        "hardsight report run --images digits --as hardness    # the same page as one file",
    ]
    two = opened(Path("run"), Path("run"))
    assert two.about()["again"][1:] == ["hardsight explore run run --port 0"]
    text = report("run", tmp_path / "out.html", hardness=True).read_text(encoding="utf-8")
    assert "hardsight report run --as hardness -o out.html" in text and "high is hard in every score" in text
    mean = -open_sheet(run).columns["confidence"].values.astype(float).mean()
    assert f'["mean confidence, other sign","{mean:.4g}"]' in text

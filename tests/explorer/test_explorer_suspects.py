"""A run that `hardsight clean` has looked at opens with its suspects, ready for review."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from explorer_runs import digits_run, write_suspects
from hardsight import clean, explore, score
from hardsight.errors import FileError, InputError
from hardsight.explorer.columns import words
from hardsight.explorer.downloads import selection_table
from hardsight.explorer.report import report
from hardsight.explorer.review import Review, review_file
from hardsight.explorer.serve import _open_page
from hardsight.explorer.settings import ExploreSettings
from hardsight.explorer.sheet import Sheet, default_axes, open_sheet
from hardsight.explorer.suspects import add_suspects
from hardsight.snapshot import Snapshot
from hardsight.table import write_table

EXPECTED = "About 7 labels are expected to be wrong (95 % interval 4 to 11)."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = digits_run(tmp_path_factory.mktemp("suspects") / "run", n=120)
    write_suspects(run)
    return run


@pytest.fixture(scope="module")
def written(run: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardsight.explorer.report._figures", lambda page: [])  # drawn by other tests
        return report(run)


def opened(path: Path) -> Sheet:
    sheet = open_sheet(path)
    add_suspects(sheet)
    return sheet


def data_of(page: Path) -> dict[str, Any]:
    return dict(json.loads(page.read_text("utf-8").split('id="data">', 1)[1].split("</script>", 1)[0]))


def test_suspects_are_columns_joined_by_id(run: Path, tmp_path: Path) -> None:
    table = pq.read_table(run / "suspects.parquet")
    sheet = opened(run)
    assert sheet.suspects is not None and sheet.suspects.counts == {"likely mislabeled": 6, "ambiguous": 3}
    assert (sheet.by, default_axes(sheet)[2], sheet.notes) == ("error_score", "verdict", [])
    assert words(sheet.columns["verdict"]).to_pylist() == table.column("verdict").to_pylist()
    assert sheet.columns["error_score"].values.tolist() == pytest.approx(table.column("error_score").to_pylist())
    for row in selection_table(sheet, sheet.labels().argsort()[:5], Review(None, sheet.class_names)).to_pylist():
        assert row["suggested_label_name"] == f"digit {row['suggested_label']}"
    Snapshot.load(run).save(tmp_path / "photo.npz")
    write_table(table.take(pa.array(range(119, -1, -1))), tmp_path / "photo.suspects.parquet")  # in another order
    beside = opened(tmp_path / "photo.npz")
    assert beside.columns["error_score"].values.tolist() == sheet.columns["error_score"].values.tolist()
    assert beside.suspects is not None and beside.suspects.explanations.equals(sheet.suspects.explanations)


def test_a_run_without_suspects_is_as_before(run: Path, tmp_path: Path) -> None:
    plain = digits_run(tmp_path / "plain", n=30)
    sheet = opened(plain)
    assert sheet.suspects is None and (sheet.by, default_axes(sheet)[2]) == ("avh", "correct")
    page, _ = _open_page(plain, None, ExploreSettings(), None)
    assert page.about()["suspects"] is None and page.about()["by"] == "avh"
    both, _ = _open_page(run, plain, ExploreSettings(), None)
    assert both.about()["suspects"] is None and both.about()["by"] == "avh"  # two runs are compared by their scores


def test_suspects_that_do_not_fit_are_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    plain = digits_run(tmp_path / "plain", n=30)
    table = pq.read_table(run / "suspects.parquet")
    write_table(table.set_column(0, "id", pa.array([f"x{row}" for row in range(120)])), plain / "suspects.parquet")
    with pytest.raises(InputError, match="none of its ids is among the samples; run hardsight clean again"):
        opened(plain)
    write_table(table.drop_columns(["verdict"]), plain / "suspects.parquet")
    with pytest.raises(FileError, match="not written by hardsight clean: it has no column verdict"):
        opened(plain)
    write_table(pa.concat_tables([table, table.slice(3, 1)]), plain / "suspects.parquet")
    with pytest.raises(FileError, match="ids must be unique, but '.*' appears 2 times"):
        opened(plain)
    write_table(table.set_column(5, "verdict", pa.array(["wrong"] * 120)), plain / "suspects.parquet")
    with pytest.raises(FileError, match="unknown verdict 'wrong'; verdicts are likely mislabeled, "):
        opened(plain)
    other = table.slice(0, 20).set_column(1, "given_label", pa.array([9] * 20))
    write_table(other, plain / "suspects.parquet")
    notes = opened(plain).notes
    assert "10 of 30 samples were not looked at by hardsight clean." in notes[0] and "run hardsight clean again" in notes[1]


def test_the_report_begins_with_the_suspects(run: Path, written: Path) -> None:
    data = data_of(written)
    table = pq.read_table(run / "suspects.parquet").to_pandas()
    worst = table.sort_values("error_score", ascending=False, kind="stable").index[:9].tolist()
    first = data["about"]["report"]["suspects"]
    assert (first["expected"], first["sentence"]) == (EXPECTED, "Of 120 samples: 6 likely mislabeled, 3 ambiguous.")
    assert first["rows"] == worst and first["duplicates"]["rows"] == []
    assert data["explanations"][str(worst[0])] == "why likely mislabeled <b>" and len(data["explanations"]) == 9
    assert all(str(row) in data["thumbs"] for row in worst)


def test_tables_in_memory_are_shown_with_their_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clean and score give needs no file of its own; images are found by a column of paths, or by ids that are paths."""
    monkeypatch.chdir(tmp_path)
    y, paths = np.arange(40) % 2, [f"pics/{row}.png" for row in range(40)]
    (tmp_path / "pics").mkdir()
    for row, path in enumerate(paths):
        Image.new("RGB", (8, 8), (row, 0, 0)).save(path)
    frame = pd.DataFrame({"a": y + 0.0, "b": 1.0 - y, "c": np.arange(40) % 7, "y": np.where(y == 0, "cat", "dog")})
    frame.loc[0, "y"] = "dog"
    for table in (clean(frame.assign(path=paths), "y"), clean(frame.set_index(pd.Index(paths)), "y")):
        assert table._repr_html_().count("<img") == 10
        with closing(explore(table)) as view:
            sheet, pictures = view.page.sheet, view.page.pictures
            assert sheet.class_names == ["cat", "dog"] and words(sheet.columns["label"]).to_pylist()[:2] == ["dog", "dog"]
            assert sheet.suspects is not None and sheet.by == "error_score"
            assert [pictures.image(row).getpixel((0, 0)) for row in (0, 39)] == [(0, 0, 0), (39, 0, 0)]
    assert report(table) == Path("report.html") and len(data_of(tmp_path / "report.html")["thumbs"]) == 40
    with closing(explore(score(frame, labels="y").filter(pa.array(y == 1)))) as view:
        assert len(view.page.sheet) == 20 and "avh" in view.page.sheet.columns and not view.page.pictures.any
    with closing(explore(clean(frame, "y").to_pandas())) as view:  # names are numbered again
        assert view.page.sheet.class_names == ["cat", "dog"]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with duplicates under any verdict and under none, warnings, and a count that cannot be told."""
    run = digits_run(tmp_path_factory.mktemp("copied") / "run", n=60)
    table = write_suspects(run)
    ids = table.column("id").to_pylist()
    twins = [ids[row - 1] if row % 4 == 3 else None for row in range(60)]
    notes = {
        "expected_errors": 20.0, "expected_errors_low": 3.0, "expected_errors_high": 41.0, "certainty": "cannot tell",
        "rests_on": "The heads agree with 48 % of the labels.", "warnings": ["the model is weak <b>", 7],
    }  # fmt: skip
    table = table.append_column("duplicate_of", pa.array(twins, pa.string()))
    write_table(table.replace_schema_metadata({"hardsight": json.dumps(notes)}), run / "suspects.parquet")
    return run


def test_duplicates_are_counted_whatever_their_verdict(copied: Path) -> None:
    sheet = opened(copied)
    assert sheet.suspects is not None
    assert sheet.suspects.described()["groups"][-1] == ["duplicates", 15, "is_duplicate", "true"]
    rows = selection_table(sheet, sheet.labels().argsort(), Review(None, sheet.class_names)).to_pylist()
    assert {row["id"]: row["duplicate_of"] for row in rows if row["is_duplicate"]} == {
        str(row): str(row - 1) for row in range(3, 60, 4)
    }


def test_the_report_has_warnings_the_count_duplicates_and_marks(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])
    review = Review(review_file(copied), [f"digit {k}" for k in range(10)])
    review.put("tab", "5", "wrong label", 3)
    review.put("tab", "6", "fine")
    data = data_of(report(copied))
    assert data["about"]["suspects"]["warnings"] == ["the model is weak <b>"]
    first = data["about"]["report"]["suspects"]
    assert first["expected"] == (
        "Cannot tell how many labels are wrong: between 3 and 41. The heads agree with 48 % of the labels."
    )
    assert first["sentence"].endswith("15 duplicates. 2 are reviewed: 1 fine, 1 wrong label.")
    assert first["duplicates"]["rows"] == list(range(3, 48, 4)) and first["duplicates"]["of"][0] == "2"
    assert data["twins"]["3"] == {"id": "2", "row": 2}
    assert data["marks"] == [{"row": 5, "mark": "wrong label", "suggestion": 3}, {"row": 6, "mark": "fine", "suggestion": None}]
    assert str(copied) not in json.dumps(data["about"])  # a report may be sent

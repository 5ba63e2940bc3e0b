"""A subset, the groups of an audit, a drift and suspects are filters of the explorer: columns joined by id, a table to click.

The map, degrees and the phone are here too: one browser for them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.stats import rankdata

from explorer_browser import Watched, counted, cut_off, drag, drawn_filter, eventually, expect, ready, served, settled, view
from explorer_runs import digits_run, half_done, write_suspects
from hardsight import clean, explore, export, score
from hardsight.errors import FileError, InputError
from hardsight.explorer import embedding_map
from hardsight.explorer.columns import words
from hardsight.explorer.display import Display
from hardsight.explorer.opening import open_display, open_page
from hardsight.explorer.other_results import add_quick_filters, add_suspects
from hardsight.explorer.report import report
from hardsight.explorer.review import Review, review_file
from hardsight.explorer.selection import selection_table
from hardsight.explorer.settings import ExploreSettings, ReportSettings
from hardsight.groups.audit import audit
from hardsight.groups.drift import drift
from hardsight.snapshot import Snapshot
from hardsight.table import write_table

N = 120
EXPECTED = "Labels expected to be wrong: about 7 (95 % interval 4 to 11)."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an audit of its own; a drift from a noisy run, and a subset of the first 30, lie elsewhere."""
    folder = tmp_path_factory.mktemp("filters")
    pens = [1 if row % 3 else 2 for row in range(N)]  # numbers, which are an axis unless an audit says they are groups
    run = digits_run(folder / "run", n=N, columns={"pen": pens})
    before = digits_run(folder / "before", n=N, noise=3.0)
    with pytest.warns(UserWarning, match="trained on"):
        audit(run, "pen", output=run / "audit.parquet")
    drift(before, run, output=folder / "drift.parquet")
    reasons = ["hardest of its class" if row % 2 else "spread" for row in range(30)]
    write_table(pa.table({"id": [str(row) for row in range(30)], "reason": reasons}), folder / "subset.parquet")
    return run


def opened(run: Path, **options: Any) -> Display:
    display = open_display(run)
    add_quick_filters(display, ReportSettings(**options))
    return display


def test_each_is_a_column_joined_by_id(run: Path, tmp_path: Path) -> None:
    display = opened(run, subset=run.parent / "subset.parquet", drift=run.parent / "drift.parquet")
    assert [quick.column for quick in display.quick_filters] == ["subset", "subset_reason", "pen", "drift", "drift_outcome"]
    assert words(display.columns["subset"]).to_pylist() == ["in the subset"] * 30 + ["not in it"] * 90
    assert words(display.columns["subset_reason"]).to_pylist()[:3] == ["spread", "hardest of its class", "spread"]
    ranked = pa.table({"id": [str(row) for row in range(30)], "reason": [f"hardest, rank {row}" for row in range(30)]})
    write_table(ranked, tmp_path / "ranked.parquet")
    columns = [quick.column for quick in opened(run, subset=tmp_path / "ranked.parquet").quick_filters]
    assert columns == ["subset", "pen"]  # thirty reasons of a sample each are no groups
    assert words(display.columns["pen"]).to_pylist()[:4] == ["2", "1", "1", "2"]
    assert set(display.quick_filters[2].notes) == {"1", "2"}  # with the verdict of each
    drift = set(words(display.columns["drift"]).to_pylist())
    assert drift <= {"harder", "easier", "no change"} and "easier" in drift
    assert display.columns["drift_change"].hard == "high" and display.columns["pen"].names == ["1", "2"]


def test_files_that_do_not_fit_are_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "subset.parquet"
    write_table(pa.table({"id": ["x"], "reason": ["y"]}), file)
    for message, options in {
        "none of its ids is among the samples .it has 'x', run has '0'": {"subset": file},
        "not what hardsight drift writes: there is no column harder": {"drift": file},
        "not what hardsight audit writes": {"audit": file},
        "does not exist": {"subset": tmp_path / "nothing.parquet"},
    }.items():
        with pytest.raises((InputError, FileError), match=message):
            opened(run, **options)


FREQUENCY = np.linspace(0.9, 0.1, 60)  # the last digit is the one that people would doubt most


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with what people would say; twenty of its sixty digits were put to them."""
    run = digits_run(tmp_path_factory.mktemp("people") / "run", n=60)
    ids, source = [str(row) for row in range(60)], ["answered"] * 20 + ["predicted"] * 40
    said = {"id": ids, "predicted_frequency": FREQUENCY, "low": FREQUENCY - 0.1, "high": FREQUENCY + 0.1, "source": source}
    write_table(pa.table(said), run / "people.parquet")
    return run


def test_what_people_would_say_is_a_column(watched: Watched, asked: Path, tmp_path: Path) -> None:
    display = opened(asked)
    assert display.hardest("predicted_frequency")[0] == 59 and display.columns["predicted_frequency"].hard == "low"
    assert display.columns["predicted_frequency_low"].values[0] == pytest.approx(0.8)
    with served(asked, read_only=True) as address:
        page = watched.open(address, "tab=quick&by=predicted_frequency")
        page.get_by_role("button", name="Select people source: answered").click()
        settled(page, "^20 of 60 samples$")
        page.locator("#axis-color").select_option("predicted_frequency")
        expect(page.locator("#legend")).to_contain_text("predicted frequency")
        watched.leave()
    other = digits_run(tmp_path / "run", n=60)
    write_table(pa.table({"id": ["0"]}), other / "people.parquet")
    with pytest.raises(FileError, match="not what hardsight people writes: there is no column predicted_frequency"):
        opened(other)


def test_the_report_says_what_people_would_say(watched: Watched, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])
    page = watched.open(report(asked).as_uri())
    expect(page.locator("#people")).to_contain_text("predicted from answers about 20 samples")
    expect(page.locator("#people .tile img")).to_have_count(24)
    strips = page.locator("#people .strip")
    first = [int(strips.nth(at).locator(".tile").first.get_attribute("title")) for at in range(3)]
    apart = rankdata(-FREQUENCY) - rankdata(-opened(asked).columns["confidence"].values)  # harder for people than for the model
    assert first[0] == 59 and apart[first[1]] == apart.max() and apart[first[2]] == apart.min()
    strips.first.locator(".tile").first.click()
    expect(page.locator("#detail")).to_contain_text("10.0 % (0.0 % to 20.0 %), predicted")


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
        page.locator("#tab-run").click()
        again = page.locator("#view-run .again")
        expect(again).to_contain_text("How to do it again")
        expect(again.locator("pre")).to_have_text(re.compile(r"^hardsight extract\nhardsight explore .*\nhardsight report "))
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
    monkeypatch.setattr(embedding_map, "placed", half_done(finish))
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


# Suspects, of `hardsight clean`


@pytest.fixture(scope="module")
def suspected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = digits_run(tmp_path_factory.mktemp("suspects") / "run", n=120)
    write_suspects(run)
    return run


def with_suspects(path: Path) -> Display:
    display = open_display(path)
    add_suspects(display)
    return display


def data_of(page: Path) -> dict[str, Any]:
    return dict(json.loads(page.read_text("utf-8").split('id="data">', 1)[1].split("</script>", 1)[0]))


def test_suspects_are_columns_joined_by_id(suspected: Path, tmp_path: Path) -> None:
    table = pq.read_table(suspected / "suspects.parquet")
    display = with_suspects(suspected)
    assert display.suspects is not None and display.suspects.counts == {"likely mislabeled": 6, "ambiguous": 3}
    assert (display.by, display.first_axes()[2], display.notes) == ("error_score", "verdict", [])
    assert words(display.columns["verdict"]).to_pylist() == table.column("verdict").to_pylist()
    assert display.columns["error_score"].values.tolist() == pytest.approx(table.column("error_score").to_pylist())
    for row in selection_table(display, display.labels.argsort()[:5], Review(None, display.class_names)).to_pylist():
        assert row["suggested_label_name"] == f"digit {row['suggested_label']}"
    Snapshot.load(suspected).save(tmp_path / "photo.npz")
    write_table(table.take(pa.array(range(119, -1, -1))), tmp_path / "photo.suspects.parquet")  # in another order
    beside = with_suspects(tmp_path / "photo.npz")
    assert beside.columns["error_score"].values.tolist() == display.columns["error_score"].values.tolist()
    assert beside.suspects is not None and beside.suspects.explanations.equals(display.suspects.explanations)


def test_a_run_without_suspects_is_as_before(suspected: Path, tmp_path: Path) -> None:
    plain = digits_run(tmp_path / "plain", n=30)
    display = with_suspects(plain)
    assert display.suspects is None and (display.by, display.first_axes()[2]) == ("avh", "correct")
    page = open_page(plain, None, ExploreSettings())
    assert page.about()["suspects"] is None and page.about()["by"] == "avh"
    both = open_page(suspected, plain, ExploreSettings())
    assert both.about()["suspects"] is None and both.about()["by"] == "avh"  # two runs are compared by their scores


def test_suspects_that_do_not_fit_are_refused_in_one_line(suspected: Path, tmp_path: Path) -> None:
    plain = digits_run(tmp_path / "plain", n=30)
    table = pq.read_table(suspected / "suspects.parquet")
    for message, other in {
        "none of its ids is among the samples": table.set_column(0, "id", pa.array([f"x{row}" for row in range(120)])),
        "it has no column verdict": table.drop_columns(["verdict"]),
        "row 120 repeats '3' of row 3": pa.concat_tables([table, table.slice(3, 1)]),
        "unknown verdict 'wrong'": table.set_column(5, "verdict", pa.array(["wrong"] * 120)),
    }.items():
        write_table(other, plain / "suspects.parquet")
        with pytest.raises((InputError, FileError), match=message):
            with_suspects(plain)
    other = table.slice(0, 20).set_column(1, "given_label", pa.array([9] * 20))
    write_table(other, plain / "suspects.parquet")
    notes = with_suspects(plain).notes
    assert "10 of 30 samples were not looked at by hardsight clean." in notes[0] and "run hardsight clean again" in notes[1]


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
            display, pictures = view.page.display, view.page.pictures
            assert display.class_names == ["cat", "dog"] and words(display.columns["label"]).to_pylist()[:2] == ["dog", "dog"]
            assert display.suspects is not None and display.by == "error_score"
            assert [pictures.image(row).getpixel((0, 0)) for row in (0, 39)] == [(0, 0, 0), (39, 0, 0)]
            view.page.review.put("tab", str(view.ids[3]), "fine")
            assert view.marks["id"].to_pylist() == view.ids[3:4] and view.page.review.path is None  # in no file
    assert report(table) == Path("report.html") and len(data_of(tmp_path / "report.html")["thumbs"]) == 40
    assert export(table, "coco").samples == 40 and (tmp_path / "table-coco" / "annotations.json").is_file()
    with closing(explore(score(frame, labels="y").filter(pa.array(y == 1)))) as view:
        assert len(view.page.display) == 20 and "avh" in view.page.display.columns and not view.page.pictures.any
    with closing(explore(clean(frame, "y").to_pandas())) as view:  # names are numbered again
        assert view.page.display.class_names == ["cat", "dog"]


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
    assert first["sentence"].startswith("Of 60 samples: 6 likely mislabeled, 3 ambiguous, 15 duplicates. 2 are reviewed")
    assert first["sentence"].endswith(": 1 fine, 1 wrong label.")
    table = pq.read_table(copied / "suspects.parquet").to_pandas()
    worst = table.sort_values("error_score", ascending=False, kind="stable").index[:9].tolist()
    assert first["rows"] == worst and all(str(row) in data["thumbs"] for row in worst)
    assert data["explanations"][str(worst[0])] == "why likely mislabeled <b>" and len(data["explanations"]) == 9
    assert data["about"]["suspects"]["groups"][-1] == ["duplicates", 15, "is_duplicate", "true"]  # whatever their verdict
    display = with_suspects(copied)
    rows = selection_table(display, np.arange(60), Review(None, display.class_names)).to_pylist()
    assert {row["id"]: row["duplicate_of"] for row in rows if row["is_duplicate"]} == {
        str(row): str(row - 1) for row in range(3, 60, 4)
    }
    assert first["duplicates"]["rows"] == list(range(3, 48, 4)) and first["duplicates"]["of"][0] == "2"
    assert data["twins"]["3"] == {"id": "2", "row": 2}
    assert data["marks"] == [{"row": 5, "mark": "wrong label", "suggestion": 3}, {"row": 6, "mark": "fine", "suggestion": None}]
    assert str(copied) not in json.dumps(data["about"])  # a report may be sent

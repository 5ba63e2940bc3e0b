"""The page in a real browser: each feature driven as a person would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.path import Path as MplPath
from scipy.stats import spearmanr

from benchmarks.explore import make_table
from explorer_browser import (
    Watched,
    browsing,
    commanded,
    counted,
    downloads,
    drag,
    drawn_filter,
    eventually,
    expect,
    first_tile,
    needed,
    point_at_end,
    ready,
    served,
    settled,
    view,
)
from explorer_runs import digits_run, two_heads
from hardsight import Head, score
from hardsight.explorer.report import report
from hardsight.explorer.selection import agreement
from hardsight.geometry import angles
from hardsight.snapshot import Snapshot
from hardsight.table import write_table


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("explorer") / "digits", human=True, dynamics=True, degraded=True)


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    needed()
    with commanded(run) as at:
        yield at


@pytest.fixture
def page(watched: Watched, address: str) -> Any:
    return watched.open(address)


@pytest.fixture
def table(run: Path) -> Any:
    table = pq.read_table(run / "scores.parquet").to_pandas()
    table.own_angle = np.degrees(table.own_angle)  # as the page shows it
    return table


def test_everything_follows_a_box(page: Any, table: Any) -> None:
    assert counted(page) == len(table) == 400
    assert page.locator("#grid .tile").count() == 60
    drag(page, (0.3, 0.2), (0.7, 0.8))
    settled(page, r"of 400 samples")
    ready(page)
    box = drawn_filter(page)
    assert box[:3] == ["box", "own_angle", "norm"]
    inside = table[table.own_angle.between(box[3], box[4]) & table.norm.between(box[5], box[6])]
    assert 0 < len(inside) < 400
    assert counted(page) == len(inside)
    shown = [row.split("\t") for row in page.locator("#view-classes tbody tr").all_inner_texts()]
    assert sum(int(row[1]) for row in shown) == len(inside)
    expect(page.locator("#page-name")).to_have_text(f"1–{min(60, len(inside))} of {len(inside)}")
    first_tile(page, inside.sort_values("avh", ascending=False).iloc[0].id)
    page.keyboard.press("Escape")
    settled(page, "^400 samples$")


def test_any_column_is_an_axis_or_a_color(page: Any) -> None:
    page.locator("#axis-x").select_option("confidence")
    page.locator("#axis-y").select_option("label")  # groups too: spread a little around their place
    page.locator("#axis-color").select_option("split")
    settled(page, "", "#cloud[aria-label^='Scatter of given class against confidence']")
    expect(page.locator("#legend .entry")).to_have_text(["test", "train"])
    drag(page, (0.1, 0.05), (0.98, 0.2))  # the upper rows of groups
    settled(page, "of 400 samples")
    ready(page)
    box = drawn_filter(page)
    assert box[:3] == ["box", "confidence", "label"] and box[6] > 8
    expect(page.locator("#view-classes tbody")).to_contain_text("digit 9")
    expect(page.locator("#view-classes tbody")).not_to_contain_text("digit 0")
    page.keyboard.press("Escape")
    page.locator("#legend .entry", has_text="test").click()
    settled(page, "^80 of 400")  # each fifth sample is in the test split


def test_lasso_zoom_move_and_hover(page: Any, table: Any) -> None:
    page.get_by_role("radio", name="Lasso").click()
    drag(page, (0.3, 0.2), (0.8, 0.25), (0.75, 0.75), (0.35, 0.7))
    settled(page, "of 400 samples")
    lasso = drawn_filter(page)
    polygon = MplPath(np.reshape(lasso[3], (-1, 2)))
    inside = polygon.contains_points(table[["own_angle", "norm"]].to_numpy().astype(np.float32))
    assert abs(counted(page) - inside.sum()) <= 1 and 0 < inside.sum() < 400  # a point may lie on the line itself
    page.locator(".chip").click()
    settled(page, "^400 samples$")
    page.locator("#cloud").hover()
    page.mouse.wheel(0, -300)
    page.locator("#unzoom").wait_for()
    zoomed = json.loads(view(page)["zoom"][0])
    assert zoomed[1] - zoomed[0] < table.own_angle.max() - table.own_angle.min()
    page.get_by_role("radio", name="Move").click()
    drag(page, (0.5, 0.5), (0.7, 0.5))
    eventually(page, lambda: json.loads(view(page)["zoom"][0])[0] < zoomed[0], True)
    moved = json.loads(view(page)["zoom"][0])
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], rel=1e-4)
    page.locator("#unzoom").click()
    ready(page)
    x, y = place_of(page, table, 7)
    page.mouse.move(x, y)
    page.locator("#tip img").wait_for()
    expect(page.locator("#tip")).to_contain_text(f"digit {table.label[7]}")
    expect(page.locator("#tip")).to_contain_text(f"{table.norm[7]:.3g}"[:3])


def place_of(page: Any, table: Any, row: int) -> tuple[float, float]:
    """Where a sample is drawn on the screen, by the axes' own numbers."""
    box = page.locator("#cloud").bounding_box()
    shares = []
    for name in ("own_angle", "norm"):
        low, high = table[name].min(), table[name].max()
        low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
        shares.append((table[name][row] - low) / (high - low))
    return box["x"] + 58 + shares[0] * (box["width"] - 70), box["y"] + 10 + (1 - shares[1]) * (box["height"] - 52)


def test_samples_sort_turn_pages_and_open(page: Any, table: Any) -> None:
    page.locator("#sort").select_option("confidence")
    lowest = table.sort_values("confidence", kind="stable").id.tolist()
    first_tile(page, lowest[0])
    page.get_by_role("button", name="Next page").click()
    settled(page, "61–120 of 400", "#page-name")
    first_tile(page, lowest[60])
    page.get_by_role("button", name="hardest first").click()
    first_tile(page, lowest[-1])
    widths = "() => [...document.querySelectorAll('#grid img')].slice(0, 15).map((image) => image.naturalWidth)"
    eventually(page, lambda: page.evaluate(widths), [8] * 15)


def test_the_close_up(page: Any, table: Any, run: Path) -> None:
    snapshot = Snapshot.load(run)
    page.locator("#find-text").fill("17")
    page.keyboard.press("Enter")
    settled(page, "of 400")
    page.locator("#grid .tile[aria-label^='17, ']").click()
    dialog = page.locator("#detail")
    dialog.locator(".bars li").first.wait_for()
    ready(page)
    theta = np.degrees(angles(snapshot.in_memory().values, snapshot.head.weight))[17]  # type: ignore[union-attr]
    bars = dialog.locator(".bars li").all_inner_texts()
    assert f"{theta.min():.1f}°" in bars[0] and f"digit {theta.argmin()}" in bars[0]
    assert any("given" in bar and f"{theta[table.label[17]]:.1f}°" in bar for bar in bars)
    features = snapshot.in_memory().values / np.linalg.norm(snapshot.in_memory().values, axis=1, keepdims=True)
    cosine = features @ features[17]
    cosine[17] = -2
    dialog.get_by_text("Nearest neighbors").wait_for()
    dialog.locator(f"[aria-label*='{cosine.max():.3f}']").first.wait_for()
    dialog.locator("h3", has_text="Over the epochs").wait_for()
    expect(dialog.get_by_role("img", name="This sample over the epochs")).to_be_visible()
    labels = dialog.locator(".labels dd").all_inner_texts()
    assert labels == [f"digit {table.label[17]}", f"digit {table.predicted[17]}"]
    versions = dialog.locator("h3", has_text="Degraded").locator("xpath=following-sibling::div[1]").locator(".caption")
    assert versions.all_inner_texts() == ["original –", "contrast 0.3", "contrast 0.6", "noise 0.5"]
    expect(dialog.locator(".large img")).to_have_js_property("naturalWidth", 8)
    expect(dialog.locator("#detail-title")).to_have_text("17")
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("#detail-title")).not_to_have_text("17")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_classes_and_confusions_filter(page: Any, table: Any, run: Path) -> None:
    row = page.locator("#view-classes tbody tr", has_text="digit 3").inner_text().split("\t")
    of = table[table.label == 3]
    assert [row[1], row[2]] == [str(len(of)), f"{100 * (of.predicted == 3).mean():.1f} %"]
    assert float(row[3]) == pytest.approx(of.avh.mean(), rel=1e-3) and float(row[4]) == pytest.approx(of.norm.mean(), rel=1e-3)
    page.get_by_role("tab", name="Confusions").click()
    wrong = table[table.label != table.predicted].groupby(["label", "predicted"]).size().sort_values(ascending=False)
    rows = page.locator("#view-confusions tbody tr")
    expect(rows).to_have_count(len(wrong))
    ready(page)
    assert int(rows.first.inner_text().split("\t")[1]) == wrong.iloc[0]
    page.locator("#view-confusions tbody .pick").first.click()
    settled(page, f"^{wrong.iloc[0]} of 400")
    assert len(view(page)["f"]) == 2
    page.get_by_role("tab", name="Class angles").click()
    page.get_by_role("img", name="Cosines between the vectors").wait_for()
    ready(page)  # with the table below
    weight = Snapshot.load(run).head.weight  # type: ignore[union-attr]
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    top = np.max((unit @ unit.T)[np.triu_indices(10, 1)])
    assert float(page.locator("#view-angles tbody td").first.inner_text()) == pytest.approx(top, rel=1e-3)
    angle = page.locator("#view-angles tbody tr").first.locator("td").last.inner_text()
    assert angle == f"{np.degrees(np.arccos(top)):.1f}°"
    names = page.locator("#view-angles .names")  # beside and below the cells
    assert [names.nth(at).locator("bdi").all_inner_texts() for at in (0, 1)] == [[f"digit {k}" for k in range(10)]] * 2
    far = np.abs((unit @ unit.T)[np.triu_indices(10, 1)]).max()
    ends = [f"{sign * far:.2g} ({np.degrees(np.arccos(sign * far)):.1f}°)" for sign in (-1, 1)]
    assert page.locator("#view-angles .scale").inner_text().split("\n") == ends
    cells, beside = (page.locator(f"#view-angles {at}").first.bounding_box() for at in (".matrix", ".names"))
    assert cells["height"] == pytest.approx(beside["height"], abs=1)  # each name beside its row


def test_filters_live_in_the_address(page: Any, table: Any) -> None:
    page.get_by_role("tab", name="Filter").click()
    page.locator("#filter-column").select_option("avh")
    page.get_by_role("spinbutton", name="lowest").fill("0.09")
    page.get_by_role("button", name="Apply").click()
    settled(page, f"^{(table.avh.astype(np.float32) >= 0.09).sum()} of 400")
    page.locator("#filter-column").select_option("label")
    page.get_by_role("checkbox", name="digit 8").check()
    page.get_by_role("button", name="Apply").click()
    both = ((table.avh.astype(np.float32) >= 0.09) & (table.label == 8)).sum()
    settled(page, f"^{both} of 400")
    page.locator("#axis-color").select_option("avh")
    page.locator("#sort").select_option("norm")
    kept = view(page)
    page.reload()
    ready(page)
    settled(page, f"^{both} of 400")
    expect(page.locator("#axis-color")).to_have_value("avh")
    expect(page.locator("#sort")).to_have_value("norm")
    assert view(page) == kept and kept["sort"] == ["norm"]
    page.locator(".chip").first.click()
    settled(page, f"^{(table.label == 8).sum()} of 400")
    page.goto(page.url.partition("#")[0] + '#f=["range","nothing",1,2]&f=[[[&x=nothing&zoom=[1,"a"]')  # an address from elsewhere
    settled(page, "^400 samples")


def test_dynamics_curves_and_play(watched: Watched, address: str, table: Any, run: Path) -> None:
    page = watched.open(address, "tab=dynamics&measure=norm&by=correct")
    page.locator("#view-dynamics .key .entry").nth(1).wait_for()
    last_epoch = pq.read_table(run / "dynamics" / "epoch=0005.parquet").to_pandas()
    right = (table.label == table.predicted).to_numpy()
    point_at_end(page.locator("#view-dynamics canvas"))
    expect(page.locator("#view-dynamics .said")).to_contain_text(f"epoch 5: right {last_epoch.norm[right].mean():.4g}"[:20])
    pixels = (
        "() => { const c = document.getElementById('cloud'); return c.toDataURL().length + ':' + c.toDataURL().slice(-4000); }"
    )
    last = page.evaluate(pixels)
    page.locator("#epoch").fill("0")
    settled(page, "epoch 1", "#epoch-name")
    eventually(page, lambda: page.evaluate(pixels) != last, True)
    page.locator("#epoch").fill("2")  # it plays on from there
    settled(page, "epoch 3", "#epoch-name")
    page.get_by_role("button", name="Play").click()
    settled(page, "epoch 5", "#epoch-name")
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Back to the scores").click()
    eventually(page, lambda: page.evaluate(pixels), last)


def test_agreement_follows_the_selection(watched: Watched, address: str, table: Any, run: Path) -> None:
    page = watched.open(address, 'tab=agreement&f=["in","label",["digit 1","digit 8"]]')
    human = pq.read_table(run / "samples" / "part-00000.parquet", columns=["human"]).to_pandas().human
    chosen = table.label.isin([1, 8])
    expected = spearmanr(human[chosen], table.avh[chosen]).statistic
    expect(page.locator("#view-agreement .headline")).to_contain_text(f"ρ = {expected:.3f}")
    page.locator("#view-agreement").get_by_role("combobox", name="Groups").select_option("label")
    settled(page, "digit 8", "#view-agreement tbody tr")
    row = page.locator("#view-agreement tbody tr", has_text="digit 8").inner_text().split("\t")
    mine = table.label == 8
    assert row[1:3] == [str(mine.sum()), f"{spearmanr(human[mine], table.avh[mine]).statistic:.3f}"]
    page.locator("#view-agreement .pick", has_text="digit 8").click()
    settled(page, f"^{mine.sum()} of 400")


def test_keyboard_alone_and_names_for_everything(page: Any) -> None:
    page.keyboard.press("c")
    expect(page.locator("#cloud")).to_be_focused()
    for key in ("+", "+", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    settled(page, "of 400 samples")
    page.keyboard.press("Escape")
    settled(page, "^400 samples$")
    page.keyboard.press("s")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#grid .tile").nth(1)).to_be_focused()
    expect(page.locator("#page-name")).to_have_text("1–60 of 400")  # of what is selected now, however quick the keys are
    page.keyboard.press("Enter")
    page.locator("#detail[open]").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    expect(page.locator("#grid .tile").nth(1)).to_be_focused()  # where it was
    page.keyboard.press("?")
    page.locator("#keys[open]").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    ready(page)
    nameless = """() => [...document.querySelectorAll('button, select, input, canvas[role], a')].filter((part) =>
        part.checkVisibility()
        && !(part.getAttribute('aria-label') || part.textContent.trim() || part.labels?.length || part.title)
    ).map((part) => part.outerHTML)"""
    assert page.evaluate(nameless) == []


@pytest.mark.parametrize("width", [400, 768, 1280, 2200])
def test_no_width_is_too_narrow_or_too_wide(watched: Watched, address: str, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    watched.page.emulate_media(color_scheme="dark")
    page = watched.open(address)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.locator("#grid .tile").first.click()
    page.locator("#detail[open]").wait_for()
    ready(page)  # with its neighbors and curves
    assert page.evaluate(
        "() => document.getElementById('detail').scrollWidth <= document.getElementById('detail').clientWidth + 1"
    )


def test_dark_and_light(page: Any) -> None:
    color = "() => getComputedStyle(document.body).backgroundColor"
    corner = "() => document.getElementById('cloud').toDataURL()"
    light, drawn = page.evaluate(color), page.evaluate(corner)
    page.get_by_role("button", name="Dark or light").click()
    eventually(page, lambda: page.evaluate(color) != light and page.evaluate(corner) != drawn, True)
    page.reload()
    ready(page)
    eventually(page, lambda: page.evaluate(color) != light, True)  # it is remembered


@pytest.mark.parametrize("how", ["page", "report"])
def test_column_names_of_several_lines(watched: Watched, tmp_path: Path, how: str) -> None:
    """Each is an axis, a color and an order, and comes back from the address."""
    names = ["line\nfeed", "carriage\rreturn", "line\u2028separator"]
    rng = np.random.default_rng(0)
    table = score(rng.normal(size=(20, 6)), Head("linear", rng.normal(size=(3, 6))), rng.integers(0, 3, 20)).table
    for name in names:
        table = table.append_column(name, pa.array(rng.random(20)))
    write_table(table, tmp_path / "scores.parquet")
    file = report(tmp_path / "scores.parquet", tmp_path / "report.html")
    with served(tmp_path / "scores.parquet") as address:
        page = watched.open(file.as_uri() if how == "report" else address)
        for menu, name in zip(("axis-x", "axis-y", "sort"), names, strict=True):
            page.select_option(f"#{menu}", name)
            ready(page)
        page.reload()
        ready(page)
        assert [page.locator(f"#{menu}").input_value() for menu in ("axis-x", "axis-y", "sort")] == names
        watched.leave()


# Hostile names, exports, two runs, the report


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
    with browsing(watched, hostile, view="color=label") as page:
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
    with browsing(watched, run, view='f=["in","label",["digit 3"]]') as page:
        expected = pq.read_table(run / "scores.parquet").to_pandas().query("label == 3")
        assert counted(page) == len(expected)
        table = pq.read_table(downloads(page, tmp_path, "selection", "parquet")).to_pandas()
        assert table.id.tolist() == expected.id.tolist() and set(table.label_name) == {"digit 3"}
        np.testing.assert_allclose(table.avh, expected.avh, rtol=1e-6)
        assert len(downloads(page, tmp_path, "selection", "csv").read_text().splitlines()) == len(expected) + 1
        listed = downloads(page, tmp_path, "selection", "txt").read_text().splitlines()
        assert listed == [f"img/{id}.png" for id in expected.id]
        page.locator("#export summary").click()
        page.keyboard.press("Escape")  # closes the menu, and only that
        expect(page.locator("#export .sheet")).to_be_hidden()
        assert counted(page) == len(expected)


def test_two_runs_side_by_side(watched: Watched, tmp_path: Path) -> None:
    heads = zip(("before", "after"), two_heads(), strict=True)
    one, two = (digits_run(tmp_path / name, n=200, head=head) for name, head in heads)
    first, second = (pq.read_table(run / "scores.parquet").to_pandas() for run in (one, two))
    assert (second.avh < first.avh).mean() > 0.6  # and yet it did not get easier
    change = (second.avh.rank() - first.avh.rank()).to_numpy() / 200
    turn = (second.label != second.predicted).to_numpy() * 1 - (first.label != first.predicted).to_numpy()
    same, lower = turn == 0, (second.confidence < first.confidence).to_numpy()
    with browsing(watched, one, two) as page:
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
    play = page.get_by_role("button", name="Play")  # read in the same breath: by the next look it may have played
    assert play.evaluate("(button) => (button.click(), button.textContent)") == "Pause"
    play.wait_for()  # it has come to the end
    expect(page.locator("#epoch-name")).to_have_text("epoch 5")
    page.get_by_role("button", name="Back to the scores").click()
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


@pytest.mark.slow
def test_a_million_points(watched: Watched, tmp_path: Path) -> None:
    table = make_table(1_000_000)
    write_table(table, tmp_path / "scores.parquet")
    with browsing(watched, tmp_path / "scores.parquet") as page:
        assert counted(page) == 1_000_000
        drag(page, (0.4, 0.3), (0.6, 0.6))
        settled(page, "of 1,000,000 samples")
        box = drawn_filter(page)
        angle, norm = (table.column(name).to_numpy().astype("f4") for name in ("own_angle", "norm"))
        angle, norm = np.degrees(angle).astype("f8"), norm.astype("f8")  # as the page compares
        inside = (angle >= box[3]) & (angle <= box[4]) & (norm >= box[5]) & (norm <= box[6])
        assert counted(page) == inside.sum()
        page.get_by_role("button", name="Next page").click()
        settled(page, "61–120 of", "#page-name")

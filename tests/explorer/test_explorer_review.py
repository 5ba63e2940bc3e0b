"""Marks: on disk at once, by keyboard, over restarts, from two tabs and two servers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explorer_asked import start
from explorer_browser import Watched, browsing, cut_off, downloads, eventually, expect, first_tile, ready, served, settled
from explorer_runs import class_means, digits_run, write_suspects
from hardsight.errors import FileError, InputError
from hardsight.explorer.report import report
from hardsight.explorer.review import Review, review_file
from hardsight.files.checksums import own_checksum
from hardsight.files.locking import lock
from hardsight.head import Head
from hardsight.snapshot import Snapshot
from hardsight.table import read_scores, write_table

NAMES = ["cat", "dog"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return digits_run(tmp_path / "run", n=120)


@pytest.fixture
def review(tmp_path: Path) -> Any:
    return Review(tmp_path / "review.parquet", NAMES)


def ranked(run: Path) -> Any:
    """The scores of a run, hardest first."""
    return read_scores(run).to_pandas().sort_values("avh", ascending=False, kind="stable")


def rows(path: Any) -> dict[str, tuple[str, int | None]]:
    return {row["id"]: (row["mark"], row["suggestion"]) for row in pq.read_table(path).to_pylist()}


def test_every_mark_is_in_the_file_at_once_and_comes_back(review: Any) -> None:
    review.put("tab", "a", "fine")
    assert rows(review.path) == {"a": ("fine", None)}
    review.put("tab", "b", "wrong label", 1)
    review.put("tab", "a", "drop")
    again = Review(review.path, NAMES)
    assert rows(review.path) == {"a": ("drop", None), "b": ("wrong label", 1)}
    assert {id: mark.mark for id, mark in again.current()[1].items()} == {"a": "drop", "b": "wrong label"}
    assert pq.read_table(review.path).column("suggestion_name").to_pylist() == [None, "dog"]


def test_undo_takes_back_the_tabs_own_marks_only(review: Any) -> None:
    review.put("one", "a", "fine")
    review.put("two", "b", "drop")
    assert review.undo("one") == ["a"] and rows(review.path) == {"b": ("drop", None)}
    assert review.undo("one") == []
    review.put("one", "b", "fine")
    review.put("two", "b", "ambiguous")
    assert review.undo("one") == []  # the other tab has changed it since
    assert rows(review.path) == {"b": ("ambiguous", None)}
    assert review.undo("two") == ["b"] and rows(review.path) == {"b": ("fine", None)}


def test_a_group_is_one_change_that_spares_marks_made_before(review: Any) -> None:
    review.put("one", "a", "fine")
    assert review.put_all("one", "wrong label", {"a": 1, "b": 0, "c": 1}) == 2
    assert rows(review.path) == {"a": ("fine", None), "b": ("wrong label", 0), "c": ("wrong label", 1)}
    review.put("two", "c", "drop")
    assert review.undo("one") == ["b"]  # the other tab has changed c since
    assert rows(review.path) == {"a": ("fine", None), "c": ("drop", None)}
    with pytest.raises(InputError, match="0 to 1"):
        review.put_all("one", "wrong label", {"d": 1, "e": 2})
    assert "d" not in rows(review.path)


MARK_MANY = """
import sys
from pathlib import Path
from hardsight.explorer.review import Review

review = Review(Path(sys.argv[1]), ["cat", "dog"])
for number in range(15):
    review.put(sys.argv[2], f"{sys.argv[2]}{number}", "fine")
"""


def test_two_processes_at_the_same_time(tmp_path: Path, fresh_python: Callable[..., Any]) -> None:
    file = tmp_path / "review.parquet"
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda prefix: fresh_python(MARK_MANY, file, prefix), "ab"))
    assert [process.code for process in done] == [0, 0], done
    assert len(rows(file)) == 30


def test_on_windows_the_first_byte_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, int]] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        tried.append((mode, count))
        if len(tried) < 3:
            raise OSError(13, "Permission denied")  # another process has it

    monkeypatch.setitem(sys.modules, "fcntl", None)  # there is none
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    with (tmp_path / "file").open("a+") as file:
        assert not lock(file.fileno(), wait=False) and len(tried) == 1
        assert lock(file.fileno(), wait=True) and tried == [(2, 1)] * 3


@pytest.mark.parametrize(
    ("mark", "suggestion", "match"), [("good", None, "must be one of"), ("fine", 1, "wrong label"), ("wrong label", 2, "0 to 1")]
)
def test_odd_marks_are_refused_and_nothing_changes(review: Any, mark: str, suggestion: int | None, match: str) -> None:
    with pytest.raises(InputError, match=match):
        review.put("tab", "a", mark, suggestion)
    assert not review.path.exists()


def test_a_mark_that_cannot_be_written_was_not_made(review: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    review.put("tab", "a", "fine")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(FileError, match="No space left"):
        review.put("tab", "b", "drop")
    assert set(review.current()[1]) == {"a"} == set(rows(review.path))


def test_a_damaged_review_is_said_and_kept(tmp_path: Path) -> None:
    (tmp_path / "review.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(FileError, match="review.parquet: not a readable Parquet file"):
        Review(tmp_path / "review.parquet", NAMES)
    assert (tmp_path / "review.parquet").read_bytes() == b"PAR1 no more"


def test_by_keyboard_over_a_restart_and_in_two_tabs(chromium: Any, tmp_path: Path, run: Path) -> None:
    file, context = run / "review.parquet", chromium.new_context()
    hardest = ranked(run).id.tolist()
    with served(run) as address:
        first = Watched(context.new_page())
        page = first.open(address, "tab=review")
        first_tile(page, hardest[0])
        page.keyboard.type("sf")
        settled(page, "fine", "#grid .tile:nth-child(1) .badge")
        page.keyboard.press("w")
        page.locator("#chooser[open]").wait_for()
        page.keyboard.press("4")  # the fourth class
        settled(page, "wrong label", "#grid .tile:nth-child(2) .badge")
        page.keyboard.press("w")
        page.locator("#chooser[open]").wait_for()
        page.keyboard.press("Enter")  # the model's own guess
        settled(page, "wrong label", "#grid .tile:nth-child(3) .badge")
        page.keyboard.press("a")
        settled(page, "ambiguous", "#grid .tile:nth-child(4) .badge")
        page.keyboard.press("d")
        settled(page, "drop", "#grid .tile:nth-child(5) .badge")
        page.keyboard.press("u")
        expect(page.locator("#grid .tile:nth-child(5) .badge")).to_be_hidden()
        ready(page)
        guess = ranked(run).predicted.iloc[2]
        expected = {hardest[0]: ("fine", None), hardest[1]: ("wrong label", 3), hardest[2]: ("wrong label", guess)}
        assert rows(file) == expected | {hardest[3]: ("ambiguous", None)}
        expect(page.locator("#view-review tbody tr")).to_have_count(4)

        second = Watched(context.new_page())
        other = second.open(address)
        settled(other, "fine", "#grid .tile:nth-child(1) .badge")
        other.keyboard.press("s")
        for _ in range(6):
            other.keyboard.press("ArrowRight")
        other.keyboard.press("d")
        settled(other, "drop", "#grid .tile:nth-child(7) .badge")
        page.bring_to_front()
        settled(page, "drop", "#grid .tile:nth-child(7) .badge")  # seen by the first tab
        page.keyboard.press("u")  # its own last mark, not the other's
        expect(page.locator("#grid .tile:nth-child(4) .badge")).to_be_hidden()
        assert rows(file) == expected | {hardest[6]: ("drop", None)}
        exported = downloads(page, tmp_path, "review", "csv").read_text()
        assert exported.splitlines()[0].startswith('"id","label","mark"') and len(exported.splitlines()) == 5
        for watched in (first, second):
            watched.check()
            watched.page.close()
    with served(run) as address:
        page = Watched(context.new_page()).open(address, 'f=["in","mark",["fine"]]')
        settled(page, "^1 of 120")
        settled(page, "fine", "#grid .tile:first-child .badge")
        page.close()
    with served(run, read_only=True) as address:
        only = Watched(context.new_page())
        page = only.open(address)
        before = file.read_bytes()
        for key in ("s", "d", "u", "ArrowRight"):
            page.keyboard.press(key)
        expect(page.locator("#grid .tile").nth(1)).to_be_focused()  # the arrow alone moved it
        ready(page)
        assert only.posted == [] and file.read_bytes() == before
        expect(page.locator("#grid .badge:visible")).to_have_count(4)
        page.close()
    context.close()


def test_keys_may_come_faster_than_the_server_answers(chromium: Any, run: Path) -> None:
    hardest = ranked(run).id.tolist()
    context = chromium.new_context()
    with served(run) as address:
        page = context.new_page()
        held: list[Any] = []  # what the page has asked while no answer comes
        answering = False
        page.route("**/api/mark", lambda route: route.continue_() if answering else held.append(route))
        Watched(page).open(address)
        page.keyboard.type("sfdaf")
        expect(page.locator("#grid .tile").nth(4)).to_be_focused()
        eventually(page, lambda: len(held), 1)
        assert not (run / "review.parquet").exists()
        answering = True
        held[0].continue_()
        ready(page)
        assert rows(run / "review.parquet") == {
            id: (mark, None) for id, mark in zip(hardest, ("fine", "drop", "ambiguous", "fine"), strict=False)
        }
        expect(page.locator("#grid .tile").nth(4)).to_be_focused()
        page.close()
    context.close()


def test_marks_of_a_file_are_kept_beside_it(watched: Watched, tmp_path: Path, run: Path) -> None:
    Snapshot.load(run).save(tmp_path / "photo.npz")
    file = tmp_path / "photo.review.parquet"
    with browsing(watched, tmp_path / "photo.npz", view="tab=review") as page:
        page.keyboard.type("sd")
        settled(page, "drop", "#grid .tile:nth-child(1) .badge")
        assert [mark for mark, _ in rows(file).values()] == ["drop"] and own_checksum(file)
        id, badge = (page.locator(f"#grid .tile:first-child {part}").bounding_box() for part in (".nopicture", ".badge"))
        assert badge["y"] >= id["y"] + id["height"]  # there is no picture: the mark does not hide the id
        expect(page.locator("#view-review")).to_contain_text(str(file))
    assert review_file(tmp_path / "photo.csv") == file  # the same samples by another name


def test_a_page_without_marks_says_why(watched: Watched, tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(read_scores(run), tmp_path / "photo.csv")
    monkeypatch.setattr("hardsight.explorer.review.os.access", lambda *_: False)  # as of a folder that can only be read
    with browsing(watched, tmp_path / "photo.csv", view="tab=review") as page:
        for place in ("#review-keys", "#view-review"):
            expect(page.locator(place)).to_contain_text(f"{tmp_path} cannot be written to")
        page.keyboard.type("sd")
        expect(page.locator("#message")).to_contain_text("cannot be written to")
        assert watched.posted == [] and not (tmp_path / "photo.review.parquet").exists()


def test_a_run_without_scores_opens_where_nothing_can_be_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "scores.parquet").unlink()
    monkeypatch.setattr("hardsight.explorer.review.os.access", lambda *_: False)
    started = start(run, port=0)
    started.socket.close()
    assert not (run / "scores.parquet").exists() and f"{run} cannot be written to" in " ".join(started.notes)


def test_of_a_thousand_classes_the_likely_ones_are_offered_first(watched: Watched, tmp_path: Path) -> None:
    weight = np.concatenate([np.random.default_rng(0).normal(size=(990, 64)).astype(np.float32), class_means()[0]])
    names = [f"species {k}" for k in range(1000)]
    run = digits_run(tmp_path / "run", n=20, names=names, head=Head("cosine", weight, scale=20.0))
    hardest = ranked(run).id.iloc[0]
    snapshot = Snapshot.load(run).in_memory()
    logits = Head("cosine", weight, scale=20.0).logits(snapshot.values[int(hardest)][None])[0]
    expected = [names[k] for k in np.argsort(-np.asarray(logits), kind="stable")[:8]]
    with browsing(watched, run) as page:
        first_tile(page, hardest)
        page.keyboard.type("sw")
        options = page.locator("#chooser .options .option bdi")
        eventually(page, lambda: options.all_inner_texts()[:8], expected)
        page.keyboard.type(expected[3])
        page.keyboard.press("Enter")
        settled(page, "wrong label", "#grid .tile:nth-child(1) .badge")
    assert rows(run / "review.parquet") == {hardest: ("wrong label", names.index(expected[3]))}


def test_a_verdict_has_one_color_whatever_else_was_found(watched: Watched, run: Path) -> None:
    write_suspects(run, likely=0)  # ambiguous is the first verdict that there is
    with browsing(watched, run, view="color=verdict") as page:
        expect(page.locator("#legend .entry")).to_have_text(["ambiguous"])
        expect(page.locator("#legend .entry .dot")).to_have_css(
            "background-color", "rgb(47, 127, 193)"
        )  # whichever verdicts there are


def test_suspects_are_reviewed_by_verdict_with_one_key(watched: Watched, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suspects(run)
    table = pq.read_table(run / "suspects.parquet").to_pandas().set_index("id")
    worst = table.sort_values("error_score", ascending=False, kind="stable")
    with browsing(watched, run) as page:
        first_tile(page, worst.index[0])
        expect(page.get_by_role("tab", name="Suspects")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#legend")).to_contain_text("no verdict")  # what the gray points are
        page.locator("#view-suspects .fact", has_text="ambiguous").click()
        settled(page, "^3 of 120")
        page.locator("#view-suspects .fact", has_text="likely mislabeled").click()
        settled(page, "^6 of 120")
        expect(page.locator("#view-suspects .fact[aria-pressed=true]")).to_have_text("likely mislabeled6")
        first_tile(page, worst.index[0])
        page.keyboard.type("sy")
        settled(page, "wrong label", "#grid .tile:nth-child(1) .badge")
        expect(page.locator("#view-suspects")).to_contain_text(
            "(95 % interval 4 to 11). 6 samples with a verdict in the selection. 1 reviewed"
        )
        expect(page.locator("#review-progress")).to_contain_text("1 of 6 reviewed")
        expect(page.locator("#grid .tile").nth(1)).to_be_focused()
        page.keyboard.press("Enter")
        detail = page.locator("#detail")
        expect(detail.locator(".labels dd").last).to_have_text(f"digit {worst.suggested_label.iloc[1]} 90.0 %")
        expect(detail.locator(".note")).to_have_text("likely mislabeled: why likely mislabeled <b>")
        expect(detail.get_by_role("button", name="accept")).to_contain_text(f"digit {worst.suggested_label.iloc[1]}")
        page.keyboard.press("y")
        expect(detail.locator("#detail-title")).to_have_text(worst.index[2])  # on to the next
        page.keyboard.press("Escape")
        ready(page)
        assert rows(run / "review.parquet") == {id: ("wrong label", worst.suggested_label[id]) for id in worst.index[:2]}
        page.set_viewport_size({"width": 400, "height": 860})
        eventually(page, lambda: cut_off(page, "#view-suspects"), 0)
        page.set_viewport_size({"width": 1280, "height": 860})
        page.locator("#view-suspects .fact", has_text="likely mislabeled").click()  # once more: all again
        settled(page, "^120 samples$")
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])
    page.goto(report(run).as_uri())
    ready(page)
    expect(page.locator("#about-body > :first-child h3")).to_have_text("Suspects")
    expect(page.locator("#suspects .tile")).to_have_count(9)
    expect(page.locator("#suspects img").first).to_have_js_property("naturalWidth", 8)
    page.locator("#suspects .tile").first.click()
    expect(page.locator("#detail .note")).to_have_text("likely mislabeled: why likely mislabeled <b>")


def test_an_arrow_points_to_what_y_accepts(watched: Watched, tmp_path: Path) -> None:
    """Not to the prediction of a sample that is ambiguous, or hard but right, for which nothing is suggested."""
    run = digits_run(tmp_path / "run", n=120, noise=9.0)
    suspects = write_suspects(run, likely=1).to_pandas().set_index("id")
    scores = ranked(run).sort_values("loss", ascending=False).set_index("id")
    wrong = scores.index[scores.predicted != scores.label]
    assert len(wrong) > 5 and suspects.verdict[wrong[0]] == "likely mislabeled" and suspects.verdict[wrong[1]] == "ambiguous"
    names = [f"digit {label}" for label in scores.label[wrong]]
    with browsing(watched, run, view='sort=loss&f=["in","correct",["wrong"]]') as page:
        first_tile(page, wrong[0])
        captions = [f"^{name}→ digit" if at == 0 else f"^{name}[^→]*$" for at, name in enumerate(names)]
        expect(page.locator("#grid .tile .caption")).to_have_text([re.compile(words) for words in captions])
        page.keyboard.type("sy")
        settled(page, "wrong label", "#grid .tile:nth-child(1) .badge")
        expect(page.locator("#grid .tile").nth(1)).to_be_focused()
        page.keyboard.press("y")
        expect(page.locator("#message")).to_have_text("No other class is suggested for this sample")
        assert list(rows(run / "review.parquet")) == [wrong[0]]
        page.keyboard.press("u")
        expect(page.locator("#message")).to_have_text(f"Undone: mark of {wrong[0]}")  # not of the one that had no suggestion


def test_all_of_a_filtered_group_in_one_action(watched: Watched, run: Path) -> None:
    table = write_suspects(run)
    notes = json.dumps({"warnings": ["the model is weak <b>"]})
    table = table.append_column("duplicate_of", pa.array([None, "0", *[None] * 118], pa.string()))
    write_table(table.replace_schema_metadata({"hardsight": notes}), run / "suspects.parquet")
    suggested = {row["id"]: row["suggested_label"] for row in table.to_pylist() if row["verdict"] == "likely mislabeled"}
    with browsing(watched, run) as page:
        expect(page.locator("#warnings p")).to_have_text("The model is weak <b>")
        progress = page.locator("#review-progress")
        expect(progress).to_have_text("0 of 9 reviewed")  # of the suspects; nothing is offered for all samples
        page.locator("#view-suspects .fact", has_text="likely mislabeled").click()
        settled(page, "^6 of 120")
        progress.get_by_role("button", name="Accept 6 suggestions").click()
        settled(page, "^6 of 6 reviewed", "#review-progress strong")
        assert rows(run / "review.parquet") == {id: ("wrong label", code) for id, code in suggested.items()}
        page.keyboard.press("u")
        expect(page.locator("#message")).to_have_text("Undone: 6 marks: accepted suggestions")
        settled(page, "^0 of 6 reviewed", "#review-progress strong")
        assert rows(run / "review.parquet") == {}
        page.locator("#view-suspects .fact", has_text="likely mislabeled").click()
        page.locator("#view-suspects .fact", has_text="duplicates").click()
        settled(page, "^1 of 120")
        progress.get_by_role("button", name="Mark 1 fine").click()
        settled(page, "^1 of 1 reviewed", "#review-progress strong")
        assert rows(run / "review.parquet") == {"1": ("fine", None)}
        progress.get_by_role("button", name="Apply…").click()
        expect(page.locator("#view-review pre")).to_have_text(f"hardsight clean {run} --apply {run}/review.parquet -o labels.csv")
        page.locator("#grid .tile").first.click()
        expect(page.locator("#detail .labels")).to_contain_text("repeats0")
        page.locator("#detail .labels .pick").click()
        expect(page.locator("#detail-title")).to_have_text("0")
        watched.check()


def test_cards_without_a_label_show_the_prediction(watched: Watched, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=np.array([[9.0, 0], [1, 1.1]]), weight=np.eye(2), class_names=NAMES)
    with browsing(watched, tmp_path / "x.npz") as page:
        expect(page.locator("#sort")).to_have_value("entropy")
        expect(page.locator("#grid .tile .caption")).to_contain_text(["no label→ dog", "no label→ cat"])

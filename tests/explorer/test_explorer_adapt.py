"""The explorer on a real, small run of `hardsight adapt`: two domains, both ways, three methods, two seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hardsight

pytest.importorskip("torch")

from explorer_browser import Watched, browsing, eventually, expect, point_at_end, settled
from hardsight.errors import FileError
from hardsight.explorer.columns import signed
from hardsight.explorer.opening import open_display
from hardsight.table import write_table
from undrawn import undrawn

NAMES = ["cat", "dog", "owl"]
METHODS = ("cbst", "cbst+avh", "crst")
ROUNDS, N = 3, 90


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("adapted")
    labels = np.tile(np.arange(N) % 3, 2)
    domains = np.repeat([0, 1], N)
    features = rng.normal(size=(3, 6))[labels] + rng.normal(size=(2 * N, 6))
    features[domains == 1] = features[domains == 1] @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6))) + 1
    told = {"class_names": np.array(NAMES), "domain_names": np.array(["photo", "sketch"])}
    ids = np.array([f"{('photo', 'sketch')[domain]}/{row}.png" for row, domain in enumerate(domains)])
    np.savez(folder / "two.npz", features=features.astype(np.float32), labels=labels, domains=domains, ids=ids, **told)  # type: ignore[arg-type]
    options: dict[str, Any] = {"rounds": ROUNDS, "epochs": 1, "source_epochs": 3, "hidden": 12, "batch_size": 32, "lr": 0.05}
    with undrawn():
        hardsight.adapt(folder / "two.npz", output=folder / "run", methods=("source", *METHODS), seeds=2, **options)
    return folder / "run"


def round_of(run: Path, pair: str, method: str, turn: int, seed: int = 0) -> Any:
    return pq.read_table(run / pair / f"seed={seed}" / method / f"round={turn:02d}.parquet").to_pandas()


def test_a_run_opens_with_the_target_samples_of_every_pair(run: Path) -> None:
    display = open_display(run)
    assert len(display) == 2 * N and display.class_names == NAMES and display.start["command"] == "hardsight adapt"
    assert display.ids[0].as_py() == "photo-to-sketch/sketch/90.png" and display.base_ids[0].as_py() == "sketch/90.png"
    assert display.columns["pair"].names == ["photo-to-sketch", "sketch-to-photo"]
    first = round_of(run, "photo-to-sketch", "cbst", 1)
    np.testing.assert_allclose(display.columns["avh"].values[:N], first.avh, rtol=1e-6)
    assert display.predicted[:N].tolist() == first.predicted.tolist()
    assert any("seed 0" in note for note in display.notes)


@pytest.mark.parametrize("place", ["photo-to-sketch", "photo-to-sketch/seed=1", "photo-to-sketch/seed=1/crst"])
def test_a_part_of_a_run_opens_too(run: Path, place: str) -> None:
    display = open_display(run / place)
    assert len(display) == N and display.class_names == NAMES and display.ids[0].as_py() == "sketch/90.png"
    assert "pair" not in display.columns and display.start["command"] == "hardsight adapt" and display.rounds is not None
    assert list(display.rounds.methods) == (["crst"] if place.endswith("crst") else sorted(METHODS))
    last = round_of(run, "photo-to-sketch", "crst", ROUNDS, seed=1 if "seed=1" in place else 0)
    assert signed(display.columns["kept by crst"]).tolist() == last.kept.astype(int).tolist()


def test_rounds_are_what_adapt_itself_says_of_them(run: Path) -> None:
    display = open_display(run / "sketch-to-photo" / "seed=1")
    assert display.rounds is not None
    lines = {(line["method"], line["round"]): line for line in display.rounds.summary(np.ones(N, bool))}
    assert len(lines) == len(METHODS) * ROUNDS
    for method in METHODS:
        folder = run / "sketch-to-photo" / "seed=1" / method
        history = json.loads((folder / "rounds.json").read_text())
        for entry in history:
            line, told = lines[method, entry["round"]], entry["selection"]
            assert line["kept"] == told["selected"] and line["beyond_cbst"] == told["not_selected_by_cbst"]
            assert line["right"] == pytest.approx(told["true_positive_rate"])
            for name in ("avh", "avc", "confidence", "norm"):
                assert line[name] == pytest.approx(told[name], rel=1e-5)
        assert display.rounds.reached()[method] == pytest.approx(history[-1]["accuracy"])


def test_rounds_of_a_selection_and_when_each_sample_was_first_kept(run: Path) -> None:
    display = open_display(run)
    assert display.rounds is not None
    chosen = np.arange(2 * N) % 2 == 0
    kept = {
        turn: np.concatenate([round_of(run, pair, "cbst", turn).kept for pair in ("photo-to-sketch", "sketch-to-photo")])
        for turn in range(1, ROUNDS + 1)
    }
    lines = [line for line in display.rounds.summary(chosen) if line["method"] == "cbst"]
    assert [line["kept"] for line in lines] == [int((kept[turn] & chosen).sum()) for turn in kept]
    first = [next((float(turn) for turn in kept if kept[turn][row]), None) for row in range(2 * N)]
    assert [None if np.isnan(one) else one for one in display.columns["first kept by cbst"].values.tolist()] == first


def test_a_run_that_is_not_done_and_one_that_is_damaged(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "a-to-b" / "seed=0" / "cbst"
    folder.mkdir(parents=True)
    table = pq.read_table(run / "photo-to-sketch" / "seed=0" / "cbst" / "round=01.parquet")
    write_table(table, folder / "round=01.parquet")
    display = open_display(tmp_path / "run")
    assert len(display) == N and display.rounds is not None and display.rounds.reached() == {}
    unlabeled = table.set_column(1, "label", pa.nulls(N, pa.int64()))
    write_table(unlabeled, folder / "round=01.parquet")
    line = open_display(tmp_path / "run").rounds.summary(np.ones(N, bool))[0]  # type: ignore[union-attr]
    assert line["right"] is None and line["accuracy"] is None and line["kept"] > 0
    other_order, unkept = table.take(pa.array(np.arange(N)[::-1])), table.drop_columns(["kept"])
    for words, other in {"the pair's other rounds": other_order, "no column 'kept'": unkept, "not a readable": None}.items():
        if other is None:
            (folder / "round=02.parquet").write_bytes(b"PAR1")
        else:
            write_table(other, folder / "round=02.parquet")
        with pytest.raises(FileError, match=f"round=02.parquet: .*{words}"):
            open_display(tmp_path / "run")


def test_the_panel_shows_each_round_follows_the_selection_and_selects(watched: Watched, run: Path) -> None:
    second = round_of(run, "photo-to-sketch", "cbst+avh", 2)
    with browsing(watched, run, read_only=True, view="tab=adaptation") as page:
        expect(page.locator("#view-adaptation tbody tr")).to_have_count(len(METHODS) * ROUNDS)
        expect(page.locator("#view-adaptation .key .entry")).to_have_text(sorted(METHODS))
        last = pq.read_table(run / "rounds.parquet").to_pandas().query("seed == 0 and round in (0, @ROUNDS)")
        for method in ("source", *METHODS):
            mean = 100 * last[last.method == method].accuracy.mean()
            expect(page.locator("#view-adaptation .reached")).to_contain_text(f"{method} {mean:.1f} %")
        page.get_by_role("button", name="Select what cbst+avh kept in round 2").click()
        both = second.kept.sum() + round_of(run, "sketch-to-photo", "cbst+avh", 2).kept.sum()
        settled(page, f"^{both} of {2 * N} samples")
        page.get_by_role("button", name="Select what cbst+avh kept in round 3").click()  # takes the place of the other
        settled(page, "round 3", "#filters")
        expect(page.locator(".chip")).to_have_count(1)
        page.get_by_role("button", name="Clear all filters").click()
        page.get_by_role("tab", name="Filter").click()
        page.locator("#filter-column").select_option("pair")
        page.get_by_role("checkbox", name="photo-to-sketch").check()
        page.get_by_role("button", name="Apply").click()
        settled(page, f"^{N} of")
        page.get_by_role("tab", name="Adaptation").click()
        row = page.get_by_role("button", name="Select what cbst+avh kept in round 2").locator("xpath=ancestor::tr")
        right = 100 * (second.proposed == second.label)[second.kept].mean()
        cells = ["cbst+avh", "2", str(second.kept.sum()), f"{right:.1f} %"]
        eventually(page, lambda: row.inner_text().split("\t")[:4], cells)
        page.get_by_role("combobox", name="What is drawn over the rounds").select_option("avh")
        point_at_end(page.locator("#view-adaptation canvas"))
        mean = round_of(run, "photo-to-sketch", "cbst", 3).query("kept").avh.mean()
        expect(page.locator("#view-adaptation .said")).to_contain_text(f"round 3: cbst {mean:.4g}")
        page.locator("#axis-color").select_option("first kept by crst")
        expect(page.locator("#legend")).to_contain_text("first kept by crst")


def test_the_report_leaves_adapts_own_alone(watched: Watched, run: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])  # drawn by other tests
    before = (run / "report.html").read_bytes()
    done = cli("report", run)
    assert done.code == 0 and "samples.html" in done.out and (run / "report.html").read_bytes() == before
    page = watched.open((run / "samples.html").as_uri(), "tab=adaptation")
    expect(page.locator("#view-adaptation tbody tr")).to_have_count(len(METHODS) * ROUNDS)
    expect(page.locator("#about")).to_contain_text("class accuracy after cbst+avh")
    page.get_by_role("button", name="Select what crst kept in round 1").click()
    kept = sum(round_of(run, pair, "crst", 1).kept.sum() for pair in ("photo-to-sketch", "sketch-to-photo"))
    settled(page, f"^{kept} of {2 * N}")
    (run / "samples.html").unlink()

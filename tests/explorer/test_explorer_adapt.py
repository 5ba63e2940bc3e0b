"""The explorer on a real, small run of `hardsight adapt`: two domains, both ways, three methods, two seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hardsight

pytest.importorskip("torch")

from explorer_browser import Watched, browsing, expect, settled
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
    assert "pair" not in display.columns and display.start["command"] == "hardsight adapt"
    methods = ["crst"] if place.endswith("crst") else sorted(METHODS)
    assert [quick.column for quick in display.quick_filters] == [f"kept by {method}" for method in methods]
    last = round_of(run, "photo-to-sketch", "crst", ROUNDS, seed=1 if "seed=1" in place else 0)
    assert signed(display.columns["kept by crst"]).tolist() == last.kept.astype(int).tolist()


def test_when_each_sample_was_first_kept(run: Path) -> None:
    display = open_display(run)
    kept = {
        turn: np.concatenate([round_of(run, pair, "cbst", turn).kept for pair in ("photo-to-sketch", "sketch-to-photo")])
        for turn in range(1, ROUNDS + 1)
    }
    first = [next((float(turn) for turn in kept if kept[turn][row]), None) for row in range(2 * N)]
    assert [None if np.isnan(one) else one for one in display.columns["first kept by cbst"].values.tolist()] == first


def test_a_run_that_is_not_done_and_one_that_is_damaged(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "a-to-b" / "seed=0" / "cbst"
    folder.mkdir(parents=True)
    table = pq.read_table(run / "photo-to-sketch" / "seed=0" / "cbst" / "round=01.parquet")
    write_table(table, folder / "round=01.parquet")
    display = open_display(tmp_path / "run")
    assert len(display) == N and signed(display.columns["kept by cbst"]).sum() == pc.sum(table["kept"]).as_py()
    other_order, unkept = table.take(pa.array(np.arange(N)[::-1])), table.drop_columns(["kept"])
    for words, other in {"the pair's other rounds": other_order, "no column 'kept'": unkept, "not a readable": None}.items():
        if other is None:
            (folder / "round=02.parquet").write_bytes(b"PAR1")
        else:
            write_table(other, folder / "round=02.parquet")
        with pytest.raises(FileError, match=f"round=02.parquet: .*{words}"):
            open_display(tmp_path / "run")


def test_the_page_filters_by_what_a_method_kept(watched: Watched, run: Path) -> None:
    kept = sum(round_of(run, pair, "cbst+avh", ROUNDS).kept.sum() for pair in ("photo-to-sketch", "sketch-to-photo"))
    with browsing(watched, run, read_only=True, view="tab=quick") as page:
        page.get_by_role("button", name="Select kept by cbst+avh: kept").click()
        settled(page, f"^{kept} of {2 * N} samples")
        page.locator("#axis-color").select_option("first kept by crst")
        expect(page.locator("#legend")).to_contain_text("first kept by crst")


def test_the_report_leaves_adapts_own_alone(run: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.explorer.report._figures", lambda page: [])  # drawn by other tests
    before = (run / "report.html").read_bytes()
    done = cli("report", run)
    assert done.code == 0 and "samples.html" in done.out and (run / "report.html").read_bytes() == before
    assert "accuracy of the source model" in (run / "samples.html").read_text()
    (run / "samples.html").unlink()

"""`hardsight demo`: one run directory, the same numbers every time, in seconds."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.stats import spearmanr

pytest.importorskip("torch")

from conftest import Finished
from doc_blocks import README, run_blocks
from hardsight import Snapshot, score
from hardsight.cli import main
from hardsight.demo import against_degradation, before_and_after, found_errors, predicted_people, run_demo
from hardsight.errors import RunError
from hardsight.files.checksums import sha256
from hardsight.files.heads import load_head
from undrawn import undrawn

PARTS = {"train": "train", "extract": "extract", "degraded": "extract", "adapt": "adapt"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The demo of the README, whose blocks all run here."""
    directory = tmp_path_factory.mktemp("demo")
    start = time.process_time()  # of ours: the machine may be busy with others
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        run_blocks(README, lambda *words: _command(patch, *words))
    return directory / "hardsight-demo", time.process_time() - start


def _command(patch: pytest.MonkeyPatch, *words: str) -> Finished:
    patch.setattr(sys, "argv", ["hardsight", *words])
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Finished(code, out.getvalue(), err.getvalue())


def test_it_is_made_of_runs_that_users_make_themselves(demo: tuple[Path, float]) -> None:
    assert demo[1] < 60  # seconds, for all of the README
    commands = {name: json.loads((demo[0] / name / "run.json").read_text())["command"] for name in PARTS}
    assert commands == {name: f"hardsight {command}" for name, command in PARTS.items()}
    assert (demo[0] / "model" / "model.safetensors").read_bytes() == (demo[0] / "train/model/model.safetensors").read_bytes()
    snapshot = Snapshot.load(demo[0])
    assert snapshot.class_names == [str(digit) for digit in range(10)]
    assert score(snapshot).equals(pq.read_table(demo[0] / "scores.parquet"))
    own, extracted = snapshot.in_memory(), Snapshot.load(demo[0] / "extract").in_memory()
    assert np.array_equal(own.values, extracted.values) and own.ids.tolist() == extracted.ids.tolist()


def test_the_directory_holds_what_readme_lists(demo: tuple[Path, float]) -> None:
    directory = demo[0]
    names = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    parts = ("images/", "train/", "extract/", "degraded/", "adapt/", "clean/", ".")
    assert {name for name in names if not name.startswith(parts)} == {
        *("start.json", "run.json", "head.safetensors", "scores.parquet", "degraded.parquet", "people.parquet", "report.html"),
        *("samples/part-00000.parquet", "model/model.safetensors", "model/config.json"),
        *(f"figures/{name}.png" for name in ("contrast", "noise")),
    }
    samples = pq.read_table(directory / "samples" / "part-00000.parquet")
    assert samples.column_names[:4] == ["id", "label", "split", "path"] and samples.column_names[-1] == "features"
    assert set(samples.column("split").to_pylist()) == {"test"} and len(samples) == 600
    for path in samples.column("path").to_pylist()[:5]:
        with Image.open(directory / path) as image:
            assert image.size == (8, 8)
    assert pq.read_schema(directory / "scores.parquet").names[:4] == ["id", "label", "predicted", "status"]
    with Image.open(directory / "figures" / "noise.png") as picture:
        assert min(picture.size) > 300


def test_people_are_predicted_from_a_third_of_the_answers(demo: Any) -> None:
    learned = predicted_people(demo[0])
    assert (learned["answered"], learned["predicted"]) == (200, 400)
    assert learned["agreement"] > max(0.4, learned["without_answers"] + 0.3)


def test_scores_follow_the_level_of_degradation(demo: tuple[Path, float], cli: Callable[..., Any]) -> None:
    found = against_degradation(demo[0])
    assert [(one.target.words, one.n) for one in found.agreements] == [("contrast level", 3000), ("noise level", 3000)]
    table = pq.read_table(demo[0] / "degraded.parquet")
    for one in found.agreements:
        rows = np.flatnonzero(np.array(table.column("degradation").to_pylist()) == one.target.key)
        raw = spearmanr(table.column("avh").to_numpy()[rows], table.column("level").to_numpy()[rows]).statistic
        assert one.single("avh")["raw"] == pytest.approx(raw) and one.single("avh")["agreement"] > 0.2
    done = cli("correlate", demo[0] / "degraded.parquet", "--against", "level", "--replicates", 40, "--permutations", 40)
    assert done.code == 0 and "demo" not in done.err


def test_self_training_helps_on_faint_digits(demo: tuple[Path, float]) -> None:
    before, after = before_and_after(demo[0])
    faint = pq.read_table(demo[0] / "degraded.parquet").to_pandas().query("degradation == 'contrast' and level == 0.2")
    hits = (faint.label == faint.predicted).groupby(faint.label).mean()
    assert before == pytest.approx(hits.mean())  # adapting begins with the network that was scored, on the same images
    assert after > before + 0.05
    folder = demo[0] / "adapt" / "source-to-target" / "seed=0"
    told = pq.read_table(folder / "cbst+avh" / "predictions.parquet").to_pandas()
    assert (told.label == told.predicted).groupby(told.label).mean().mean() == pytest.approx(after)
    assert (demo[0] / "adapt" / "report.html").is_file()


def test_labels_made_wrong_are_found(demo: tuple[Path, float]) -> None:
    found = found_errors(demo[0])
    assert (found["samples"], found["wrong"]) == (600, 60)
    samples = pq.read_table(demo[0] / "clean" / "samples" / "part-00000.parquet").to_pandas().set_index("id")
    suspects = pq.read_table(demo[0] / "clean" / "suspects.parquet").to_pandas().set_index("id")
    wrong, flagged = samples.label != samples.true_label, suspects.is_label_issue[samples.index]
    assert found["flagged"] == flagged.sum() and found["right"] == (wrong & flagged).sum()
    assert found["precision"] > 0.9 and found["recall"] > 0.75
    said = re.search(r"60 of 600 labels changed: hardsight clean flags (\d+), ", README.read_text("utf-8"))
    assert said is not None and abs(int(said[1]) - found["flagged"]) <= 10  # other machines round otherwise


def test_run_json_is_right_about_its_parts(demo: tuple[Path, float], cli: Callable[..., Any]) -> None:
    directory = demo[0]
    run = json.loads((directory / "run.json").read_text())
    assert run["counts"]["samples"] == 600 and run["counts"]["accuracy"] >= 0.97
    assert cli("score", directory, "--top", 3).code == 0  # scoring it again changes nothing
    assert {part["name"] for part in run["parts"]} >= {"samples/part-00000.parquet", "head.safetensors"}
    for part in run["parts"]:
        assert sha256(directory / part["name"]) == part["sha256"], part["name"]


def test_a_killed_demo_is_resumed_to_the_same_numbers(
    demo: tuple[Path, float], tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    # What the first demo trained is taken as done: that a seed trains the same network twice is tested with `train`.
    (tmp_path / "again").mkdir()
    shutil.copy(demo[0] / "start.json", tmp_path / "again")
    shutil.copytree(demo[0] / "train", tmp_path / "again" / "train")
    with monkeypatch.context() as patch, undrawn():  # the figures are made again
        patch.setattr("hardsight.render.showing.as_page", killed)  # the rounds are done, the run is not
        with pytest.raises(KeyboardInterrupt) as caught:
            run_demo(tmp_path / "again")
    assert caught.value.__notes__ == [f"{tmp_path / 'again'} keeps what is complete: run the same command again to resume."]
    assert not (tmp_path / "again" / "run.json").exists()
    rounds = tmp_path / "again" / "adapt" / "source-to-target" / "seed=0" / "cbst+avh" / "rounds.json"
    before = rounds.stat().st_mtime_ns
    with undrawn("noise"):  # which is compared
        done = cli("demo", "-o", tmp_path / "again")
    assert rounds.stat().st_mtime_ns == before  # what was done is not done again
    assert done.code == 0 and "n = 600   c = 10   accuracy = " in done.out and "hardest 10 by avh" in done.out
    assert done.out.strip().splitlines()[-1].split()[1] == str(tmp_path / "again" / "report.html")
    tables = [f"{name}.parquet" for name in ("scores", "degraded", "samples/part-00000", "adapt/rounds", "clean/suspects")]
    for name in (*tables, "figures/noise.png"):
        assert sha256(tmp_path / "again" / name) == sha256(demo[0] / name), name
    heads = [load_head(directory / "head.safetensors") for directory in (demo[0], tmp_path / "again")]
    np.testing.assert_array_equal(heads[0][0].weight, heads[1][0].weight)


def test_a_complete_run_is_only_shown_and_another_seed_refused(demo: tuple[Path, float], cli: Callable[..., Any]) -> None:
    start = time.process_time()
    done = cli("demo", "-o", demo[0])
    assert done.code == 0 and "hardest 10 by avh" in done.out and time.process_time() - start < 3
    assert "n = 600   c = 10   accuracy = 9" in done.out and "at a fifth of the contrast: 6" in done.out
    with pytest.raises(RunError, match="seed was 0 and is 1"):
        run_demo(demo[0], seed=1)

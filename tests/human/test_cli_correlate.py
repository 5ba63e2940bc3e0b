"""`hardsight correlate`: what it prints, writes and rejects."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import hardsight
from agreement_data import COUNTS, FEATURES, FEW, FREQUENCY, IDS, LABELS, SNAPSHOT, TABLE, WEIGHT, C, D, degraded
from hardsight import Snapshot
from hardsight.screen import ShownTable
from hardsight.table import write_table
from undrawn import undrawn

Cli = Callable[..., Any]
QUICK = ("--replicates", 40, "--permutations", 40, "--splits", 5)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a snapshot and human answers."""
    SNAPSHOT.save(tmp_path / "net.npz")
    np.save(tmp_path / "counts.npy", COUNTS)
    np.save(tmp_path / "frequency.npy", FREQUENCY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_screen_says_it_all(cli: Cli, here: Path) -> None:
    done = cli("correlate", "net.npz", "--human", "counts.npy", *QUICK, "--verbose")
    assert done.code == 0 and done.err == ""
    found = hardsight.correlate(SNAPSHOT, COUNTS, replicates=40, permutations=40, splits=5)
    row = found.agreement().single("avh")
    assert "net against selection frequency: n = 300, hard where low, accuracy" in done.out
    assert re.search(rf"avh +\+{row['agreement']:.3f} +\[\+{row['bootstrap_low']:.3f}, \+{row['bootstrap_high']:.3f}\]", done.out)
    for word in ("[0.8, 1]", "Williams", "Steiger", "Meng", "Holm p", "permut. p", "H1", "H2", "H3", "H4", "ECE"):
        assert word in done.out
    assert sorted(path.name for path in here.iterdir()) == ["counts.npy", "frequency.npy", "net.npz"]  # nothing unless asked
    assert "nan" not in done.out.lower()


def test_the_directory_has_json_csv_latex_and_figures(cli: Cli, here: Path) -> None:
    (here / "images").mkdir()
    for one in IDS[:-1]:
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(here / "images" / f"{one}.png")
    pq.write_table(pa.table({"id": IDS, "path": [f"{one}.png" for one in IDS]}), here / "images" / "index.parquet")
    words: list[Any] = ["correlate", "net.npz", "--human", "counts.npy", *QUICK, "--images", "images/index.parquet"]
    words += ["--scores", "avh,confidence,norm", "--top", 3]
    done = cli(*words, "-o", "out")
    assert done.code == 0 and "wrote out" in done.out, done.err
    names = {path.relative_to(here / "out").as_posix() for path in (here / "out").rglob("*") if path.is_file()}
    assert names - {".lock"} == {
        "start.json", "run.json", "correlations.json", "table1.csv", "pairs.csv", "hypotheses.csv", "models.csv", "ceilings.csv",
        "calibration.csv", "disagreement.csv", "table1.tex", "pairs.tex", "report.html",
        "figures/net-frequency.png", "figures/net-reliability.png", "figures/net-disagreement.png",
    }  # fmt: skip
    page = (here / "out" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3 and "http" not in page.replace("http-equiv", "") and "<script" not in page
    assert "<summary>Tables 2 and 6 to 9" in page and "permutations" in page and "selection frequency" in page
    assert "--images images/index.parquet --scores avh,confidence,norm --top 3 -o out</pre>" in page  # how to do it again
    told = json.loads((here / "out" / "correlations.json").read_text())
    rows = list(csv.DictReader((here / "out" / "table1.csv").read_text().splitlines()))
    assert len(rows) == len(told["table1"]) and float(rows[0]["agreement"]) == pytest.approx(told["table1"][0]["agreement"])
    assert len(told["pairs"]) == 9 and told["calibration"][0]["before"]["ece"] > 0
    assert told["disagreement"][0]["counts"].keys() == {
        "easy for both", "hard for both", "easy for people, hard for the model", "hard for people, easy for the model",
    }  # fmt: skip
    for name in names:
        if name.endswith(".png"):
            with Image.open(here / "out" / name) as picture:
                assert min(picture.size) > 300
    before = {name: (here / "out" / name).read_bytes() for name in names if name not in ("run.json", ".lock")}
    assert cli(*words, "-o", "out").code == 0  # the same command writes the same bytes
    assert {name: (here / "out" / name).read_bytes() for name in before} == before
    other = cli(*words, "--seed", 1, "-o", "out")
    assert other.code == 2 and "seed was 0 and is 1" in other.err and other.out == ""  # before any work


def test_everything_at_once(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.human.correlate.DEFAULT_SCORES", ("avh", "confidence", "norm"))  # fewer to draw
    rng = np.random.default_rng(5)
    other = Snapshot(FEATURES, WEIGHT + 0.2 * rng.normal(size=(C, D)), LABELS, ids=IDS)
    other.save(here / "other.npz")
    with undrawn("models"):  # those of the other model, and what any study has, are alike
        done = cli(
            "correlate", "net.npz", "other.npz", "--human", "counts.npy", *QUICK, "--group", "label",
            "--bins", "0,0.5,1", "--level", 0.9, "--top", 3, "-o", "out", "-v",
        )  # fmt: skip
    assert done.code == 0, done.err
    for words in ("Models side by side", "ensemble", "Within groups", "90 %"):
        assert words in done.out, words
    names = {path.name for path in (here / "out").rglob("*") if path.is_file()}
    assert {"models.png", "groups.csv"} <= names
    told = json.loads((here / "out" / "correlations.json").read_text())
    assert {row["model"] for row in told["groups"]} == {"net", "other"}


def test_degradation_levels(cli: Cli, here: Path) -> None:
    write_table(degraded(), here / "degraded.parquet")
    done = cli("correlate", "degraded.parquet", "--against", "level", "--scores", "avh,norm", *QUICK, "-o", "out")
    assert done.code == 0 and "against contrast level" in done.out and "against noise level" in done.out
    assert "copies of the same images" in done.out and "hard for people" not in done.out
    assert {path.name for path in (here / "out" / "figures").iterdir()} == {"degraded-contrast.png", "degraded-noise.png"}


def test_epochs_of_a_run_in_python(here: Path) -> None:
    run = here / "run"
    (run / "dynamics").mkdir(parents=True)
    write_table(TABLE, run / "scores.parquet")
    for epoch in (1, 2, 10):
        columns = TABLE.select(["id", "label", "avh", "norm", "confidence"])
        pq.write_table(columns, run / "dynamics" / f"epoch={epoch:04d}.parquet")
    found = hardsight.correlate("run", "counts.npy", output="out", scores="avh,norm", epochs=True, **FEW)
    (shown,) = [item for item in found.lines() if isinstance(item, ShownTable) and item.name == "epochs"]
    assert [row[0] for row in shown.rows] == ["1", "2", "10"] and found.run == Path("out")
    assert {path.stem for path in Path("out/figures").iterdir()} == set(found.figures()) == {"run-frequency", "epochs"}
    assert {path.stem for path in Path("out").glob("*.csv")} == {name for name, table in found.tables().items() if len(table)}


def test_a_table_of_scores_alone_is_enough(cli: Cli, here: Path) -> None:
    write_table(TABLE.select(["id", "label", "predicted", "status", "avh", "confidence"]), here / "scores.csv")
    done = cli("correlate", "scores.csv", "--human", "frequency.npy", *QUICK)
    assert done.code == 0 and "confidence" in done.out and "calibration" not in done.out


def test_names_cannot_paint_the_terminal(cli: Cli, here: Path) -> None:
    names = ["\x1b[31mant", "bee\u202e", "cat", "dog"]
    Snapshot(FEATURES, WEIGHT, LABELS, ids=IDS, class_names=names).save(here / "loud.npz")
    done = cli("correlate", "loud.npz", "--human", "counts.npy", *QUICK, "--group", "label")
    assert done.code == 0 and "\x1b" not in done.out and "\u202e" not in done.out


def test_groups_of_models_with_other_scores(cli: Callable[..., Any], tmp_path: Path) -> None:
    """Features have angles, probabilities do not: their cells stay empty."""
    rng, labels = np.random.default_rng(0), np.arange(60) % 3
    features = 2 * np.eye(3)[labels] + rng.normal(size=(60, 3))
    np.savez(tmp_path / "a.npz", features=features, labels=labels, weight=np.eye(3))
    np.savez(tmp_path / "b.npz", probs=rng.dirichlet(np.ones(3), 60), labels=labels)
    np.save(tmp_path / "human.npy", rng.integers(1, 9, (60, 3)))
    done = cli("correlate", tmp_path / "a.npz", tmp_path / "b.npz", "--human", tmp_path / "human.npy", "--group", "label", *QUICK)
    assert done.code == 0 and "Spearman" in done.out, done.err

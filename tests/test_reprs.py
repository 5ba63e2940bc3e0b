"""What objects say of themselves: one screen, no memory addresses, no matrices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hardsight
from hardsight import Head, Snapshot
from hardsight.attacks import Attack
from hardsight.domains.adapt_result import Adapted
from hardsight.domains.generalize_result import Generalized
from hardsight.training.results import Trained

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(3, 8))
LABELS = RNG.integers(0, 3, 200)
FEATURES = WEIGHT[LABELS] + RNG.normal(size=(200, 8))
SNAPSHOT = Snapshot(FEATURES, WEIGHT, LABELS, class_names=["cat", "dog", "bird"], columns={"site": ["A", "B"] * 100})
ACCURACY = pa.table({"pair": ["a to b"] * 40, "method": [f"method {n}" for n in range(40)], "accuracy": [0.5] * 40})


def one_screen(thing: Any) -> str:
    text = repr(thing)
    lines = text.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 200, text
    assert not re.search(r"0x[0-9a-f]{6}|array\(\[|dtype=|\bobject at\b|pyarrow\.|ChunkedArray", text), text
    assert not re.search(r"\[\[|\n *\[", text), text  # no matrix
    assert str(thing) == text
    return text


def test_heads_and_snapshots(tmp_path: Path) -> None:
    SNAPSHOT.save(tmp_path / "saved.npz")
    gaussian = Head("gaussian", WEIGHT[:1], log_variance=np.zeros(8), log_prior=np.zeros(1))
    for thing, words in (
        (Head("linear", WEIGHT, bias=np.zeros(3)), ("linear", "3 classes", "8 features", "bias")),
        (Head("cosine", WEIGHT, scale=16.0), ("cosine", "scale 16")),
        (gaussian, ("gaussian", "1 class,", "log_variance", "log_prior")),
        (SNAPSHOT, ("200 samples", "8 features", "3 classes", "id, label, site", "cat, dog, bird")),
        (Snapshot(logits=np.zeros((1, 4))), ("1 sample,", "4 logits", "no labels", "4 classes")),
        (Snapshot.load(tmp_path / "saved.npz"), (str(tmp_path / "saved.npz"),)),
        (Snapshot(np.eye(2), columns={f"column {n}": [0, 1] for n in range(500)}), (" more",)),
    ):
        text = one_screen(thing)
        assert all(word in text for word in words), text


def test_correlations_and_trainings(tmp_path: Path) -> None:
    result = hardsight.correlate(SNAPSHOT, RNG.random(200), replicates=20)
    assert re.search(r"avh +-?[\d.]+ +-?[\d.]+ +-?[\d.]+", one_screen(result))
    first = result.agreements[0]
    for inner in (first, first.target, result.models[0], result.calibration(), result.disagreement()):
        one_screen(inner)
    history = [{"epoch": 3, "lr": 0.1, "train": {"accuracy": 0.75, "avh": 0.2}, "test": {"accuracy": 0.5, "avh": 0.3}}]
    text = one_screen(Trained(tmp_path, Head("linear", WEIGHT), history))
    assert re.search(r"train +3 +0\.75 +0\.2\n +test +3 +0\.5 +0\.3\n", text)
    one_screen(Trained(tmp_path, Head("linear", WEIGHT), []))


def test_domains_and_attacks(tmp_path: Path) -> None:
    rounds = ACCURACY.append_column("seed", pa.array([0] * 40))
    text = one_screen(Adapted(tmp_path, dict.fromkeys(Adapted.files, ACCURACY) | {"rounds": rounds}))
    assert "Adapted: 40 rows" in text and "method 0" in text
    losses = pa.table({"loss": ["avh"], "selection": ["last"], "photo": [0.5], "photo std": [0.1], "average": [0.6]})
    epochs = pa.table({"loss": ["avh"], "domain": ["photo"], "seed": [0], "scale": pa.array([None], pa.float64())})
    text = one_screen(Generalized(tmp_path, dict.fromkeys(Generalized.files, losses) | {"epochs": epochs}))
    assert re.search(r"avh +last +0\.5 +0\.1 +0\.6", text)
    assert "method 0" in one_screen(Attack(tmp_path, dict.fromkeys(Attack.files, ACCURACY), counts={}))


def test_tables_of_clean_select_audit_and_drift() -> None:
    wrong = LABELS.copy()
    wrong[:5] = (wrong[:5] + 1) % 3
    suspects = hardsight.clean(features=FEATURES, labels=wrong, head=WEIGHT)
    text = one_screen(suspects)
    assert re.match(r"Suspects: 200 rows, 11 columns: \d+ ", text) and "first 10 by error_score" in text
    most = suspects["id"][int(np.argmax(suspects["error_score"]))].as_py()
    rows = text.partition("first 10 by error_score")[2].splitlines()[2:]  # after the names of the columns
    assert rows[0].split()[0] == str(most)
    chosen = hardsight.select(SNAPSHOT, budget=20)
    assert one_screen(chosen).startswith("Subset: 20 rows, 2 columns")
    groups = one_screen(hardsight.audit(SNAPSHOT, group="site"))
    assert "group" in groups and "accuracy" in groups
    one_screen(hardsight.drift(SNAPSHOT, Snapshot(FEATURES + 0.1, WEIGHT, LABELS)))
    one_screen(hardsight.curriculum(SNAPSHOT))


def test_some_columns_of_a_result_and_an_error_in_a_notebook() -> None:
    few = hardsight.score(SNAPSHOT)[["id", "avh"]]
    assert few.column_names == ["id", "avh"] and len(few) == 200
    assert hardsight.errors.InputError("no labels.")._render_traceback_() == ["InputError: no labels."]  # IPython asks for it

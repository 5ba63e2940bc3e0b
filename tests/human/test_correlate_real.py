"""CIFAR-10H: human answers about 10,000 images against two published networks. The figures of docs/human-agreement.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from hardsight import stats
from real_data import real

ROOT = Path(__file__).resolve().parents[2]


def test_how_well_people_agree_among_themselves() -> None:
    counts = np.load(real("cifar10h_counts.npy"), allow_pickle=False)
    with np.load(real("cifar10_test.npz"), allow_pickle=False) as arrays:
        labels = arrays["labels"]
    for kind, half, ceiling in (("spearman", 0.542, 0.839), ("pearson", 0.869, 0.964)):
        found = stats.noise_ceiling(counts, labels, kind=kind, splits=30)  # type: ignore[arg-type]
        assert found.split_half == pytest.approx(half, abs=0.0015) and found.ceiling == pytest.approx(ceiling, abs=0.0015)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder, data = tmp_path_factory.mktemp("runs"), real("cifar10_test.npz")
    for layers in (20, 32):
        weights = real(f"cifar10_resnet{layers}.safetensors")
        net = f"hardsight.models.networks:cifar_resnet{layers}"
        hardsight.extract(net, data, folder / f"resnet{layers}", weights=weights, split="test")
    return folder


@pytest.mark.slow
def test_two_networks_against_people(runs: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]) -> None:
    counts = real("cifar10h_counts.npy")
    monkeypatch.chdir(runs)
    words = ("correlate", "resnet20", "resnet32", "--human", counts, "--images", real("cifar10_test.npz"), "-o", "agreement")
    done = cli(*words, "--verbose")
    assert done.code == 0, done.err
    found = hardsight.correlate(
        [runs / "resnet20", runs / "resnet32"], counts, scores="avh,angular_gap,confidence", replicates=200
    )
    expected = {  # Spearman and Pearson
        "resnet20": {"avh": (0.359, 0.355), "angular_gap": (0.363, 0.375), "confidence": (0.365, 0.309)},
        "resnet32": {"avh": (0.325, 0.356), "angular_gap": (0.346, 0.380), "confidence": (0.346, 0.327)},
    }
    for model, scores in expected.items():
        for name, both in scores.items():
            told = [found.agreement(model).single(name, kind)["agreement"] for kind in ("spearman", "pearson")]  # type: ignore[arg-type]
            assert told == pytest.approx(both, abs=0.0006), (model, name)
    verdict = {(row["model"], row["hypothesis"]): row["verdict"] for row in found.tables()["hypotheses"].to_pylist()}
    assert verdict["resnet20", "H3"] == "null not rejected" and verdict["resnet32", "H3"] == "null rejected, the other way"
    check_the_page(done.out)


def check_the_page(said: str) -> None:
    """Every line of console output on the page is a line of the real output; omissions are marked by dots."""
    page = (ROOT / "docs" / "human-agreement.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n((?:2 models|resnet20) against selection frequency.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    lines = {" ".join(line.split()) for line in said.splitlines()}
    for line in "".join(blocks).splitlines():
        shown = " ".join(line.split())
        assert not shown or shown == "..." or shown in lines, shown


@pytest.mark.slow
def test_people_learn_from_2000_answers(runs: Path) -> None:
    """On the 8,000 other images: Spearman above that of plain ridge (0.439 with the flip pass) less chance, and of any score."""
    counts = np.load(real("cifar10h_counts.npy"), allow_pickle=False)
    snapshot = hardsight.Snapshot.open(runs / "resnet20")
    frequency = stats.selection_frequency(counts, snapshot.labels)
    asked, rest = np.split(np.random.default_rng(0).permutation(len(counts)), [2000])
    found = hardsight.people(snapshot, {"id": snapshot.ids[asked].tolist(), "counts": counts[asked].tolist()})
    assert stats.spearman(found["predicted_frequency"].to_numpy()[rest], frequency[rest]) == pytest.approx(0.439, abs=0.004)
    assert found.agreement["hardness"] == pytest.approx(0.377, abs=0.004) and found.curve[0][1] < found.curve[-1][1]

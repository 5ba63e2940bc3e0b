"""Neural collapse, uniformity, tolerance and cosines: by hand, by plain formulas, and over the epochs of a training."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from hardsight import Dynamics, Snapshot
from hardsight.dynamics import neural_collapse, tolerance, uniformity
from hardsight.dynamics.collapse import Labeled, measured_cosines
from hardsight.dynamics.description import read_epochs
from hardsight.dynamics.kept_features import KeptFeatures, from_bytes, hashes, to_bytes
from hardsight.errors import InputError
from oracles import on_circle


def cloud(n: int = 60, d: int = 5, c: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, c, n)
    weight = rng.normal(size=(c, d))
    return rng.normal(size=(n, d)) + 2 * weight[labels] + 7, labels, weight


def test_a_simplex_has_collapsed() -> None:
    """Three classes at 120 degrees, each a single point: all metrics are at their extremes, wherever the center is."""
    corners = on_circle(90, 210, 330)
    measures = neural_collapse(features=np.repeat(corners, 4, axis=0), labels=np.repeat(range(3), 4), head=5 * corners)
    np.testing.assert_allclose([*measures.values()], [0, 0, 0, 0, 1], atol=1e-12)
    moved = neural_collapse(features=np.repeat(corners, 4, axis=0) + 3, labels=np.repeat(range(3), 4))
    np.testing.assert_allclose([moved[name] for name in ("nc1", "nc2")], 0, atol=1e-12)
    assert np.isnan(moved["nc3"]) and np.isnan(moved["nc4"])  # no head


def test_against_the_formulas() -> None:
    """With covariance matrices and a pseudo-inverse, as in the papers; classes of different sizes have equal weight."""
    x, y, weight = cloud()
    c = 4
    mean = np.stack([x[y == k].mean(0) for k in range(c)])
    centered = mean - mean.mean(0)
    within = np.mean([np.cov(x[y == k].T, ddof=0) for k in range(c)], axis=0)
    between = centered.T @ centered / c
    simplex = (np.eye(c) - np.ones((c, c)) / c) / np.sqrt(c - 1)
    expected = {
        "nc1": np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / c,
        "nc1_quotient": np.trace(within) / np.trace(between),
        "nc2": np.linalg.norm(centered @ centered.T / np.linalg.norm(centered @ centered.T) - simplex),
        "nc3": np.linalg.norm(weight @ centered.T / np.linalg.norm(weight @ centered.T) - simplex),
        "nc4": np.mean((x @ weight.T).argmax(1) == np.array([np.argmin([np.linalg.norm(row - m) for m in mean]) for row in x])),
    }
    got = neural_collapse(Snapshot(x, weight, labels=y))
    assert got == pytest.approx(expected)
    cosine = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in x] for a in x])
    pairs = list(itertools.combinations(range(60), 2))
    same = [cosine[i, j] for i, j in pairs if y[i] == y[j]]
    other = [cosine[i, j] for i, j in pairs if y[i] != y[j]]
    assert tolerance(features=x, labels=y) == pytest.approx(np.mean(same))
    uniform = np.log(np.mean([np.exp(-2 * (2 - 2 * cosine[i, j])) for i, j in pairs]))
    assert uniformity(Snapshot(x)) == pytest.approx(uniform)  # labels are not needed
    measured, histograms = measured_cosines(Labeled(x, y), 60)
    assert histograms["positive_cosines"] == np.histogram(same, 40, (-1, 1))[0].tolist()
    assert histograms["negative_cosines"] == np.histogram(other, 40, (-1, 1))[0].tolist()
    assert (measured["positive_cosine"], measured["negative_cosine"]) == pytest.approx((np.mean(same), np.mean(other)))


def test_only_what_should_count_counts() -> None:
    x, y, weight = cloud()
    before = neural_collapse(features=x, labels=y, head=weight)
    order = np.random.default_rng(1).permutation(60)
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    assert neural_collapse(features=x[order], labels=y[order], head=weight) == pytest.approx(before)
    turned = neural_collapse(features=3 * x @ rotation, labels=y, head=weight @ rotation)
    assert turned == pytest.approx(before)
    lengths = np.random.default_rng(3).uniform(1e-3, 1e3, (60, 1))
    assert uniformity(features=x * lengths, labels=y) == pytest.approx(uniformity(features=x, labels=y))
    with_more = np.concatenate([x, x[:3] * np.nan, x[:2]]), np.concatenate([y, y[:3], [-1, -1]])
    assert neural_collapse(features=with_more[0], labels=with_more[1], head=weight) == pytest.approx(before)


def test_odd_cases() -> None:
    assert np.isnan([*neural_collapse(features=np.eye(3), labels=[0, 0, 0]).values()]).all()  # one class
    same_means = neural_collapse(features=np.ones((4, 2)), labels=[0, 0, 1, 1])
    assert np.isnan(same_means["nc1"])
    assert np.isnan(tolerance(features=np.eye(3), labels=[0, 1, 2]))  # no pair
    assert uniformity(features=on_circle(0, 180), t=1000) == pytest.approx(-4000)  # nothing underflows
    for function in (neural_collapse, tolerance):
        with pytest.raises(InputError, match="no sample has a label"):
            function(Snapshot(np.eye(3)))
        with pytest.raises(InputError, match="there are only logits"):
            function(Snapshot(logits=np.eye(3), labels=[0, 1, 2]))
        with pytest.raises(InputError, match="a snapshot holds features, .* got none of them"):
            function()


# ---- over the epochs ----


def trained(folder: Path) -> None:
    """Three epochs in which the classes shrink to points."""
    x, y, weight = cloud()
    with Dynamics(folder) as tracker:
        for epoch, width in enumerate((1.0, 0.5, 0.0), 1):
            for split in ("train", "test"):
                for rows in np.array_split(np.arange(60), 4):
                    features = 2 * weight[y[rows]] + width * (x[rows] - 7 - 2 * weight[y[rows]])
                    tracker.update(epoch, features, weight, y[rows], rows, split=split)


def test_epochs_have_the_measures_of_their_samples(tmp_path: Path) -> None:
    trained(tmp_path)
    x, y, weight = cloud()
    table = read_epochs(tmp_path, ["test"])
    assert table.column("epoch").to_pylist() == [1, 2, 3] and table.column("measured").to_pylist() == [60] * 3
    expected = neural_collapse(features=(x - 7).astype(np.float32), labels=y, head=weight)
    first = table.to_pylist()[0]
    assert {name: first[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert first["tolerance"] == pytest.approx(tolerance(features=x - 7, labels=y), rel=1e-4)
    assert first["uniformity"] == pytest.approx(uniformity(features=x - 7), rel=1e-4)
    assert sum(first["positive_cosines"]) + sum(first["negative_cosines"]) == 60 * 59 // 2
    nc1 = table.column("nc1").to_pylist()
    assert nc1[0] > nc1[1] > nc1[2] == pytest.approx(0, abs=1e-6) and table.column("tolerance")[2].as_py() == pytest.approx(1)


@pytest.mark.usefixtures("undrawn")
def test_what_the_command_says_and_writes(tmp_path: Path, cli: Callable[..., Any]) -> None:
    trained(tmp_path)
    done = cli("dynamics", tmp_path, "--table", tmp_path / "epochs.parquet", "--json")
    assert done.code == 0, done.err
    assert "collapse at epoch 3, of 60 samples: NC1 " in done.err and ", tolerance 1, mean cosine 1 within" in done.err
    assert "dynamics-test-collapse.png" in done.err
    table = pq.read_table(tmp_path / "epochs.parquet")
    measures = {"nc1", "nc2", "nc3", "nc4", "uniformity", "tolerance", "positive_cosines", "negative_cosines"}
    assert {"split", "epoch", "accuracy", *measures} <= set(table.column_names)
    assert all(table[name].null_count == 0 for name in measures)
    document = json.loads(done.out)
    rows = [row for row in document["tables"]["epochs"] if row["split"] == "test"]
    assert [row["epoch"] for row in rows] == [1, 2, 3] and document["summary"]["test"]["samples"] == 60
    page = (tmp_path / "figures" / "report.html").read_text()
    assert str(tmp_path / "figures" / "report.html") in document["files"] and "every epoch" in page and "<script" not in page
    assert f"hardsight dynamics {tmp_path} --table {tmp_path / 'epochs.parquet'} --json</pre>" in page  # how to do it again
    assert "<th>nc1" in page and "collapse at epoch 3" in page
    assert document["summary"]["test"]["collapse"]["nc1"] == pytest.approx(0, abs=1e-6)
    assert cli("dynamics", tmp_path, "--table", tmp_path / "epochs.txt").code == 2
    assert cli("dynamics", tmp_path, "--split", "test", "--table", tmp_path / "epochs.csv").code == 0
    header = (tmp_path / "epochs.csv").read_text().splitlines()[0]
    assert '"nc1"' in header and "positive_cosines" not in header  # no lists in a CSV file


def test_the_same_few_samples_are_kept() -> None:
    rng = np.random.default_rng(0)
    x, labels, ids = rng.normal(size=(9000, 3)), rng.integers(0, 5, 9000), np.arange(9000)
    smallest = np.sort(np.argsort(hashes(ids), kind="stable")[:2048])
    for order in (ids, rng.permutation(9000)):
        kept = KeptFeatures()
        for start in range(0, 9000, 500):
            at = order[start : start + 500]
            kept.add(ids[at], labels[at], x[at])
        _, names, its_labels, features = kept.as_arrays()
        assert sorted(map(int, names)) == smallest.tolist()
        assert (its_labels == labels[names.astype(int)]).all()
        np.testing.assert_allclose(features, x[names.astype(int)], rtol=1e-6)
    other = from_bytes(to_bytes({"train": kept, None: KeptFeatures()}))
    assert other["train"].measures() == kept.measures() and other[None].measures() == {}

"""The map of the features: components against scikit-learn's, what is kept, slow maps in the background."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from explorer_runs import digits_run, half_done
from hardsight.errors import InputError
from hardsight.explorer import embedding_map
from hardsight.explorer.embedding_map import Maps
from hardsight.explorer.opening import open_display
from hardsight.files.checksums import own_checksum
from hardsight.head import Head
from hardsight.snapshot import Snapshot
from hardsight.stats import principal
from hardsight.stats.principal import principal_components

N = 300


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_run(tmp_path_factory.mktemp("maps") / "run", n=N, human=True)


# Principal components


@pytest.mark.parametrize("widest", [2048, 8])  # by the covariance, and by products of rows
def test_components_are_scikit_learns(monkeypatch: pytest.MonkeyPatch, widest: int) -> None:
    monkeypatch.setattr(principal, "WIDEST", widest)
    rows = np.random.default_rng(0).normal(size=(7, 12)) * np.geomspace(5, 0.1, 12) + 1000
    whole = np.vstack([rows[:3], np.full((1, 12), np.nan), rows[3:]])
    mine, theirs = principal_components([whole[:5], whole[5:]], 3), PCA(3, svd_solver="full").fit(rows)
    np.testing.assert_allclose(mine.mean, theirs.mean_, rtol=1e-9)
    np.testing.assert_allclose(mine.shares, theirs.explained_variance_ratio_, rtol=1e-5)
    sign = np.sign((mine.axes * theirs.components_).sum(axis=1))
    np.testing.assert_allclose(mine.axes * sign[:, None], theirs.components_, atol=1e-5)
    placed = mine.project(whole)
    np.testing.assert_allclose(np.delete(placed, 3, axis=0) * sign, theirs.transform(rows), atol=1e-4)
    assert np.isnan(placed[3]).all() and mine.num_rows == 7


def test_components_that_are_not_there() -> None:
    with pytest.raises(InputError, match="no row is finite"):
        principal_components([np.full((2, 3), np.nan)], 2)
    one = principal_components([np.array([[1.0], [3.0]])], 2)  # one column has one direction
    assert one.axes.tolist() == [[1.0], [0.0]] and one.project(np.array([[5.0]])).tolist() == [[3.0, 0.0]]
    same = principal_components([np.ones((4, 3), np.float32)], 2)
    assert same.project(np.ones((1, 3))).tolist() == [[0.0, 0.0]] and same.shares.tolist() == [0.0, 0.0]
    far = principal_components([np.array([[1e300, 0.0], [-1e300, 0.0]])], 1)  # squares would not fit
    assert far.axes.tolist() == [[1.0, 0.0]]


# What is kept


def finished(display: Any, method: str = "pca", **options: Any) -> Maps:
    """A map that is ready, or has failed."""
    every = Maps(display, **options)
    every.start(method)
    thread = every._made[method].thread
    if thread is not None:
        thread.join(30)
    return every


def made(display: Any, **options: Any) -> Maps:
    every = finished(display, **options)
    assert every.state("pca")["state"] == "ready", every.state("pca")
    return every


def test_a_map_is_kept_while_the_features_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = load_digits().data[:60]
    file = tmp_path / "photo.npz"
    Snapshot(features, Head("cosine", np.eye(3, 64), scale=5.0), np.arange(60) % 3).save(file)
    display = open_display(file)
    made(display, keep=False)
    kept = tmp_path / "photo.map-pca.parquet"
    assert not kept.exists()
    first = made(display).columns()["pca_1"].values
    table = pq.read_table(kept)
    assert own_checksum(kept) and table.column_names == ["id", "x", "y"]
    theirs = PCA(2, svd_solver="full").fit(features)
    np.testing.assert_allclose(np.abs(table.column("x")), np.abs(theirs.transform(features)[:, 0]), atol=1e-4)
    np.testing.assert_allclose(first, table.column("x"))
    with monkeypatch.context() as patched:
        patched.setattr(principal, "principal_components", None)  # nothing is computed
        said = f"{100 * theirs.explained_variance_ratio_[0]:.3g} % of the variance"
        assert made(display).columns()["pca_1"].unit == said
    kept.write_bytes(kept.read_bytes()[:-20])  # damaged: made anew
    made(display)
    assert own_checksum(kept)
    Snapshot(features + features**2, Head("cosine", np.eye(3, 64), scale=5.0), np.arange(60) % 3).save(file)
    again = made(open_display(file)).columns()["pca_1"].values
    assert not np.allclose(again, first)


def test_rows_of_the_display_that_have_no_features_have_no_place(run: Path) -> None:
    display = open_display(run)
    whole = made(display, keep=False).columns()["pca_2"].values
    display.snapshot_rows = np.array([5, -1, 0])
    part = made(display, keep=False).columns()["pca_2"].values
    np.testing.assert_array_equal(part, [whole[5], np.nan, whole[0]])


# The slow ones


def test_a_slow_map_of_a_subsample(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_map, "MOST_PLACED", {"tsne": 100, "umap": 100})
    monkeypatch.setattr(embedding_map, "SOON", 0.0)
    finish = Event()
    monkeypatch.setattr(embedding_map, "placed", half_done(finish))
    every = Maps(open_display(run), keep=False)
    every.start("tsne")
    while every.state("tsne")["share"] is None:
        time.sleep(0.01)
    state = every.state("tsne")
    assert state["state"] == "working" and state["share"] == 0.5 and state["left"] > 0 and state["columns"] == []
    finish.set()
    thread = every._made["tsne"].thread
    assert thread is not None
    thread.join(30)
    values = every.columns()["tsne_1"].values
    assert np.flatnonzero(np.isfinite(values)).tolist() == list(range(0, N, 3))
    centered = load_digits().data[:N] - load_digits().data[:N].mean(0)
    theirs = PCA(2, svd_solver="full").fit(centered).transform(centered)[::3, 0]
    np.testing.assert_allclose(np.abs(values[::3]), np.abs(theirs), atol=1e-3)  # what it starts from


@pytest.mark.parametrize(
    ("error", "state"), [(embedding_map.PlacingStopped("stopped."), "none"), (ValueError("no room\n in it"), "failed")]
)
def test_a_slow_map_that_ends_early(run: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, state: str) -> None:
    def placed(*_: Any) -> np.ndarray:
        raise error

    monkeypatch.setattr(embedding_map, "placed", placed)
    every = finished(open_display(run), "tsne", keep=False)
    assert every.state("tsne")["state"] == state
    assert every.state("tsne")["note"] == ("" if state == "none" else "The map could not be made: no room")
    monkeypatch.setattr(embedding_map, "FEWEST", N + 1)
    assert "needs at least 301 samples" in finished(open_display(run), "tsne", keep=False).state("tsne")["note"]


def test_no_features_no_map(tmp_path: Path) -> None:
    Snapshot(logits=np.eye(4), labels=np.arange(4)).save(tmp_path / "logits.npz")
    assert Maps(open_display(tmp_path / "logits.npz")).methods == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_a_slow_map_in_a_process_of_its_own(method: str) -> None:
    if method == "umap":  # compiles itself first: half a minute
        pytest.importorskip("umap", reason="UMAP is not installed: pip install umap-learn")
    rows, labels = load_digits(return_X_y=True)
    shares: list[float] = []
    places = embedding_map.placed(method, rows[:400].astype(np.float32), shares.append, lambda process: None)
    assert shares == sorted(shares) and shares[-1] == 1.0 and places.shape == (400, 2)
    nearest = np.argsort(((places[:, None] - places) ** 2).sum(-1), axis=1)[:, 1]
    assert (labels[:400][nearest] == labels[:400]).mean() > 0.9
    with pytest.raises(embedding_map.PlacingStopped):
        embedding_map.placed(method, np.tile(rows, (3, 1)).astype(np.float32), shares.append, lambda process: process.terminate())

"""Mining by angle: by hand, against all pairs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import hardsight
from hardsight import Snapshot
from hardsight.errors import InputError
from hardsight.scores import class_search
from hardsight.scores.class_search import Classed, Others, Own, search_classes
from oracles import on_circle
from refusals import refused

Cli = Callable[..., Any]


def cloud(n: int, d: int, c: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap; every vector of another length."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, c, n)
    return (rng.normal(size=(n, d)) + rng.normal(size=(c, d))[labels]) * rng.uniform(0.1, 9, (n, 1)), labels


def all_angles(features: np.ndarray) -> np.ndarray:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return np.arccos(np.clip(unit @ unit.T, -1, 1))


def test_by_hand() -> None:
    """Class 0 at 0 and 40 degrees, class 1 at 30 and 90, class 2 alone at 100: no anchor, but the negative of 90."""
    mined = hardsight.mine(features=on_circle(0, 40, 30, 90, 100), labels=[0, 0, 1, 1, 2], k=2)
    assert mined.anchor.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert mined.positive.tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    assert mined.negative.tolist() == [2, 3, 2, 3, 1, 0, 4, 1]
    assert np.rad2deg(mined.angle_positive).round(3).tolist() == [40, 40, 40, 40, 60, 60, 60, 60]
    assert np.rad2deg(mined.angle_negative).round(3).tolist() == [30, 90, 10, 50, 10, 30, 10, 50]
    assert mined.left_out["alone in their class"] == 1
    rows, same, angle = mined.pairs()
    assert rows.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3], [3, 4]]
    assert np.rad2deg(angle).round(3).tolist() == [40, 30, 90, 10, 50, 60, 10] and rows[same].tolist() == [[0, 1], [2, 3]]


def test_semihard_by_hand() -> None:
    """The positive of 0 is at 40 degrees; of 30, 50, 60 and 90, those at 50 and 60 are within 0.4 radians (23 degrees) of it."""
    features, labels = on_circle(0, 40, 30, 50, 60, 90), [0, 0, 1, 1, 1, 1]
    mined = hardsight.mine(features=features, labels=labels, k=2, kind="semihard", margin=0.4)
    assert mined.negative[mined.anchor == 0].tolist() == [3, 4]
    assert (mined.hardness < 0).all() and (mined.hardness > -0.4).all()
    nearest = hardsight.mine(features=features, labels=labels, k=2, kind="semihard", positive="nearest", margin=3)
    assert nearest.positive[nearest.anchor == 5].tolist() == [4, 4] and nearest.negative[nearest.anchor == 5].tolist() == [1, 0]


@pytest.mark.parametrize(("n", "d", "c", "side"), [(300, 6, 3, 64), (500, 9, 40, 128), (300, 4, 140, 64), (257, 3, 2, 64)])
def test_against_all_pairs(n: int, d: int, c: int, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of many shapes, classes within one and across several of them."""
    monkeypatch.setattr(class_search, "SIDE", side)
    features, labels = cloud(n, d, c)
    angle, same = all_angles(features), labels[:, None] == labels
    own = np.where(same & ~np.eye(n, dtype=bool), angle, -np.inf)
    expected = np.sort(np.where(same, np.inf, angle), axis=1)[:, :7]
    mined = hardsight.mine(features=features, labels=labels, k=7)
    anchors = np.flatnonzero(own.max(1) > 0)
    assert mined.anchor.tolist() == np.repeat(anchors, 7).tolist()
    assert mined.positive[::7].tolist() == own.argmax(1)[anchors].tolist()
    np.testing.assert_allclose(mined.angle_negative.reshape(-1, 7), expected[anchors], atol=1e-5)
    np.testing.assert_allclose(mined.angle_negative, angle[mined.anchor, mined.negative], atol=1e-5)
    assert (labels[mined.negative] != labels[mined.anchor]).all()
    semihard = hardsight.mine(features=features, labels=labels, k=7, kind="semihard")
    inside = (angle > own.max(1)[:, None] + 1e-6) & (angle < own.max(1)[:, None] + 0.2 - 1e-6) & ~same & (own.max(1) > 0)[:, None]
    counts = np.bincount(semihard.anchor, minlength=n)
    assert (np.abs(counts - np.minimum(inside.sum(1), 7)) <= 1).all() and counts.sum() > 0  # one on the edge may round


def test_ties_and_threads_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample several times: among equals the first of the lower class, whatever the threads do."""
    monkeypatch.setattr(class_search, "SIDE", 64)
    features, labels = np.repeat(on_circle(*range(0, 180, 12)), 20, axis=0), np.tile(np.arange(4), 75)
    tables = []
    for threads in ("1", "2", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        tables.append(hardsight.mine(features=features, labels=labels, k=5).table)
    assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])


def test_crowds_of_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """More candidates than are worth sorting one by one: the k best of each row and each column of the tile."""
    monkeypatch.setattr(class_search, "SIDE", 64)
    monkeypatch.setattr(class_search, "CROWD", 0)
    features, labels = cloud(200, 5, 4)
    unit = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32)
    samples = Classed.sort(unit, labels)
    others = Others(samples, 3)
    others.bound[:] = -np.inf  # everything counts at first
    search_classes(samples, Own(200), others)
    cosine = np.where(samples.code[:, None] == samples.code, -np.inf, samples.x @ samples.x.T)
    np.testing.assert_allclose(others.cosine, -np.sort(-cosine, axis=1)[:, :3], atol=1e-6)


def test_samples_that_cannot_be_anchors_are_counted() -> None:
    features, labels = cloud(40, 4, 3)
    features[0], features[1, 2], labels[2:5] = 0, np.nan, -1
    features[6] *= 1e-30
    features[7] *= 1e30
    mined = hardsight.mine(Snapshot(features, labels=labels, ids=[f"s{row}" for row in range(40)]), k=2)
    assert mined.left_out == {"unlabeled": 3, "without a direction": 2, "alone in their class": 0}
    assert {6, 7} <= set(mined.anchor.tolist()) and not {0, 1, 2, 3, 4} & set(
        np.concatenate([mined.anchor, mined.negative]).tolist()
    )
    assert mined.table.column("anchor")[0].as_py() == "s5"


def test_an_index_states_its_recall() -> None:
    pytest.importorskip("usearch")
    features, labels = cloud(600, 8, 7)
    mined = hardsight.mine(features=features, labels=labels, k=5, search="usearch")
    exact = hardsight.mine(features=features, labels=labels, k=5)
    assert mined.search == "usearch" and mined.recall is not None and mined.recall > 0.9
    assert (labels[mined.anchor] != labels[mined.negative]).all()
    found = len(set(zip(mined.anchor, mined.negative, strict=True)) & set(zip(exact.anchor, exact.negative, strict=True)))
    assert found / len(exact) == pytest.approx(mined.recall, abs=0.01)


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    features, labels = cloud(60, 5, 3)
    np.savez(tmp_path / "s.npz", features=features, labels=labels, split=np.repeat(["train", "test"], 30))
    done = cli("mine", tmp_path / "s.npz", "-k", "4", "-o", tmp_path / "triplets.parquet")
    assert done.code == 0 and "240 hard triplets of 60 anchors, k = 4   search: exact" in done.out, done.err
    table = pq.read_table(tmp_path / "triplets.parquet")
    assert table.column_names == ["anchor", "positive", "negative", "angle_positive", "angle_negative"]
    assert table.equals(hardsight.mine(tmp_path / "s.npz", k=4).table)
    done = cli("mine", tmp_path / "s.npz", "--pairs", "--split", "test", "--limit", "20", "-o", tmp_path / "pairs.csv")
    written = (tmp_path / "pairs.csv").read_text()
    assert done.code == 0 and f"{len(written.splitlines()) - 1} distinct pairs" in done.out, done.err
    assert written.startswith('"first","second","same_class","angle"')
    assert "nothing was written" in cli("mine", tmp_path / "s.npz").out
    assert len(hardsight.mine(tmp_path / "s.npz", limit=20, k=1).ids) == 20


@pytest.mark.parametrize(
    ("labels", "words", "said"),
    [
        ([0] * 6, [], "every label is the same class"),
        (range(6), [], "every class has a single sample"),
        ([-1] * 6, [], "no labels to mine by"),
        (None, [], "no labels to mine by"),
        ([0, 0, 0, 0, 1, 1], ["-k", "3"], "k must be at most 2, the samples of other classes than the largest one, got 3"),
        ([0, 0, 0, 1, 1, 1], ["-k", "0"], "k must be a whole number of 1 or more, got 0"),
        ([0, 0, 0, 1, 1, 1], ["--kind", "harder"], "kind must be one of hard, semihard"),
        ([0, 0, 0, 1, 1, 1], ["--split", "test"], "no split 'test'; splits: none"),
        ([0, 0, 0, 1, 1, 1], ["--kind", "semihard", "--search", "usearch", "-k", "1"], "semihard ones need --search exact"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, tmp_path: Path, labels: Any, words: list[str], said: str) -> None:
    arrays: dict[str, Any] = {} if labels is None else {"labels": np.array(labels)}
    np.savez(tmp_path / "s.npz", features=np.eye(6) + 0.1, **arrays)
    refused(cli("mine", tmp_path / "s.npz", "-o", tmp_path / "t.parquet", *words), said)
    assert not (tmp_path / "t.parquet").exists()
    with pytest.raises(InputError, match="there are only logits"):
        hardsight.mine(Snapshot(logits=np.eye(3), labels=[0, 1, 2]))
    with pytest.raises(InputError, match="labels"):
        hardsight.mine(Snapshot(np.eye(3), labels=[0, 1, 2]), labels=[0, 1, 2])


# ---- inside a batch ----


def test_a_miner_finds_the_same_in_a_batch() -> None:
    torch = pytest.importorskip("torch")
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    from hardsight.losses import ContrastiveLoss, TripletLoss
    from hardsight.subsets import AngleMiner

    features, labels = cloud(50, 6, 5)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    for options in ({"k": 3}, {"k": 2, "kind": "semihard"}, {"k": 2, "kind": "semihard", "positive": "nearest"}):
        mined = hardsight.mine(features=features, labels=labels, **options)
        a, p, n = AngleMiner(**options)(x, y)
        assert [a.tolist(), p.tolist(), n.tolist()] == [part.tolist() for part in (mined.anchor, mined.positive, mined.negative)]
    miner = AngleMiner()
    torch.testing.assert_close(TripletLoss(mining=miner)(x, y), TripletLoss(mining="hard")(x, y))
    assert float(peers.TripletMarginLoss()(x, y, miner(x, y))) > 0
    assert float(ContrastiveLoss(mining=miner)(x, y)) > 0
    a, p, n = AngleMiner(2)(x[:4], y[:4], ref_emb=x, ref_labels=y)  # the reference holds the anchors as well
    assert set(a.tolist()) == {0, 1, 2, 3} and (y[p] == y[:4][a]).all() and (y[n] != y[:4][a]).all()
    with pytest.raises(InputError, match="hard, semihard"):
        AngleMiner(kind="soft")
    with pytest.raises(InputError, match="a miner must return"):
        TripletLoss(mining=lambda x, y: x)(x, y)  # type: ignore[arg-type, return-value]


def test_a_memory_that_holds_the_batch_is_not_its_own_positive() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("pytorch_metric_learning")
    from hardsight.subsets import AngleMiner

    x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    memory = torch.cat([x.clone(), torch.tensor([[1.0, 0.2], [0.2, 1.0]])])
    anchor, positive, _ = AngleMiner(positive="nearest")(x, y, memory, torch.tensor([0, 1, 0, 1]))
    assert anchor.tolist() == [0, 1] and positive.tolist() == [2, 3]


def test_hard_mining_in_the_losses_by_hand() -> None:
    torch = pytest.importorskip("torch")
    from hardsight.losses import contrastive_loss, triplet_loss

    x, y = torch.from_numpy(on_circle(0, 40, 30, 90)), torch.tensor([0, 0, 1, 1])
    square = lambda degrees: 2 - 2 * np.cos(np.deg2rad(degrees))  # noqa: E731
    expected = [square(40) - square(30), square(40) - square(10), square(60) - square(10), square(60) - square(50)]
    losses = triplet_loss(x, y, mining="hard", reduction="none")
    np.testing.assert_allclose(losses.numpy(), np.maximum(np.array(expected) + 0.2, 0))
    # pairs: (0, 1) and (2, 3) of one class; 0-2, 1-2 and 1-3 of different ones, each once
    pairs = contrastive_loss(x, y, mining="hard", reduction="none").numpy()
    apart = [0.5 * max(0.0, 1 - np.sqrt(square(degrees))) ** 2 for degrees in (30, 10, 50)]
    np.testing.assert_allclose(pairs, [square(40) / 2, *apart, square(60) / 2])
    with pytest.raises(InputError, match="all, hard, or a miner"):
        contrastive_loss(x, y, mining="semihard")  # type: ignore[arg-type]

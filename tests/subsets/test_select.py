"""`select`: subsets by hand, by laws, against a plain loop, and from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hardsight
from explorer_runs import digits_run
from hardsight import Snapshot
from hardsight.errors import InputError
from hardsight.subsets.eligible import directions
from hardsight.subsets.methods import coverage, d2, k_center, neighbor_graph, shared_out, stratum_of, usual_cut
from hardsight.subsets.settings import Method, SelectSettings
from hardsight.table import write_table
from oracles import on_circle
from refusals import refused

Cli = Callable[..., Any]
METHODS = Method.__args__  # type: ignore[attr-defined]


def blobs(n: int = 120, c: int = 4, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of c classes around c axes, the head of these axes, and the labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % c
    return (3 * np.eye(d)[labels] + rng.normal(size=(n, d))).astype(np.float32), np.eye(d)[:c].astype(np.float32), labels


def chosen(table: pa.Table) -> list[Any]:
    assert table.column_names == ["id", "reason"]
    assert all(table.column("reason").to_pylist())
    ids: list[Any] = table.column("id").to_pylist()
    return ids


# ---- by hand ----


def test_hardest_easiest_and_what_to_label_by_hand() -> None:
    table = pa.table({"id": ["a", "b", "c", "d"], "avh": [0.2, 0.4, 0.1, None], "confidence": [0.9, 0.1, 0.5, 0.3]})
    assert chosen(hardsight.select(table, budget=2, method="hardest", by="avh")) == ["b", "a"]
    assert chosen(hardsight.select(table, budget=2, method="easiest", by="avh")) == ["c", "a"]
    assert chosen(hardsight.select(table, budget=2, method="hardest", by="confidence")) == ["b", "d"]  # low is hard
    probs = np.array([[0.5, 0.4, 0.1], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05]])
    assert chosen(hardsight.select(probs=probs, budget=2, method="margin")) == [0, 1]  # both 0.1: the smaller id
    assert chosen(hardsight.select(probs=probs, budget=2, method="entropy")) == [1, 0]
    head, features = on_circle(0, 90, 180), on_circle(10, 44, 89)
    assert chosen(hardsight.select(features=features, head=head, budget=1, method="avc")) == [1]  # between two classes


@pytest.mark.parametrize(
    "room, budget, shares",
    [([2, 10, 0, 10], 12, [2, 5, 0, 5]), ([1, 1, 1], 3, [1, 1, 1]), ([5, 5], 3, [1, 2]), ([3, 9, 4], 16, [3, 9, 4])],
)
def test_a_budget_is_shared_out(room: list[int], budget: int, shares: list[int]) -> None:
    assert shared_out(np.array(room), budget).tolist() == shares


def test_coverage_takes_all_of_small_strata_and_none_of_the_cut() -> None:
    harder = np.concatenate([np.linspace(0, 0.019, 90), [0.2, 0.4, 0.6], np.linspace(0.97, 1, 7)])  # crowded at the easy end
    rows, stratum = coverage(harder, 10, 0.07, np.random.default_rng(0))  # ten strata of width 0.06
    assert set(rows) >= {90, 91, 92}  # alone in their strata
    assert rows.max() < 93 and len(set(rows)) == 10  # the hardest seven are cut off
    assert (np.diff(stratum) >= 0).all()
    everything, _ = coverage(harder, 98, 0.5, np.random.default_rng(0))  # the budget goes before the cut
    assert len(set(everything)) == 98 and 99 not in everything
    assert len(set(stratum_of(np.ones(3), 50).tolist())) == 1
    assert [usual_cut(share) for share in (0.9, 0.5, 0.1)] == [0.0, 0.0, 0.3]


def test_k_center_by_hand() -> None:
    rows, cosines = k_center(on_circle(0, 10, 100, 190, 95).astype(np.float32), 3)
    assert rows.tolist() == [4, 3, 0]  # 95 is nearest to the mean direction, then the farthest from it, then from both
    np.testing.assert_allclose(np.rad2deg(np.arccos(cosines[1:])), [95, 95], rtol=1e-5)
    rows, _ = k_center(on_circle(0, 10, 100, 190, 95), 2, centers=on_circle(180))
    assert rows.tolist() == [0, 4]


def test_k_center_is_the_plain_greedy_loop() -> None:
    unit = directions(np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32))
    rows, _ = k_center(unit, 60)
    picked = [int(np.argmax(unit @ unit.mean(axis=0)))]
    while len(picked) < 60:
        nearest = (unit @ unit[picked].T).max(axis=1)
        nearest[picked] = np.inf
        picked.append(int(np.argmin(nearest)))
    assert rows.tolist() == picked


def test_d2_by_hand() -> None:
    neighbors, weight = np.array([[1], [0], [1]]), np.array([[0.5], [0.5], [0.0]])
    # hardness 1, 0.8, 0 -> scaled the same; after the messages 1.4, 1.3, 0; row 0 is taken and row 1 loses half of 1.4
    rows, left = d2(np.array([1.0, 0.8, 0.0]), neighbors, weight, 3)
    assert rows.tolist() == [0, 1, 2]
    np.testing.assert_allclose(left, [1.4, 0.6, 0.0])
    # the second hardest is a twin of the hardest, and a third sample elsewhere goes before it
    unit = on_circle(0, 0.1, 90, 91, 180)
    rows, _ = d2(np.array([1.0, 0.99, 0.7, 0.1, 0.0]), *neighbor_graph(unit, 1), 2)
    assert rows.tolist() == [0, 2]


def test_the_graph_is_that_of_all_pairs() -> None:
    unit = directions(np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32))
    rows, weight = neighbor_graph(unit, 3)
    cosine = (unit @ unit.T).astype(np.float64)
    np.fill_diagonal(cosine, -np.inf)
    assert (np.sort(rows, axis=1) == np.sort(np.argsort(-cosine, axis=1)[:, :3], axis=1)).all()
    np.testing.assert_allclose(weight, np.exp(-2 * (1 - np.take_along_axis(cosine, rows, 1))), rtol=1e-5)


# ---- laws ----


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_budget_whatever_the_order_of_rows(method: Any) -> None:
    features, head, labels = blobs()
    ids = np.array([f"s{row:03d}" for row in range(len(labels))])
    options: dict[str, Any] = {"head": head, "budget": 21, "method": method, "seed": 3}
    first = chosen(hardsight.select(features=features, labels=labels, ids=ids, **options))
    assert len(set(first)) == 21
    shuffle = np.random.default_rng(5).permutation(len(labels))
    assert chosen(hardsight.select(features=features[shuffle], labels=labels[shuffle], ids=ids[shuffle], **options)) == first
    per_class = chosen(hardsight.select(features=features, labels=labels, per_class=True, **options))
    assert sorted(np.bincount(labels[per_class])) == [5, 5, 5, 6]
    everything = chosen(hardsight.select(features=features, labels=labels, **{**options, "budget": len(labels)}))
    assert sorted(everything) == list(range(len(labels)))


def test_seeds_act_where_something_is_drawn() -> None:
    features, head, labels = blobs()
    draw = lambda method, seed: chosen(
        hardsight.select(features=features, head=head, labels=labels, budget=20, method=method, seed=seed)
    )
    for method in ("random", "balanced", "coverage"):
        assert draw(method, 0) != draw(method, 1) and draw(method, 0) == draw(method, 0)
    assert draw("hardest", 0) == draw("hardest", 1)
    assert np.bincount(labels[draw("balanced", 0)]).tolist() == [5, 5, 5, 5]


def test_unlabeled_samples_are_what_to_label_next() -> None:
    features, head, labels = blobs()
    labels = np.where(np.arange(len(labels)) < 60, labels, -1)
    for method in ("margin", "entropy", "avc"):
        assert min(chosen(hardsight.select(features=features, head=head, labels=labels, budget=10, method=method))) >= 60
    assert min(chosen(hardsight.select(features=features, labels=labels, budget=10, method="margin"))) >= 60  # a fitted head
    more: tuple[Any, ...] = ("coverage", "kcenter")
    for method in more:
        ids = chosen(hardsight.select(features=features, head=head, labels=labels, budget=10, method=method, unlabeled=True))
        assert min(ids) >= 60
    far = hardsight.select(features=on_circle(0, 20, 40, 60), labels=[0, -1, -1, -1], budget=2, method="kcenter", unlabeled=True)
    assert "degrees from" not in repr(far).splitlines()[0]  # reasons that are all different are not counted
    assert chosen(far) == [3, 1]  # farthest from the labeled one, which is a center already; then between the two
    assert max(chosen(hardsight.select(features=features, head=head, labels=labels, budget=10, method="hardest"))) < 60
    none = chosen(hardsight.select(features=features, head=head, budget=10, method="coverage"))  # by entropy
    assert len(none) == 10


def test_only_the_train_split_is_chosen_from() -> None:
    features, head, labels = blobs()
    splits = ["train" if row % 3 else "test" for row in range(len(labels))]
    snapshot = Snapshot(features, head, labels, columns={"split": splits})
    assert all(row % 3 for row in chosen(hardsight.select(snapshot, budget=50, method="random")))
    assert all(row % 3 == 0 for row in chosen(hardsight.select(snapshot, budget=20, method="random", split="test")))


def test_what_cannot_be_scored_is_left_out() -> None:
    features, head, labels = blobs()
    features[:5] = 0
    for method in ("coverage", "kcenter", "d2"):
        ids = chosen(hardsight.select(features=features, head=head, labels=labels, budget=115, method=method))
        assert min(ids) == 5
    huge = hardsight.select(features=features.astype(np.float64) * 1e200, budget=3, method="kcenter")  # directions all the same
    assert chosen(huge) == chosen(hardsight.select(features=features, budget=3, method="kcenter"))


def cost_curve(snapshot: Snapshot, **options: Any) -> Any:
    return hardsight.select(snapshot, curve=True, **options).curve


def test_the_curve_shows_what_is_lost() -> None:
    features, head, labels = blobs(400)
    snapshot = Snapshot(features, head, labels)
    curve = cost_curve(snapshot, settings=SelectSettings(budget=64, method="coverage"))
    rows = curve.table.to_pylist()
    assert [row["budget"] for row in rows if row["subset"] == "random"] == [8, 16, 32, 64]
    assert rows[-1]["subset"] == "all" and rows[-1]["budget"] == 320 and curve.tested_on == "80 samples held out at random"
    assert all(row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] for row in rows)
    assert rows[-1]["accuracy"] > 0.85
    assert cost_curve(snapshot, budget=64).table.equals(curve.table)
    at_random = cost_curve(snapshot, settings=SelectSettings(budget=64, method="random")).table.to_pylist()
    assert [row for row in rows if row["subset"] == "random"] == at_random[:4]  # the control is no choice of the method
    assert [row["accuracy"] for row in rows[:4]] != [row["accuracy"] for row in at_random[:4]]


FEATURES, HEAD, LABELS = blobs()
EARLY: dict[str, dict[str, Any]] = {
    "row 119 repeats 3 of row 3": {"features": FEATURES, "labels": LABELS, "ids": [*range(119), 3], "budget": 4},
    "class 3 has no samples to choose from": {
        "features": FEATURES, "labels": np.where(LABELS == 3, 4, LABELS), "budget": 8, "per_class": True
    },
}  # fmt: skip


def test_refused_before_a_head_is_fitted(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.snapshot.Snapshot.scores", None)
    for said, options in EARLY.items():
        with pytest.raises(InputError, match=said):
            hardsight.select(**options)
    write_table(pa.table({"id": [1], "label": [0], "predicted": [0], "status": ["ok"], "avh": [0.1]}), tmp_path / "s.parquet")
    curve = cli("select", tmp_path / "s.parquet", "--budget", "1", "--curve", "-o", tmp_path / "out.csv")
    refused(curve, "--curve fits heads to features")


def test_the_curve_of_small_budgets_and_rare_classes() -> None:
    features, head, labels = blobs(60)
    rare = np.where(labels == 3, 2, labels)
    rare[7] = 3  # one sample, which may be among those held out
    for seed in range(3):
        options = SelectSettings(budget=8, per_class=True, seed=seed)
        assert len(cost_curve(Snapshot(features, head, rare), settings=options).table) == 5  # 4 and 8 of each, and all
    few = cost_curve(Snapshot(features, head, labels), settings=SelectSettings(budget=2)).table.to_pylist()
    assert [row["budget"] for row in few] == [2, 2, 48]  # never more than the budget, though there are four classes


def test_tables_of_scores_in_memory_and_columns_of_a_run(tmp_path: Path) -> None:
    """A pandas frame is a table of scores too; what needs no score asks for none; a run's own columns are scores to go by."""
    bare = pd.DataFrame({"label": [0, 0, 1, 1]}, index=pd.Index(["a", "b", "c", "d"]))
    assert sorted(chosen(hardsight.select(bare, budget=4, method="random"))) == ["a", "b", "c", "d"]
    assert len(chosen(hardsight.select(bare, budget=2, method="balanced"))) == 2
    run = digits_run(tmp_path / "run", n=40)
    scores = pq.read_table(run / "scores.parquet")
    own = np.random.default_rng(0).permutation(40).astype(float)
    order = np.random.default_rng(1).permutation(40)
    write_table(scores.append_column("mine", pa.array(own)).take(pa.array(order)), run / "scores.parquet")
    ids = chosen(hardsight.select(run, budget=3, method="hardest", by="mine", split="test"))
    test = [row for row in range(40) if row % 5 == 4]
    assert [int(id) for id in ids] == sorted(test, key=lambda row: -own[row])[:3]


# ---- bad input, and the command line ----


ONE = pa.table({"id": [1], "avh": [0.1]})
ARRAYS = {"features": FEATURES, "head": HEAD, "labels": LABELS}
USABLE = np.where(np.arange(120)[:, None] < 5, 0, FEATURES)  # 115 of 120
UNLABELED = {"features": FEATURES, "head": HEAD, "budget": 1}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (ARRAYS | {"budget": 0}, "budget must be a whole number of 1 or more"),
    (ARRAYS | {"budget": 5, "by": "nix"}, "there is no score named 'nix'"),
    (ARRAYS | {"budget": 5, "method": "hardst"}, "Did you mean hardest"),
    (ARRAYS | {"budget": 5, "cut": 0.1, "method": "hardest"}, "--cut goes with --method coverage"),
    (ARRAYS | {"budget": 3, "method": "balanced"}, "too small for balanced: there are 4 classes"),
    (ARRAYS | {"budget": 9, "split": "val"}, "there is no split 'val'"),
    (ARRAYS | {"budget": 9, "by": "aum"}, "aum needs training dynamics"),
    (ARRAYS | {"budget": 9, "unlabeled": True, "method": "margin"}, "no unlabeled samples"),
    (ARRAYS | {"features": USABLE, "budget": 116, "method": "kcenter"}, "budget of 116 .* the 115 samples"),
    ({"features": 0 * FEATURES, "budget": 3, "method": "kcenter"}, "none of the 120 samples can be used: .*no direction"),
    (UNLABELED | {"by": "avh"}, "avh needs labels, and there are none; try --by entropy"),
    (UNLABELED | {"method": "margin", "per_class": True}, "per-class needs a label"),
    ({"features": FEATURES, "budget": 1, "method": "margin"}, "no head, and no labels"),
    ({"probs": np.full((5, 2), 0.5), "budget": 1, "method": "kcenter"}, "kcenter needs features"),
    ({"x": ONE, "budget": 1, "method": "d2"}, "needs features, and a table of scores has none"),
    ({"x": ONE, "budget": 1, "by": "loss"}, "no column 'loss'"),
    ({"x": pa.concat_tables([ONE, ONE]), "budget": 1, "by": "avh"}, "ids must be unique"),
    ({"x": pa.table({"id": [1], "avh": ["x"]}), "budget": 1, "by": "avh"}, "holds string"),
    ({"x": pd.DataFrame({"label": [0, 1]}, index=["a", "b"]), "budget": 1}, "no column 'avh'; it has id, label"),
    ({"x": pd.DataFrame({"id": ["a", 1], "avh": [0.1, 0.2]}), "budget": 1}, "one kind of value per column"),
    ({"x": 3, "budget": 1}, "features must be two-dimensional"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_bad_input_ends_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        hardsight.select(**options)
    assert "\n" not in str(error.value)


def test_the_command_writes_what_python_gives(tmp_path: Path, cli: Cli) -> None:
    features, head, labels = blobs()
    np.savez(tmp_path / "x.npz", features=features, weight=head, labels=labels)
    output = tmp_path / "subset.parquet"
    done = cli(
        "select", tmp_path / "x.npz", "--budget", 12, "--method", "hardest", "--curve", tmp_path / "curve.csv", "-o", output
    )
    assert done.code == 0 and "12 of 120 samples (10.0 %)   method hardest by avh" in done.out
    assert "--subset" in done.out and "tested on" in done.out and (tmp_path / "curve.csv").is_file()
    table = pq.read_table(output)
    expected = hardsight.select(tmp_path / "x.npz", budget=12, method="hardest")
    assert table.equals(expected.table) and json.loads(table.schema.metadata[b"hardsight"])["by"] == "avh"
    cli("score", tmp_path / "x.npz", "-o", tmp_path / "scores.csv")
    again = cli("select", tmp_path / "scores.csv", "--budget", 12, "--method", "hardest", "-o", tmp_path / "again.json")
    assert again.code == 0
    assert [row["id"] for row in json.loads((tmp_path / "again.json").read_text())] == chosen(table)
    np.savez(tmp_path / "new.npz", features=features, weight=head)
    to_label = cli("select", tmp_path / "new.npz", "--budget", 9, "--method", "margin", "-o", tmp_path / "to-label.csv")
    ids = chosen(hardsight.select(tmp_path / "new.npz", budget=9, method="margin"))
    shown = [line.split()[0] for line in to_label.out.splitlines() if "least sure, rank" in line]
    assert shown == [str(id) for id in ids[:5]] and "next:" not in to_label.out


def test_a_refused_command_writes_nothing(tmp_path: Path, cli: Cli) -> None:
    features, head, labels = blobs()
    np.savez(tmp_path / "x.npz", features=features, weight=head, labels=labels)
    for curve in (["--head", "nowhere.npz"], [tmp_path / "nowhere" / "curve.png"], [tmp_path / "subset.parquet"], ["curve.txt"]):
        refused(cli("select", tmp_path / "x.npz", "--budget", 5, "--curve", *curve, "-o", tmp_path / "subset.parquet"))
    assert cli("select", tmp_path / "x.npz", "--budget", 5, "-o", tmp_path / "x.npz").code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npz"]

"""`hardsight drift`: what got harder between two snapshots, by sample, by class and in the features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

from explorer_runs import digits_run, two_heads
from hardsight import InputError, Snapshot, avh, drift
from hardsight.act.groups.moving import features_moved
from hardsight.explorer.comparing import compare
from hardsight.explorer.opening import open_sheet

Cli = Callable[..., Any]
WEIGHT = np.eye(3, 8)


def clouds(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return WEIGHT[labels] * 2 + 0.7 * rng.normal(size=(n, 8)), labels


def notes_of(table: pa.Table) -> dict[str, Any]:
    return dict(json.loads(table.schema.metadata[b"hardsight"]))


def test_the_same_twice_is_no_drift() -> None:
    features, labels = clouds()
    table = drift(Snapshot(features, WEIGHT, labels), Snapshot(features, WEIGHT, labels))
    assert not any(table["harder"].to_pylist()) and set(table["change"].to_pylist()) == {0.0}
    notes = notes_of(table)
    assert notes["features_moved"]["told"]["share"] == 0.5 and notes["features_moved"]["told"]["p"] == 1.0
    assert {row["verdict"] for row in notes["classes"]} == {"no change found"}


def test_what_moved_is_what_got_harder() -> None:
    """Samples of class 1 turn towards class 2; the rows of the second snapshot are in another order."""
    features, labels = clouds()
    turned = features + 1.5 * (labels == 1)[:, None] * (WEIGHT[2] - WEIGHT[1])
    order = np.random.default_rng(1).permutation(300)
    table = drift(Snapshot(features, WEIGHT, labels), Snapshot(turned[order], WEIGHT, labels[order], ids=np.arange(300)[order]))
    rows = table.to_pandas()
    assert rows.id.tolist() == list(range(300)) and rows.harder[labels == 1].all() and not rows.harder[labels != 1].any()
    before, after = avh(features, WEIGHT, labels), avh(turned, WEIGHT, labels)
    assert rows.change.to_numpy() == pytest.approx(after - before)
    assert rows.feature_angle[labels != 1].max() == 0 < rows.feature_angle[labels == 1].min()
    notes = notes_of(table)
    verdicts = {row["class"]: row["verdict"] for row in notes["classes"]}
    assert verdicts["1"] == "less accurate, harder" and verdicts["0"] == verdicts["2"] == "no change found"
    told, control = notes["features_moved"]["told"], notes["features_moved"]["control"]
    assert told["low"] > 0.5 and told["p"] < 1e-6 and control["low"] < 0.5 < control["high"]
    one = next(row for row in notes["classes"] if row["class"] == "1")
    wrong = int((rows.outcome[labels == 1] == "right, then wrong").sum())
    assert one["accuracy_p"] == pytest.approx(min(1, 8 * binomtest(wrong, wrong).pvalue), rel=1)  # the sign test, corrected


def test_a_score_whose_hard_end_is_low_and_unlabeled_samples() -> None:
    features, labels = clouds(60)
    labels[:5] = -1
    table = drift(Snapshot(features, WEIGHT, labels), Snapshot(features * 0.5, WEIGHT, labels), by="confidence").to_pandas()
    assert table.harder[:5].isna().all() and table.change[:5].isna().all()
    assert ((table.before - table.after)[5:] == table.change[5:]).all()  # less sure is harder


def test_two_heads_are_compared_as_the_explorer_does_it(tmp_path: Path) -> None:
    heads = two_heads()
    runs = [digits_run(tmp_path / name, n=80, head=head) for name, head in zip("ab", heads, strict=True)]
    table = drift(*runs)
    notes = notes_of(table)
    assert (
        notes["compared"] == "ranks"
        and notes["why_ranks"] == notes["features_not_compared"] == "one head is linear, the other cosine"
    )
    sheets = [open_sheet(run) for run in runs]
    assert compare(*sheets).changes["avh"] == "avh rank change"
    assert table["change"].to_pylist() == pytest.approx(sheets[0].columns["avh rank change"].values.tolist(), abs=1e-6)
    assert notes_of(drift(*runs, by="confidence"))["compared"] == "values"


def test_the_test_of_features_is_right_as_often_as_it_says() -> None:
    """Two sets from one distribution, and pairs exchanged by chance: p is small about as often as it should be."""
    rng = np.random.default_rng(0)
    small = {True: 0, False: 0}
    for seed in range(40):
        first, second = rng.normal(size=(2, 120, 4))
        for paired in small:
            moved = features_moved(first, second, paired=paired, seed=seed)
            assert moved is not None
            small[paired] += moved.told.p <= 0.1
    assert max(small.values()) <= 9  # 4 are expected of each; 10 or more happen once in 200 times


def test_a_spread_that_grows_is_seen_and_few_samples_are_not_tested() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(400, 4)), 1.8 * rng.normal(size=(300, 4))
    moved = features_moved(first, second, paired=False)
    assert moved is not None and moved.told.low > 0.55 and moved.control.low < 0.5 < moved.control.high
    assert features_moved(first[:19], second[:19], paired=False) is None


def test_different_samples_of_one_model() -> None:
    features, labels = clouds(600)
    parts = [Snapshot(features[part], WEIGHT, labels[part], ids=np.arange(600)[part]) for part in (slice(300), slice(300, 600))]
    table = drift(*parts, unpaired=True)
    assert table["id"].to_pylist() == list(range(300, 600))
    assert abs(np.mean(table["change"].to_pylist())) < 0.05 and np.mean(table["harder"].to_pylist()) < 0.1
    assert {row["verdict"] for row in notes_of(table)["classes"]} == {"no change found"}
    noisy = Snapshot(features[300:] + 1.5 * np.random.default_rng(2).normal(size=(300, 8)), WEIGHT, labels[300:])
    table = drift(parts[0], noisy, unpaired=True)
    assert np.mean(table["harder"].to_pylist()) > 0.2 and notes_of(table)["classes"][0]["verdict"] == "less accurate, harder"
    with pytest.raises(InputError, match="different samples are compared by one model"):
        drift(parts[0], Snapshot(features, WEIGHT[::-1].copy(), labels), unpaired=True)


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path) -> None:
    features, labels = clouds(40)
    for name, ids in (("a", "x"), ("b", "y")):
        Snapshot(features, WEIGHT, labels, ids=[f"{ids}{row}" for row in range(40)]).save(tmp_path / f"{name}.npz")
    Snapshot(features, WEIGHT).save(tmp_path / "c.npz")
    done = cli("drift", tmp_path / "a.npz", tmp_path / "b.npz", "-o", tmp_path / "drift.parquet")
    assert done.code == 2 and "share no id (such as 'x0' and 'y0')" in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "drift.parquet").exists()
    assert "there are no labels" in cli("drift", tmp_path / "a.npz", tmp_path / "c.npz").err
    assert "is given twice" in cli("drift", tmp_path / "a.npz", tmp_path / "a.npz").err
    assert cli("drift", tmp_path / "a.npz", tmp_path / "nowhere.npz").err.endswith("nowhere.npz does not exist.\n")


def test_the_command_writes_samples_and_classes(cli: Cli, tmp_path: Path) -> None:
    features, labels = clouds(90)
    Snapshot(features, WEIGHT, labels).save(tmp_path / "a.npz")
    Snapshot(features[:80] - 4 * WEIGHT[0], WEIGHT, labels[:80], ids=np.arange(80)).save(tmp_path / "b.npz")
    done = cli("drift", tmp_path / "a.npz", tmp_path / "b.npz")
    assert done.code == 0 and "features: moved." in done.out and "80 samples are in both" in done.err, done.err
    table = pq.read_table(tmp_path / "b.drift.parquet")
    assert table.column_names[:4] == ["id", "label", "harder", "change"] and len(table) == 80
    classes = pq.read_table(tmp_path / "b.drift.classes.parquet").to_pylist()
    assert [row["class"] for row in classes] == ["all", "0", "1", "2"] and classes[1]["verdict"] == "less accurate, harder"

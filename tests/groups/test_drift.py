"""`hardsight drift`: what got harder between two snapshots, by sample, by class and in the features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_digits

from explorer_runs import digits_run, two_heads
from hardsight import Snapshot, avh, drift, score
from hardsight.errors import InputError
from hardsight.explorer.opening import open_display
from hardsight.explorer.two_runs import compare
from hardsight.groups.feature_shift import features_moved

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


def test_right_then_wrong_is_harder_whatever_a_score_says() -> None:
    known = {"id": [0, 1, 2, 3], "label": [0, 0, 0, 0]}
    before = pa.table({**known, "predicted": [0, 1, 0, 1], "loss": [0.5, 0.9, 0.5, 0.9]})
    after = pa.table({**known, "predicted": [1, 0, 0, 1], "loss": [0.4, 1.0, 0.4, 1.0]})
    assert drift(before, after, by="loss")["harder"].to_pylist() == [True, False, False, True]


def test_rounding_is_no_change() -> None:
    features, labels = clouds()
    rounded = Snapshot(features.astype(np.float16), WEIGHT, labels)
    changes = drift(Snapshot(features.astype(np.float32), WEIGHT, labels), rounded)
    assert np.mean(changes["harder"].to_pylist()) < 0.02 and np.mean(np.array(changes["change"].to_pylist()) > 0) > 0.4


def test_two_heads_are_compared_as_the_explorer_does_it(tmp_path: Path) -> None:
    heads = two_heads()
    runs = [digits_run(tmp_path / name, n=80, head=head) for name, head in zip("ab", heads, strict=True)]
    table = drift(*runs)
    notes = notes_of(table)
    assert notes["compared"] == "ranks"
    assert notes["why_ranks"] == notes["features_not_compared"] == "one head is linear, the other cosine"
    displays = [open_display(run) for run in runs]
    assert compare(*displays).changes["avh"] == "avh rank change"
    assert table["change"].to_pylist() == pytest.approx(displays[0].columns["avh rank change"].values.tolist(), abs=1e-6)
    assert notes_of(drift(*runs, by="confidence"))["compared"] == "values"


def test_two_models_are_compared_by_who_is_near_whom() -> None:
    """Another basis keeps every neighbor, another network some of them, a shuffle none but by chance."""
    features, labels = clouds()
    before = Snapshot(features, WEIGHT, labels)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    turned = Snapshot(features @ rotation, WEIGHT @ rotation, labels)
    kept = notes_of(drift(before, turned))["neighbors_kept"]
    assert kept["share"]["value"] > 0.999 and 0 < kept["control"]["value"] < 0.1  # ten of 299 by chance
    noise = np.random.default_rng(4).normal(size=(300, 5))
    wider = Snapshot(np.concatenate([features, noise], axis=1), np.pad(WEIGHT, ((0, 0), (0, 5))), labels)
    notes = notes_of(drift(before, wider))
    kept = notes["neighbors_kept"]
    assert notes["features_not_compared"] == "one has 8 features, the other 13" and notes["features_moved"] is None
    assert kept["control"]["high"] < kept["share"]["low"] < kept["share"]["value"] < kept["share"]["high"] < 0.9
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, np.concatenate([features, noise], axis=1))]
    nearest = [np.argsort(-(x @ x.T) + 9 * np.eye(300), axis=1)[:, :10] for x in unit]
    both = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest, strict=True)])
    assert kept["share"]["value"] == pytest.approx(both)


def test_copies_of_one_image_are_one_image() -> None:
    """Each image four times: the same change, the interval of a quarter as many, and the test of the features on each once."""
    features, labels = clouds(60)
    later = features + 0.3 * np.random.default_rng(1).normal(size=features.shape)
    alone = notes_of(drift(Snapshot(features, WEIGHT, labels), Snapshot(later, WEIGHT, labels)))
    base = {"base_id": np.repeat([f"x{row}" for row in range(60)], 4)}
    copies = [Snapshot(x.repeat(4, 0), WEIGHT, labels.repeat(4), columns=base) for x in (features, later)]
    with pytest.warns(UserWarning, match="copies of one image"):
        four = notes_of(drift(*copies))
    first, second = (notes["classes"][0] for notes in (alone, four))
    for name in ("mean_change", "change_low", "change_high", "accuracy_difference_low", "accuracy_p", "change_p"):
        assert second[name] == pytest.approx(first[name], rel=0.03), name  # n - 1 counts rows
    assert four["features_moved"]["told"] == alone["features_moved"]["told"]
    with pytest.warns(UserWarning, match="copies of one image"):
        unpaired = notes_of(drift(*copies, unpaired=True))["classes"][0]
    once = notes_of(drift(Snapshot(features, WEIGHT, labels), Snapshot(later, WEIGHT, labels), unpaired=True))["classes"][0]
    for name in ("change_low", "accuracy_difference_low", "change_p"):
        assert unpaired[name] == pytest.approx(once[name], rel=0.03), name


def test_the_level_decides_and_tables_in_memory_are_compared() -> None:
    """The same p value says harder at 95 % and nothing at 99.9 %."""
    rng = np.random.default_rng(0)
    ids, before = np.arange(60), rng.normal(0.2, 0.02, 60)
    tables = [pa.table({"id": ids, "label": ids % 2, "predicted": ids % 2, "loss": values}) for values in
              (before, before + 0.01 + rng.normal(0, 0.025, 60))]  # fmt: skip
    at = {level: notes_of(drift(*tables, by="loss", level=level))["classes"][0] for level in (0.95, 0.999)}
    assert 0.001 < at[0.95]["change_p"] == at[0.999]["change_p"] < 0.05
    assert (at[0.95]["verdict"], at[0.999]["verdict"]) == ("harder", "no change found")
    assert drift(tables[0].to_pandas(), tables[1], by="loss")["change"].to_pylist() == pytest.approx(
        (tables[1]["loss"].to_numpy() - before).tolist()
    )


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
    assert table.column_names == ["id", "harder", "change", "label", "after", "predicted_after"]
    assert table["id"].to_pylist() == list(range(300, 600))
    assert abs(np.mean(table["change"].to_pylist())) < 0.05 and np.mean(table["harder"].to_pylist()) < 0.1
    assert {row["verdict"] for row in notes_of(table)["classes"]} == {"no change found"}
    noisy = Snapshot(features[300:] + 1.5 * np.random.default_rng(2).normal(size=(300, 8)), WEIGHT, labels[300:])
    table = drift(parts[0], noisy, unpaired=True)
    assert np.mean(table["harder"].to_pylist()) > 0.2 and notes_of(table)["classes"][0]["verdict"] == "less accurate, harder"
    few = Snapshot(features[:59], WEIGHT, labels[:59])  # 19 samples of class 2 have no hardest twentieth
    table = drift(few, noisy, unpaired=True)
    assert pa.compute.equal(table["label"], 2).to_pylist() == pa.compute.is_null(table["harder"]).to_pylist()
    huge = [Snapshot(part.in_memory().values * 1e200, WEIGHT, part.in_memory().labels) for part in (parts[0], noisy)]
    assert notes_of(drift(*huge, unpaired=True))["features_moved"]["told"]["p"] < 1e-6
    with pytest.raises(InputError, match="different samples are compared by one model"):
        drift(parts[0], Snapshot(features, WEIGHT[::-1].copy(), labels), unpaired=True)


@pytest.mark.filterwarnings("ignore:neither has a head")
def test_without_heads_a_random_split_has_not_drifted_and_a_shift_is_seen() -> None:
    """Heads fitted to each part would differ in themselves: 130 of 397 digits were harder, and every class."""
    features, labels = (part.astype(kind) for part, kind in zip(load_digits(return_X_y=True), ("f4", "i8"), strict=True))
    harder, verdicts = [], []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(1797)
        for sides in ((order[:1400], order[1400:]), (order[1400:], order[:1400])):
            table = drift(*(Snapshot(features[rows], labels=labels[rows]) for rows in sides), unpaired=True)
            harder.append(np.mean([known for known in table["harder"].to_pylist() if known is not None]))
            verdicts += [row["verdict"] for row in notes_of(table)["classes"]]
    assert 0.03 < np.mean(harder) < 0.07 and max(harder) < 0.1  # 5 % are expected
    assert set(verdicts) == {"no change found"}
    before = Snapshot(features[order[:900]], labels=labels[order[:900]])
    moved, threes = features[order[900:]], labels[order[900:]] == 3
    moved[threes] = np.roll(moved[threes].reshape(-1, 8, 8), 1, axis=1).reshape(-1, 64)  # a row lower
    later = Snapshot(moved, labels=labels[order[900:]])
    notes = notes_of(drift(before, later, unpaired=True))
    assert "harder" in next(row["verdict"] for row in notes["classes"] if row["class"] == "3") and notes["compared"] == "values"
    noise = np.random.default_rng(0).normal(0, 0.06, (900, 64)).astype("f4")  # 1 % of the spread, in the same samples
    notes = notes_of(drift(before, Snapshot(features[order[:900]] + noise, labels=labels[order[:900]])))
    assert {row["verdict"] for row in notes["classes"]} == {"no change found"}


def test_without_heads_what_cannot_be_one_model_is_refused(tmp_path: Path) -> None:
    features, labels = clouds(90)
    before = Snapshot(features, labels=labels)
    with pytest.warns(UserWarning, match="neither has a head: one is fitted to the first snapshot, by cross-validation"):
        drift(before, Snapshot(features, labels=labels))
    with pytest.raises(InputError, match="row 1 repeats 'a'"):
        drift(*[Snapshot(features, WEIGHT, labels, ids=["a"] * 90, allow_duplicates=True)] * 2)
    with pytest.raises(InputError, match="one has 8 features, the other 7"):
        drift(before, Snapshot(features[:, :7], labels=labels), unpaired=True)
    with pytest.raises(InputError, match="does not know class 3 of the second: give --head"):
        drift(before, Snapshot(features, labels=labels + 1), unpaired=True)
    table = score(before)
    for sides in ((table, table), (table, before), (Snapshot(features, WEIGHT, labels), table)):
        with pytest.raises(InputError, match="different samples are compared by one model"):
            drift(*sides, unpaired=True)
    given = score(Snapshot(features, WEIGHT, labels))
    assert len(drift(given, given, unpaired=True)) == 90  # one head, as far as a table can tell


def test_the_command_writes_samples_and_classes(cli: Cli, tmp_path: Path) -> None:
    features, labels = clouds(90)
    Snapshot(features, WEIGHT, labels).save(tmp_path / "a.npz")
    Snapshot(features[:80] - 4 * WEIGHT[0], WEIGHT, labels[:80], ids=np.arange(80)).save(tmp_path / "b.npz")
    done = cli("drift", tmp_path / "a.npz", tmp_path / "b.npz")
    assert done.code == 0 and "features: moved." in done.out and "80 samples are in both" in done.err, done.err
    table = pq.read_table(tmp_path / "b.drift.parquet")
    assert table.column_names == ["id", "harder", "change", "label", "before", "after", "predicted_before", "predicted_after",
                                  "outcome", "feature_angle"]  # fmt: skip
    with pytest.warns(UserWarning, match="80 samples are in both"):
        assert table.equals(drift(tmp_path / "a.npz", tmp_path / "b.npz").table)
    hardest = table.filter(table["harder"]).sort_by([("change", "descending")])["id"].to_pylist()
    said = done.out.partition("10 largest increases in hardness")[2].splitlines()[4:14]
    assert [int(line.split()[0]) for line in said] == hardest[:10]
    classes = pq.read_table(tmp_path / "b.drift.classes.parquet").to_pylist()
    assert [row["class"] for row in classes] == ["all", "0", "1", "2"] and classes[1]["verdict"] == "less accurate, harder"


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clouds(40)
    for name, ids in (("a", "x"), ("b", "y")):
        Snapshot(features, WEIGHT, labels, ids=[f"{ids}{row}" for row in range(40)]).save(tmp_path / f"{name}.npz")
    Snapshot(features, WEIGHT, ids=[f"x{row}" for row in range(40)]).save(tmp_path / "c.npz")
    done = cli("drift", tmp_path / "a.npz", tmp_path / "b.npz", "-o", tmp_path / "drift.parquet")
    assert done.code == 2 and "'x0'" in done.err and "'y0'" in done.err and "--unpaired" in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "drift.parquet").exists()
    assert "to compare: store them with the samples." in cli("drift", tmp_path / "a.npz", tmp_path / "c.npz").err
    assert "is given twice" in cli("drift", tmp_path / "a.npz", tmp_path / "a.npz").err
    monkeypatch.setattr("hardsight.groups.drift.Measures", None)  # nothing is scored before both are there
    assert cli("drift", tmp_path / "a.npz", tmp_path / "nowhere.npz").err.endswith("nowhere.npz does not exist.\n")


def test_the_control_does_not_repeat_draws_of_the_user() -> None:
    """Half of the samples moved, chosen with the generator that everybody starts with."""
    x = np.random.default_rng(5).normal(size=(400, 6))
    chosen = np.random.default_rng(0).random(400) < 0.5
    moved = features_moved(np.where(chosen[:, None], x + 2, x), np.where(chosen[:, None], x, x + 2), paired=True)
    assert moved is not None and abs(moved.control.share - 0.5) < 0.1

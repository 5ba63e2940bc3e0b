"""`hardsight audit`: groups by a column, intersections, latent groups; intervals, corrections and what is too small to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest, fisher_exact, ttest_ind

import hardsight
from explorer_runs import digits_run
from hardsight import Snapshot, audit
from hardsight.data import BrokenImage
from hardsight.data.run_images import RunImages
from hardsight.errors import FileError, InputError
from hardsight.groups.comparing import Measures, corrected
from hardsight.groups.latent import k_means, nearest
from hardsight.stats import design_effect
from hardsight.table import write_table

Cli = Callable[..., Any]
ENDS = ("low", "high", "difference", "difference_low", "difference_high", "p")


def probs(right: int, wrong: int, sure: float = 0.9) -> np.ndarray:
    """So many rows of class 0 that are taken for class 0, and so many that are taken for class 1."""
    return np.array([[sure, 1 - sure]] * right + [[1 - sure, sure]] * wrong)


def two_sites(a: tuple[int, int] = (45, 5), b: tuple[int, int] = (30, 20)) -> dict[str, Any]:
    """Arrays of two sites, each with so many right and wrong samples of class 0."""
    sites = ["A"] * sum(a) + ["B"] * sum(b)
    return {"probs": np.concatenate([probs(*a), probs(*b)]), "labels": [0] * len(sites), "columns": {"site": sites}}


def rows_of(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in table.to_pylist()}


def test_accuracy_by_group_and_its_interval() -> None:
    groups = rows_of(audit(**two_sites(), group="site"))
    assert (groups["A"]["n"], groups["A"]["accuracy"], groups["B"]["accuracy"]) == (50, 0.9, 0.6)
    for name, right in (("A", 45), ("B", 30)):
        oracle = binomtest(right, 50).proportion_ci(method="wilson")
        assert (groups[name]["accuracy_low"], groups[name]["accuracy_high"]) == pytest.approx((oracle.low, oracle.high))
    assert groups["B"]["accuracy_difference"] == pytest.approx(-0.3)
    assert groups["B"]["accuracy_difference_low"] < -0.3 < groups["B"]["accuracy_difference_high"] < 0
    assert groups["A"]["overconfidence"] == pytest.approx(0.0)  # 0.9 sure and 0.9 right
    assert groups["B"]["overconfidence"] == pytest.approx(0.3)
    assert "less accurate" in groups["B"]["verdict"] and "more accurate" in groups["A"]["verdict"]


def test_p_values_are_exact_and_corrected_for_all_tests() -> None:
    table = audit(**two_sites(), group="site")
    groups, notes = rows_of(table), json.loads(table.schema.metadata[b"hardsight"])
    assert notes["tests"] == 6  # accuracy, loss and overconfidence of two groups
    loss = [-np.log(probs(*counts)[:, 0]) for counts in ((45, 5), (30, 20))]
    gap = [np.repeat([-0.1, 0.9], counts) for counts in ((45, 5), (30, 20))]  # confidence minus right or wrong
    p = [fisher_exact([[45, 5], [30, 20]]).pvalue, *(ttest_ind(*values, equal_var=False).pvalue for values in (loss, gap))]
    first, second, third = np.sort(p)  # of each group; Holm multiplies the smallest of six by 6, the next by 5 and so on
    by_holm = {first: 6 * first, second: max(6 * first, 4 * second), third: max(6 * first, 4 * second, 2 * third)}
    for name in "AB":
        corrected_p = [groups[name][f"{measure}_p"] for measure in ("accuracy", "loss", "overconfidence")]
        assert corrected_p == pytest.approx([by_holm[value] for value in p])


def test_a_measure_that_is_also_the_hardness_is_tested_once() -> None:
    row = {"accuracy_p": 0.01, "norm_p": 0.02, "overconfidence_p": 0.5, "verdict": "no difference found"}
    differences = {"accuracy_difference": -0.1, "norm_difference": -1.0}
    (judged,), tests = corrected([row | differences], "norm", 0.95)
    assert [judged[name] for name in ("accuracy_p", "norm_p", "overconfidence_p")] == pytest.approx([0.03, 0.04, 0.5])
    assert tests == 3


def test_a_further_mean_is_corrected_and_counted_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"one": np.concatenate([np.arange(50.0), np.arange(50.0) + 20])}
    monkeypatch.setattr(Measures, "means", values | {"loss": values["one"]})
    table = audit(**two_sites(), group="site")
    assert json.loads(table.schema.metadata[b"hardsight"])["tests"] == 6  # accuracy, one and loss of two groups
    p = ttest_ind(np.arange(50.0), np.arange(50.0) + 20, equal_var=False).pvalue  # the four smallest of six
    assert table["one_p"].to_pylist() == table["loss_p"].to_pylist() == pytest.approx([6 * p] * 2)


def test_copies_of_one_image_are_one_image() -> None:
    """Each image four times: the same accuracy, and the interval of a quarter as many."""
    given = two_sites()
    alone = rows_of(audit(**given, group="site"))
    columns = {"site": np.repeat(given["columns"]["site"], 4), "base_id": np.repeat([f"x{row}" for row in range(100)], 4)}
    with pytest.warns(UserWarning, match="copies of one image"):
        table = audit(probs=given["probs"].repeat(4, 0), labels=[0] * 400, columns=columns, group="site")
    copies = rows_of(table)
    for name in ("accuracy", "accuracy_low", "accuracy_high", "accuracy_difference_low"):
        assert copies["B"][name] == pytest.approx(alone["B"][name])
    assert design_effect(np.array([1.0, 0.0, 1.0, 0.0]), np.arange(4)) == 1.0


def test_intersections_and_the_smallest_groups() -> None:
    rng = np.random.default_rng(0)
    given = two_sites((60, 0), (58, 2))
    age = np.where(np.arange(120) % 2, "old", "young").astype(object)
    age[:3] = "very old"
    given["columns"] |= {"age": age, "kilos": rng.normal(size=120)}
    groups = rows_of(audit(**given, group=["site", "age"]))
    assert list(groups) == ["A", "B", "old", "very old", "young", "A × old", "A × very old", "A × young", "B × old", "B × young"]
    assert sum(groups[name]["n"] for name in groups if " × " in name) == 120
    small = groups["A × very old"]
    assert (small["n"], small["verdict"], small["accuracy_p"]) == (3, "too few to say", None)
    assert small["accuracy_low"] == pytest.approx(0.4385, abs=1e-4)  # three of three say little
    fifths = audit(**given, group="kilos").to_pydict()
    assert fifths["n"] == [24] * 5 and all(" to " in name for name in fifths["group"])


def test_a_difference_that_classes_explain() -> None:
    """Site B has more of the class that is hard everywhere: the rest with its mix of classes is as good."""
    right = np.array([1, 0] * 10 + [1] * 20 + [1, 0] * 40 + [1] * 20)  # A: 20 of class 1 and 20 of class 0; B: 80 and 20
    labels = np.array([1] * 20 + [0] * 20 + [1] * 80 + [0] * 20)
    predicted = np.where(right == 1, labels, 1 - labels)
    site = ["A"] * 40 + ["B"] * 100
    groups = rows_of(audit(probs=np.eye(2)[predicted], labels=labels, columns={"site": site}, group="site"))
    assert groups["A"]["accuracy"] == 0.75 and groups["B"]["accuracy"] == 0.6
    assert [groups[name]["accuracy_same_classes"] for name in "AB"] == pytest.approx([0.75, 0.6])


def test_groups_without_labels_and_groups_that_are_numbers() -> None:
    """A group of unlabeled samples is shown and not tested; large whole numbers are told apart; infinity is no group."""
    given = two_sites((40, 0), (20, 20))
    given["labels"] = [0] * 60 + [-1] * 20
    site = ["A"] * 40 + ["B"] * 20 + ["new"] * 20
    code = [1234567] * 40 + [1234568] * 40
    near = np.linspace(1, 1 + 1e-7, 80)
    groups = rows_of(audit(**given | {"columns": {"site": site}}, group="site"))
    new = groups["new"]
    assert (new["n"], new["labeled"], new["accuracy"], new["accuracy_p"], new["verdict"]) == (20, 0, None, None, "too few to say")
    assert list(rows_of(audit(**given | {"columns": {"code": code}}, group="code"))) == ["1234567", "1234568"]
    fifths = audit(**given | {"columns": {"near": near}}, group="near").to_pydict()
    assert len(set(fifths["group"])) == 5 and fifths["n"] == [16] * 5
    half = [np.inf, 1.0, 2.0, np.nan] * 20
    with pytest.warns(UserWarning, match="40 of 80 samples have no value of half"):
        assert list(rows_of(audit(**given | {"columns": {"half": half}}, group="half"))) == ["1", "2"]
    days = np.array(["2026-11-16"] * 40 + ["2026-11-17"] * 40, dtype="datetime64[D]")
    assert list(rows_of(audit(**given | {"columns": {"day": days}}, group="day"))) == ["2026-11-16", "2026-11-17"]


def hidden_group(seed: int = 0, bad: bool = True) -> dict[str, Any]:
    """Two classes, one of which has a cluster of its own on the wrong side."""
    rng = np.random.default_rng(seed)
    centers = np.array([[4.0, 0, 0], [0, 4.0, 0], [1.0, 1.6, 4.0] if bad else [4.0, 0, 4.0]])
    cluster = np.repeat([0, 1, 2], [200, 200, 120])
    features = centers[cluster] + 0.5 * rng.normal(size=(520, 3))
    labels = np.where(cluster == 1, 1, 0)
    order = rng.permutation(520)
    ids = [f"s{k}" for k in cluster[order] * 1000 + order]
    return {"features": features[order], "labels": labels[order], "head": np.eye(2, 3), "ids": ids}


def test_latent_groups_are_found_and_tested_on_other_samples() -> None:
    given = hidden_group()
    table = audit(**given)
    worst = table.to_pylist()[0]
    assert worst["by"] == "latent" and worst["group"].startswith("0, cluster 1") and "less accurate" in worst["verdict"]
    assert worst["accuracy"] < 0.5 and 40 <= worst["n"] <= 80 <= worst["members"] <= 130  # half of them are tested
    assert all(id.startswith("s2") for id in worst["hardest"].split(", "))
    again = np.random.default_rng(1).permutation(520)
    shuffled: Any = {name: value if name == "head" else np.asarray(value)[again] for name, value in given.items()}
    same = audit(**shuffled)  # rows in another order give the same groups
    for name in ("group", "n", "members", "hardest", "verdict"):
        assert same[name].equals(table[name])
    assert same["avh_p"].to_pylist() == pytest.approx(table["avh_p"].to_pylist())


def test_the_page_of_latent_groups_shows_their_hardest_pictures(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardsight.groups.audit.AuditedGroups.figures", lambda groups: {})  # drawn where docs/act.md is run
    given = hidden_group()
    np.savez(tmp_path / "x.npz", features=given["features"], labels=given["labels"], weight=given["head"])
    np.savez(tmp_path / "images.npz", images=np.arange(520 * 64).reshape(520, 8, 8).astype(np.uint8))
    words = ["audit", tmp_path / "x.npz", "-o", tmp_path / "latent.parquet"]
    np.savez(tmp_path / "other.npz", images=np.zeros((2, 8, 8), np.uint8), ids=["a", "b"])
    refused = cli(*words, "--images", tmp_path / "other.npz")
    assert refused.code == 2 and "'a'" in refused.err and not (tmp_path / "latent.parquet").exists()
    assert cli(*words, "--images", tmp_path / "images.npz").code == 0
    page = (tmp_path / "latent.html").read_text("utf-8")
    hardest = page.split("Hardest of 0, cluster 1")[1].partition("</div>")[0]
    assert "-0.0" not in page
    assert hardest.count("data:image/webp") == 12 and "The pictures are from both halves." in page
    assert cli(*words).code == 0
    bare = (tmp_path / "latent.html").read_text("utf-8")
    assert "name them with --images" in bare and "Hardest of" not in bare and "both halves" not in bare


def test_the_pictures_of_a_training_are_in_what_it_was_trained_on_and_watched(tmp_path: Path) -> None:
    shades = {"train": 10, "val": 20, "test": 30}
    for at, (name, shade) in enumerate(shades.items()):
        ids = [f"{at}{row}" if name != "test" else f"0{row}" for row in range(3)]  # test has the ids of train: it is left out
        images = np.full((3, 8, 8), shade, np.uint8) + np.arange(3, dtype=np.uint8)[:, None, None]
        np.savez(tmp_path / f"{name}.npz", images=images, ids=ids)
    places = {name: str(tmp_path / f"{name}.npz") for name in shades}
    of_run = RunImages({"train": places["train"], "watch": {"val": places["val"], "test": places["test"]}}, tmp_path)
    assert [of_run.find(None, id).convert("L").getpixel((0, 0)) for id in ("01", "12")] == [11, 22]
    with pytest.raises(BrokenImage):
        of_run.find(None, "07")
    np.savez(tmp_path / "features.npz", features=np.zeros((3, 4)), labels=[0, 1, 0])
    assert RunImages({"train": str(tmp_path / "features.npz"), "watch": {}}, tmp_path).specs == []
    (tmp_path / "damaged.npz").write_bytes(b"no archive")
    assert RunImages({"train": str(tmp_path / "damaged.npz")}, tmp_path).specs  # said when a picture is asked for


def test_latent_groups_of_noise_are_not_confirmed() -> None:
    """Labels right or wrong by chance: clusters look worse in one half, and hardly ever in the other."""
    found = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, 400)
        features = rng.normal(size=(400, 6))
        verdicts = audit(features=features, labels=labels, head=rng.normal(size=(2, 6)), seed=seed)["verdict"].to_pylist()
        found += any("less accurate" in verdict for verdict in verdicts)
    assert found <= 2  # clusters of features do differ in accuracy under a fixed head, but selection alone confirms nothing
    assert hardsight.audit(**hidden_group(bad=False))["verdict"].to_pylist().count("less accurate") == 0


def test_huge_features_and_classes_too_small_to_divide(cli: Cli, tmp_path: Path) -> None:
    """Features of 1e200 have the groups of those of 1, without a warning; no group is said in words.

    Their softmax is 0 or 1, so that calibration, and it alone, is another.
    """
    given = hidden_group()
    plain = audit(**given)
    for factor in (1e100, 1e200):
        huge = audit(**given | {"features": given["features"] * factor})
        for name in ("group", "n", "members", "accuracy", "hardest"):
            assert huge[name].equals(plain[name])
        assert huge["avh_difference_low"].to_pylist() == pytest.approx(plain["avh_difference_low"].to_pylist())
        assert huge["verdict"][0].as_py().startswith("less accurate, harder") and "harder" not in huge["verdict"][1].as_py()
    few = {name: value if name == "head" else value[:12] for name, value in given.items()}
    np.savez(tmp_path / "x.npz", features=few["features"], labels=few["labels"], weight=few["head"])
    done = cli("audit", tmp_path / "x.npz", "-o", tmp_path / "audit.csv")
    assert done.code == 0 and "no latent groups: no cluster looks worse" in done.out and done.err == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": "site", "columns": {"site": ["A"] * 100}}, "holds one group only \\('A'\\): there is nothing to compare"),
        ({"group": "site", "labels": [-1] * 100}, "there are no labels"),
        ({"group": ["site", "site"]}, "up to 3 different columns"),
        ({"group": "site", "by": "avg"}, "avg"),
        ({"group": 3}, "group must be the name of a column, got 3"),
        ({}, "latent groups are found in features, and there are none: give --group"),
        ({"group": "site", "columns": {"site": [None] * 100}}, "holds nothing|cannot be shown"),
        ({"group": "none", "columns": {"none": [np.inf] * 100}}, "the column 'none' holds no finite number"),
        ({"group": "site", "split": "val"}, "there is no split 'val'; splits: none"),
        ({"x": Snapshot(np.eye(3), np.eye(3), [0, 1, 2]), "head": np.eye(3)}, "can only be used with arrays"),
    ],
)
def test_bad_input_is_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises((FileError, InputError), match=said) as error:
        audit(**two_sites() | change)
    assert "\n" not in str(error.value)


def test_the_command_writes_three_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.groups.audit.AuditedGroups.figures", lambda groups: {})  # drawn where docs/act.md is run
    given = two_sites()
    np.savez(tmp_path / "x.npz", probs=given["probs"], labels=given["labels"], site=given["columns"]["site"])
    done = cli("audit", tmp_path / "x.npz", "--group", "site", "-o", tmp_path / "audit.parquet")
    assert done.code == 0 and "less accurate" in done.out, done.err
    table = pq.read_table(tmp_path / "audit.parquet")
    first = ["group", "n", "accuracy", "accuracy_low", "accuracy_high", "mean_avh", "by", "labeled"]
    assert table.column_names[:8] == first and table["mean_avh"].null_count == 2 and table["mean_loss"].null_count == 0
    assert table.equals(audit(tmp_path / "x.npz", group="site").table)
    assert pq.read_table(tmp_path / "audit.samples.parquet").to_pydict()["site"] == given["columns"]["site"]
    page = (tmp_path / "audit.html").read_text("utf-8")
    assert "p values up to 5 % after" in page and "site = B: less accurate" in page and "http" not in page.split("</head>")[1]
    assert f"hardsight audit {tmp_path / 'x.npz'} --group site -o {tmp_path / 'audit.parquet'}</pre>" in page
    assert hardsight.verify(tmp_path / "audit.html").sound == ["audit.html"]


def test_a_run_and_a_table_of_scores(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.groups.audit.AuditedGroups.figures", lambda groups: {})  # drawn where docs/act.md is run
    run = digits_run(tmp_path / "run", n=200, columns={"pen": ["red" if row % 3 else "blue" for row in range(200)]})
    done = cli("audit", run, "--group", "pen", "--split", "test", "-o", tmp_path / "audit.csv")
    assert done.code == 0 and "n = 40 " in done.out and done.err == "", done.err
    page = (tmp_path / "audit.html").read_text("utf-8")
    assert page.count("data:image/webp") == 24  # the hardest of both groups
    with pytest.warns(UserWarning, match="trained on"):
        table = audit(run, group="pen")
    scores = pq.read_table(run / "scores.parquet")
    pens = pa.array(["red" if row % 3 else "blue" for row in range(200)])
    write_table(scores.append_column("pen", pens), tmp_path / "scores.csv")
    plain = audit(tmp_path / "scores.csv", group="pen")
    frame = audit(scores.append_column("pen", pens).to_pandas(), group="pen")  # and the same in memory
    assert table.column_names == [
        "group", "n", "accuracy", "accuracy_low", "accuracy_high", "mean_avh", "by", "labeled",
        *(f"accuracy_{end}" for end in ("difference", "difference_low", "difference_high", "p")),
        *(f"avh_{end}" for end in ENDS), "mean_norm", *(f"norm_{end}" for end in ENDS),
        "overconfidence", *(f"overconfidence_{end}" for end in ENDS), "ece", "ece_by_chance",
        "accuracy_same_classes", "avh_same_classes", "hardest", "verdict",
    ]  # fmt: skip
    for name in ("n", "accuracy", "mean_avh", "avh_p", "mean_norm"):
        assert plain[name].to_pylist() == frame[name].to_pylist() == pytest.approx(table[name].to_pylist())
    head = Snapshot.load(run).head
    assert head is not None
    other = audit(run, "pen", head=-np.asarray(head.weight), split="test")  # not the scores that are stored
    assert other["mean_avh"][0].as_py() > table["mean_avh"][0].as_py() + 0.01


def test_labels_are_groups_by_class_name() -> None:
    snapshot = Snapshot(np.eye(3).repeat(20, 0), np.eye(3), np.arange(3).repeat(20), class_names=["cat", "dog", "owl"])
    table = audit(snapshot, group="label")
    assert table["group"].to_pylist() == ["cat", "dog", "owl"] and table["accuracy_same_classes"].null_count == 3


def test_what_makes_no_groups_is_refused_before_a_head_is_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.groups.audit.Measures", None)
    known: dict[str, Any] = {"features": np.eye(4), "labels": [0, 1, 0, 1]}
    np.savez(tmp_path / "a.npz", **known, site=np.eye(4), day=np.arange(3), uid=["same"] * 4)
    said_of = {"site": r"'site' has shape \(4, 4\)", "day": r"shape \(3,\)", "uid": "uid", "udi": "Did you mean uid"}
    for name, said in said_of.items():
        with pytest.raises(InputError, match=said):
            audit(tmp_path / "a.npz", group=name)
    with pytest.raises(InputError, match="there are no labels"):
        audit(features=np.eye(4), labels=[-1] * 4)


def test_an_audit_by_other_columns_says_what_it_replaced(tmp_path: Path) -> None:
    given = two_sites()
    given["columns"]["day"] = ["a", "b"] * 50
    groups = {by: audit(**given, group=by) for by in ("site", "day")}
    groups["site"].save(tmp_path / "audit.parquet")
    assert [groups[by].replaced(tmp_path / "audit.parquet") for by in groups] == [None, "site"]


def test_k_means_finds_clusters_that_are_apart() -> None:
    rows = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(60, 2))
    centers = k_means(rows, 3, np.random.default_rng(1))
    cluster = nearest(rows, centers)
    assert sorted(np.bincount(cluster)) == [20, 20, 20] and all(len(set(part)) == 1 for part in np.split(cluster, 3))
    np.testing.assert_allclose(centers[cluster[::20]], rows.reshape(3, 20, 2).mean(axis=1))
    assert len(k_means(np.ones((5, 2)), 3, np.random.default_rng(0))) == 1  # no more centers than different rows

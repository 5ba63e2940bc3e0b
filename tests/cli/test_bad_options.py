"""Options of the wrong type or value are rejected with a clear message, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardsight
from hardsight import SCORES, Head, Snapshot, score
from hardsight.errors import InputError
from hardsight.table import hardest

RNG = np.random.default_rng(0)
FEATURES, WEIGHT, LABELS = RNG.normal(size=(12, 4)), RNG.normal(size=(3, 4)), np.arange(12) % 3
TABLE = score(FEATURES, WEIGHT, LABELS)


@pytest.mark.parametrize("value", ["3", 2.5, 3.0, True, False, np.True_, [3], {}, 1 + 2j, b"3"])
def test_numbers_that_are_not_whole(value: Any) -> None:
    match = "must be a whole number, got "
    for ask in (
        lambda: score(FEATURES, WEIGHT, LABELS, limit=value),
        lambda: score(FEATURES, WEIGHT, LABELS, shard=(value, 3)),
        lambda: score(FEATURES, WEIGHT, LABELS, shard=(0, value)),
        lambda: hardsight.scores.knn_agreement(FEATURES, LABELS, k=value),
        lambda: hardest(TABLE, top=value),
    ):
        with pytest.raises(InputError, match=match):
            ask()


@pytest.mark.parametrize("whole", [np.int8(2), np.int64(2), np.uint64(2), 2])
def test_whole_numbers_of_numpy_are_numbers(whole: Any) -> None:
    assert len(score(FEATURES, WEIGHT, LABELS, limit=whole)) == 2
    assert len(hardest(TABLE, top=whole)) == 2
    assert (
        hardsight.scores.knn_agreement(FEATURES, LABELS, k=whole).tolist()
        == hardsight.scores.knn_agreement(FEATURES, LABELS, k=2).tolist()
    )
    assert score(FEATURES, WEIGHT, LABELS, shard=(whole, 3)).column("id").to_pylist() == [8, 9, 10, 11]


def test_numbers_below_their_least() -> None:
    with pytest.raises(InputError, match="limit must not be negative, got -1"):
        score(FEATURES, WEIGHT, LABELS, limit=-1)
    with pytest.raises(InputError, match="top must not be negative, got -1"):
        hardest(TABLE, top=-1)
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        hardsight.scores.knn_agreement(FEATURES, LABELS, k=0)


def test_more_neighbors_than_samples_are_all_of_them() -> None:
    every = hardsight.scores.knn_agreement(FEATURES, LABELS, k=11)
    assert hardsight.scores.knn_agreement(FEATURES, LABELS, k=2**70).tolist() == every.tolist() == pytest.approx([3 / 11] * 12)


@pytest.mark.parametrize("covariance", ["full", 3, None, np.eye(2)])
def test_covariances_that_are_none(covariance: Any) -> None:
    with pytest.raises(InputError, match='covariance must be "diagonal" or "identity"'):
        hardsight.scores.gm_likelihood(FEATURES, WEIGHT, LABELS, covariance=covariance)


def test_a_shard_as_text_is_the_command_lines() -> None:
    assert score(FEATURES, WEIGHT, LABELS, shard="1/3").equals(score(FEATURES, WEIGHT, LABELS, shard=(1, 3)))
    assert score(FEATURES, WEIGHT, LABELS, shard=[1, 3]).column("id").to_pylist() == [4, 5, 6, 7]  # type: ignore[arg-type]


@pytest.mark.parametrize("shard", [3, "3", "a/b", "1/2/3", "", " 0/2", "0/2\n", "²/3", (0,), (0, 1, 2), {0, 2}, 0.5, True])
def test_shards_that_are_none(shard: Any) -> None:
    with pytest.raises(InputError, match=r"shard must look like 0/4, or \(0, 4\) in Python, got"):
        score(FEATURES, WEIGHT, LABELS, shard=shard)


@pytest.mark.parametrize("shard", ["2/2", "-1/2", "0/0", "1/-2"])
def test_shards_as_text_that_do_not_exist(shard: str) -> None:
    with pytest.raises(InputError, match=f"i from 0 to n - 1, got {shard}"):
        score(FEATURES, WEIGHT, LABELS, shard=shard)


@pytest.mark.parametrize("scores", [3, True, 2.5, {"avh"}, frozenset({"avh"}), b"avh"])
def test_scores_that_are_no_names(scores: Any) -> None:
    with pytest.raises(InputError, match="scores must be a list of names"):
        score(FEATURES, WEIGHT, LABELS, scores=scores)


@pytest.mark.parametrize("scores", [[3], ["avh", None], [["avh"]], [b"avh"], np.arange(3)])
def test_names_of_scores_that_are_no_text(scores: Any) -> None:
    with pytest.raises(InputError, match="scores must be names, but .* is not; choose from avh"):
        score(FEATURES, WEIGHT, LABELS, scores=scores)


@pytest.mark.parametrize("make", [list, tuple, np.array, iter, dict.fromkeys])
def test_names_of_scores_in_any_order_that_is_one(make: Callable[[list[str]], Any]) -> None:
    assert score(FEATURES, WEIGHT, LABELS, scores=make(["loss", "avh"])).column_names[4:] == ["loss", "avh"]
    of_a_snapshot = {name: one for name, one in SCORES.items() if one.scope in ("row", "dataset")}
    assert score(FEATURES, WEIGHT, LABELS, scores=of_a_snapshot).column_names[4:] == list(of_a_snapshot)  # type: ignore[arg-type]


def test_a_progress_that_cannot_be_called() -> None:
    with pytest.raises(InputError, match="progress must be a function"):
        score(FEATURES, WEIGHT, LABELS, progress=True)  # type: ignore[arg-type]


def test_hardest_by_words() -> None:
    with pytest.raises(InputError, match="ranked by a column of numbers, and status holds string"):
        hardest(TABLE, by="status")
    for by in (3, None, "hardness"):
        with pytest.raises(InputError, match="the table has no column"):
            hardest(TABLE, by=by)  # type: ignore[arg-type]
    twice = TABLE.append_column("avh", TABLE.column("avh"))
    with pytest.raises(InputError, match="more than one column 'avh'"):
        hardest(twice, by="avh")
    assert hardest(TABLE, by="label", top=1).column("label").to_pylist() == [2]


def test_hardest_of_something_else() -> None:
    for table in (TABLE.to_pylist(), TABLE.to_pandas(), "scores.parquet", None):
        with pytest.raises(InputError, match=r"hardest takes the table that score gives, or a pyarrow\.Table, got "):
            hardest(table)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [True, "8", None, [8.0], np.ones(1), 0, -1.0, float("inf"), float("nan")])
def test_scales_that_are_none(scale: Any) -> None:
    if scale is None:
        assert Head("cosine", WEIGHT, scale=scale).scale is None
        return
    with pytest.raises(InputError, match="scale must be a positive number"):
        Head("cosine", WEIGHT, scale=scale)


@pytest.mark.parametrize("scale", [8, 8.0, np.float32(8), np.array(8.0)])
def test_scales_that_are_numbers(scale: Any) -> None:
    assert Head("cosine", WEIGHT, scale=scale).scale == 8.0


# ---- what a snapshot carries along ----


@pytest.mark.parametrize(
    ("names", "match"),
    [
        ("abc", "must be an array or a list, got str"),
        (3, "must be a list of strings, got int"),
        ({"a", "b", "c"}, "got set"),
        ([1, 2, 3], "the name of class 0 is 1"),
        (["a", None, "c"], "the name of class 1 is None"),
        (["a", "b", "\udc80"], "the name of class 2 is"),
        (["a", "b"], "got 2 for 3 classes"),
        (["a", "b", "c", "d"], "got 4 for 3 classes"),
    ],
)
def test_class_names_that_are_none(names: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Snapshot(FEATURES, WEIGHT, LABELS, class_names=names)


@pytest.mark.parametrize("make", [list, tuple, np.array])
def test_class_names_become_a_list(make: Callable[[list[str]], Any]) -> None:
    names = Snapshot(FEATURES, WEIGHT, LABELS, class_names=make(["a", "b", "c"])).class_names
    assert names == ["a", "b", "c"] and {type(name) for name in names} == {str}


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (3, "columns must be a dict"),
        ({"split": ["test"] * 11}, r"column split must have one entry per sample, got shape \(11,\) for 12"),
        ({"split": "test"}, "column split must be an array or a list, got str"),
        ({"split": np.zeros((12, 1))}, r"got shape \(12, 1\)"),
        ({3: np.zeros(12)}, "names of text"),
        ({"a/b": np.zeros(12)}, "without slashes"),
        ({"labels": np.zeros(12)}, "labels is a reserved name"),
        ({"split": {1, 2}}, "column split must be an array or a list, got set"),
    ],
)
def test_columns_that_do_not_fit(columns: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Snapshot(FEATURES, WEIGHT, LABELS, columns=columns)


def test_columns_are_saved_with_the_snapshot(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"split": ["test"] * 12, "human": np.linspace(0, 1, 12)}
    Snapshot(FEATURES, WEIGHT, LABELS, columns=columns).save(tmp_path / "s.npz")
    saved = Snapshot.load(tmp_path / "s.npz").columns(["split", "human"])
    assert saved.to_pydict() == {"split": columns["split"], "human": columns["human"].tolist()}
    with pytest.raises(InputError, match="column split must hold numbers or text"):
        Snapshot(FEATURES, WEIGHT, LABELS, columns={"split": [None, *"abcdefghijk"]}).save(tmp_path / "t.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize("name", ["snapshot", "s.parquet", "s.npy", "s.npz.tmp"])
def test_a_snapshot_is_saved_under_a_name_that_loads(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="a snapshot is saved as .npz"):
        Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / "S.NPZ")
    assert len(Snapshot.load(tmp_path / "S.NPZ")) == 12

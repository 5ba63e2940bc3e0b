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


ASK: dict[str, Callable[[Any], Any]] = {
    "limit": lambda value: score(FEATURES, WEIGHT, LABELS, limit=value),
    "shard": lambda value: score(FEATURES, WEIGHT, LABELS, shard=value),
    "scores": lambda value: score(FEATURES, WEIGHT, LABELS, scores=value),
    "progress": lambda value: score(FEATURES, WEIGHT, LABELS, progress=value),
    "k": lambda value: hardsight.scores.knn_agreement(FEATURES, LABELS, k=value),
    "top": lambda value: hardest(TABLE, top=value),
    "by": lambda value: hardest(TABLE, by=value),
    "table": hardest,
    "scale": lambda value: Head("cosine", WEIGHT, scale=value),
    "class_names": lambda value: Snapshot(FEATURES, WEIGHT, LABELS, class_names=value),
    "columns": lambda value: Snapshot(FEATURES, WEIGHT, LABELS, columns=value),
}
NOT_WHOLE = ["3", 2.5, 3.0, True, False, np.True_, [3], {}, 1 + 2j, b"3"]
NO_SHARDS = [3, "3", "a/b", "1/2/3", "", " 0/2", "0/2\n", "²/3", (0,), (0, 1, 2), {0, 2}, 0.5, True]
REFUSED = [
    *((name, value, "must be a whole number") for name in ("limit", "k", "top") for value in NOT_WHOLE),
    *(("shard", shard, "must be a whole number, got ") for value in NOT_WHOLE for shard in ((value, 3), (0, value))),
    ("limit", -1, "limit must be a whole number of 1 or more, got -1"),
    ("top", -1, "top must not be negative, got -1"),
    ("k", 0, "k must be at least 1, got 0"),
    *(("shard", value, r"shard must look like 0/4, or \(0, 4\) in Python, got") for value in NO_SHARDS),
    *(("shard", value, f"i from 0 to n - 1, got {value}") for value in ("2/2", "-1/2", "0/0", "1/-2")),
    *(("shard", value, "i from 0 to n - 1, got") for value in ((1, 1), (-1, 3), (3, 3), (0, 0))),
    ("scores", "avh,hardness", "'hardness'"),
    *(("scores", value, "a list of names") for value in (3, True, 2.5, {"avh"}, frozenset({"avh"}), b"avh")),
    *(("scores", value, "names, but .* is not") for value in ([3], ["avh", None], [["avh"]], [b"avh"], np.arange(3))),
    ("progress", True, "progress must be a function"),
    ("by", "status", "ranked by a column of numbers, and status holds string"),
    *(("by", value, "the table has no column") for value in (3, None, "hardness")),
    *(("table", value, "takes the table that score gives") for value in (TABLE.to_pylist(), TABLE.to_pandas(), "t.csv", None)),
    ("table", TABLE.append_column("avh", TABLE.column("avh")), "more than one column 'avh'"),
    *(("scale", value, "positive number") for value in (True, "8", [8.0], np.ones(1), 0, -1.0, float("inf"), float("nan"))),
    ("class_names", 3, "got int"),
    ("class_names", 3, "must be a list of strings, got int"),
    ("class_names", {"a", "b", "c"}, "got set"),
    ("class_names", [1, 2, 3], "the name of class 0 is 1"),
    ("class_names", ["a", None, "c"], "the name of class 1 is None"),
    ("class_names", ["a", "b", "\udc80"], "the name of class 2 is"),
    ("class_names", ["a", "b"], "got 2 for 3 classes"),
    ("class_names", ["a", "b", "c", "d"], "got 4 for 3 classes"),
    ("columns", 3, "columns must be a dict"),
    ("columns", {"split": ["test"] * 11}, r"column split must have one entry per sample, got shape \(11,\) for 12"),
    ("columns", {"split": "test"}, "column split must be an array or a list, got str"),
    ("columns", {"split": np.zeros((12, 1))}, r"got shape \(12, 1\)"),
    ("columns", {3: np.zeros(12)}, "names of text"),
    ("columns", {"a/b": np.zeros(12)}, "without slashes"),
    ("columns", {"labels": np.zeros(12)}, "reserved, got .labels."),
    ("columns", {"split": {1, 2}}, "column split must be an array or a list, got set"),
]


@pytest.mark.parametrize(("name", "value", "match"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_is_refused(name: str, value: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        ASK[name](value)


@pytest.mark.parametrize("whole", [np.int8(2), np.int64(2), np.uint64(2), 2])
def test_whole_numbers_of_numpy_are_numbers(whole: Any) -> None:
    assert len(score(FEATURES, WEIGHT, LABELS, limit=whole)) == 2
    assert len(hardest(TABLE, top=whole)) == 2
    assert (
        hardsight.scores.knn_agreement(FEATURES, LABELS, k=whole).tolist()
        == hardsight.scores.knn_agreement(FEATURES, LABELS, k=2).tolist()
    )
    assert score(FEATURES, WEIGHT, LABELS, shard=(whole, 3)).column("id").to_pylist() == [8, 9, 10, 11]


def test_more_neighbors_than_samples_are_all_of_them() -> None:
    every = hardsight.scores.knn_agreement(FEATURES, LABELS, k=11)
    assert hardsight.scores.knn_agreement(FEATURES, LABELS, k=2**70).tolist() == every.tolist() == pytest.approx([3 / 11] * 12)


def test_a_shard_as_text_is_the_command_lines() -> None:
    assert score(FEATURES, WEIGHT, LABELS, shard="1/3").equals(score(FEATURES, WEIGHT, LABELS, shard=(1, 3)))
    assert score(FEATURES, WEIGHT, LABELS, shard=[1, 3]).column("id").to_pylist() == [4, 5, 6, 7]  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [list, tuple, np.array, iter, dict.fromkeys, ",".join, " , ".join])
def test_names_of_scores_in_any_order_that_is_one(make: Callable[[list[str]], Any]) -> None:
    assert score(FEATURES, WEIGHT, LABELS, scores=make(["loss", "avh"])).column_names[4:] == ["loss", "avh"]
    of_a_snapshot = {name: one for name, one in SCORES.items() if one.scope in ("row", "dataset")}
    assert score(FEATURES, WEIGHT, LABELS, scores=of_a_snapshot).column_names[4:] == list(of_a_snapshot)  # type: ignore[arg-type]


def test_hardest_by_labels() -> None:
    assert hardest(TABLE, by="label", top=1).column("label").to_pylist() == [2]


@pytest.mark.parametrize("scale", [8, 8.0, np.float32(8), np.array(8.0), None])
def test_scales_that_are_numbers(scale: Any) -> None:
    assert Head("cosine", WEIGHT, scale=scale).scale == (None if scale is None else 8.0)


# ---- what a snapshot carries along ----


@pytest.mark.parametrize("make", [list, tuple, np.array])
def test_class_names_become_a_list(make: Callable[[list[str]], Any]) -> None:
    names = Snapshot(FEATURES, WEIGHT, LABELS, class_names=make(["a", "b", "c"])).class_names
    assert names == ["a", "b", "c"] and {type(name) for name in names} == {str}


def test_columns_that_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="column split is not saved"):
        Snapshot(FEATURES, WEIGHT, LABELS, columns={"split": [None, *"abcdefghijk"]}).save(tmp_path / "t.npz")
    saved = Snapshot.load(tmp_path / "t.npz")
    assert len(saved) == 12 and "split" not in saved.column_names


@pytest.mark.parametrize("name", ["snapshot", "s.parquet", "s.npy", "s.npz.tmp"])
def test_a_snapshot_is_saved_under_a_name_that_loads(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="a snapshot is saved as .npz"):
        Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    Snapshot(FEATURES, WEIGHT, LABELS).save(tmp_path / "S.NPZ")
    assert len(Snapshot.load(tmp_path / "S.NPZ")) == 12

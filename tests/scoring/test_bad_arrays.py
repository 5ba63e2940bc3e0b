"""Arrays that cannot be right, and arrays that only look so.

Either a clear error, exit code 2 and no output, or the row stays with null scores and its status. Each test is named
after the fault; all go through `hardsight.score` and, saved as a snapshot, through `hardsight score`.
"""

from __future__ import annotations

import csv
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import hardsight
import refusals
from hardsight import SCORES, Head, score
from hardsight.errors import FileError, InputError
from oracles import angle_table
from properties import examples

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(6, 4)).astype(np.float32)
WEIGHT = RNG.normal(size=(3, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def with_row(row: int, values: Any, features: np.ndarray = FEATURES) -> np.ndarray:
    changed = features.copy()
    changed[row] = values
    return changed


def columns(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names if name != "id"}


@pytest.fixture
def refused(tmp_path: Path, cli: Callable[..., Any]) -> Callable[..., None]:
    """The function and the command reject these arrays, with a message that matches `match`."""

    def check(
        match: str, *, head: Any = WEIGHT, features: Any = FEATURES, labels: Any = LABELS, options: tuple = (), **more: Any
    ) -> None:
        with pytest.raises(InputError, match=match):
            score(features, head, labels, strict="--strict" in options, **more)
        given = {"features": features, "weight": head, "labels": labels, **more}
        snapshot, out = tmp_path / "snapshot.npz", tmp_path / "scores.parquet"
        np.savez(snapshot, **{name: value for name, value in given.items() if value is not None})
        done = cli("score", snapshot, "-o", out, *options)
        refusals.refused(done, str(snapshot))
        assert re.search(match, done.err)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["snapshot.npz"]

    return check


@pytest.fixture
def quarantined(tmp_path: Path, cli: Callable[..., Any], refused: Callable[..., None]) -> Callable[..., None]:
    """Row 2 stays in place with null scores and this status; the others are bit-identical; strict rejects it."""

    def check(features: np.ndarray, status: str) -> None:
        table = score(features, WEIGHT, LABELS)
        without = score(np.delete(features, 2, axis=0), WEIGHT, np.delete(LABELS, 2))
        everything, others = columns(table), columns(without)
        assert everything["status"][2] == status
        assert everything["label"][2] == 2 and everything["predicted"][2] is None
        for name in everything:
            assert everything[name][:2] + everything[name][3:] == others[name]
            assert name not in SCORES or everything[name][2] is None
        assert 2 not in hardsight.table.hardest(table, "avh").column("id").to_pylist()
        assert np.isnan(hardsight.avh(features, WEIGHT, LABELS)).tolist() == [False, False, True, False, False, False]
        snapshot, out = tmp_path / "kept.npz", tmp_path / "kept.parquet"
        np.savez(snapshot, features=features, weight=WEIGHT, labels=LABELS)
        done = cli("score", snapshot, "-o", out)
        assert done.code == 0 and f"1 {status}" in done.out
        assert columns(pq.read_table(out)) == everything
        snapshot.unlink(), out.unlink()
        refused(f"row 2 .*{status}", features=features, options=("--strict",))

    return check


@pytest.mark.parametrize("row", [[1, np.nan, 1, 1], [1, np.inf, 1, 1], [1, -np.inf, 1, 1], [np.inf, -np.inf, np.nan, 0]])
def test_features_that_are_not_finite(quarantined: Callable[..., None], row: list[float]) -> None:
    quarantined(with_row(2, row), "nonfinite_feature")


def test_zero_norm_feature_is_not_a_right_angle(quarantined: Callable[..., None]) -> None:
    quarantined(with_row(2, 0.0), "zero_norm")
    assert np.isnan(hardsight.scores.own_angle(with_row(2, 0.0), WEIGHT, LABELS)[2])
    assert np.isnan(hardsight.geometry.angles(with_row(2, 0.0), WEIGHT)[2]).all()


@settings(max_examples=examples(40))
@given(
    n=st.integers(2, 1200),
    c=st.sampled_from([2, 3, 40]),
    d=st.sampled_from([3, 16]),
    dtype=st.sampled_from([np.float32, np.float64]),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 0.0]),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_to_03_the_other_rows_keep_every_bit(n: int, c: int, d: int, dtype: Any, value: float, seed: int, data: Any) -> None:
    rng = np.random.default_rng(seed)
    features, weight = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(c, d)).astype(dtype)
    labels, bad = rng.integers(0, c, n), sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=4)))
    features[bad] = value
    whole, rest = score(features, weight, labels), score(np.delete(features, bad, axis=0), weight, np.delete(labels, bad))
    kept = np.delete(np.arange(n), bad)
    for name, column in columns(rest).items():
        assert columns(whole.take(kept))[name] == column


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20])
def test_denormal_norm_is_scored(scale: float) -> None:
    direction = FEATURES[2].astype(np.float64)
    small = (direction * scale).astype(np.float32)
    rescaled = small.astype(np.float64) / scale  # what is left of the digits
    table = score(with_row(2, small), WEIGHT, LABELS)
    assert table.column("status").to_pylist() == ["ok"] * 6
    expected = hardsight.scores.own_angle(rescaled[None], WEIGHT, LABELS[2:3])
    assert table.column("own_angle").to_numpy()[2] == pytest.approx(expected[0], abs=1e-5)
    assert np.isfinite(table.column("avh").to_numpy()).all()
    assert table.column("norm").to_numpy()[2] == pytest.approx(np.linalg.norm(rescaled) * scale, rel=1e-6)


@pytest.mark.parametrize("scale", [1e18, 1e20, 1e37])
def test_huge_features_have_finite_angles_and_norms(scale: float) -> None:
    huge = FEATURES[2] * np.float32(scale)
    table = score(with_row(2, huge), WEIGHT, LABELS)
    plain = score(FEATURES, WEIGHT, LABELS)
    for name in ("own_angle", "nearest_angle", "avh", "angular_gap", "avc_label"):
        assert table.column(name).to_numpy()[2] == pytest.approx(plain.column(name).to_numpy()[2], abs=1e-5)
    assert table.column("norm").to_numpy()[2] == pytest.approx(np.linalg.norm(huge.astype(np.float64)), rel=1e-6)
    assert hardsight.geometry.angles(with_row(2, huge), WEIGHT)[2] == pytest.approx(angle_table(huge[None], WEIGHT)[0], rel=1e-6)


def test_features_of_all_sizes_in_one_array() -> None:
    sizes = 10.0 ** np.arange(-300, 301, 60)
    features = sizes[:, None] * FEATURES[2].astype(np.float64)
    values = hardsight.avh(features, WEIGHT, np.zeros(len(sizes), int))
    assert values == pytest.approx(np.full(len(sizes), values[5]), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "torch float16", "torch bfloat16"])
def test_half_precision_is_widened_before_squaring(dtype: str) -> None:
    wide = np.full((2, 2048), 300.0, dtype=np.float32)
    wide[1, ::2] = -256.0
    weight = RNG.normal(size=(3, 2048)).astype(np.float32)
    half: Any
    if dtype.startswith("torch"):
        half = torch.from_numpy(wide).to(getattr(torch, dtype.split()[1]))
        same = half.float()
    else:
        half = wide.astype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
        same = half.astype(np.float32)
    assert columns(score(half, weight, [0, 1])) == columns(score(same, weight, [0, 1]))
    assert np.isfinite(hardsight.scores.norm(half)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_tensors_with_bad_rows(dtype: str) -> None:
    half = torch.from_numpy(with_row(2, 0.0)).to(getattr(torch, dtype))
    table = score(half, WEIGHT, LABELS, scores="all")
    assert table.column("status").to_pylist() == ["ok", "ok", "zero_norm", "ok", "ok", "ok"]
    assert columns(table) == columns(score(half.float(), WEIGHT, LABELS, scores="all"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 64, 2048])
def test_feature_identical_to_its_class_vector(dtype: Any, d: int) -> None:
    weight = np.random.default_rng(d).normal(size=(200, d)).astype(dtype)
    labels = np.arange(200)
    assert hardsight.avh(weight, weight, labels).tolist() == [0.0] * 200
    assert hardsight.scores.own_angle(3 * weight, weight, labels) == pytest.approx(np.zeros(200), abs=1e-7)
    assert np.diag(hardsight.geometry.angles(weight, weight)) == pytest.approx(np.zeros(200), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_feature_opposite_to_its_class_vector(dtype: Any) -> None:
    weight = np.random.default_rng(1).normal(size=(200, 64)).astype(dtype)
    labels = np.arange(200)
    assert hardsight.scores.own_angle(-weight, weight, labels) == pytest.approx(np.full(200, np.pi), abs=1e-6)
    table = score(-weight, weight, labels)
    assert table.column("status").to_pylist() == ["ok"] * 200 and table.column("avh").null_count == 0
    assert hardsight.scores.own_angle(-weight, weight, labels).max() <= np.float32(np.pi)


@given(st.integers(0, 2**12 - 1), st.integers(0, 2**6 - 1), st.sampled_from([np.float32, np.float64]))
def test_negative_zeros_change_no_bit(pattern: int, weight_pattern: int, dtype: Any) -> None:
    bits = np.array([(pattern >> i) & 1 for i in range(12)], bool).reshape(4, 3)
    weight_bits = np.array([(weight_pattern >> i) & 1 for i in range(6)], bool).reshape(2, 3)
    features = np.where(bits, 0.0, RNG_SIGNS).astype(dtype)
    weight = np.where(weight_bits, 0.0, RNG_SIGNS[:2]).astype(dtype)
    weight[(weight == 0).all(1)] = 1.0
    negative = np.where(features == 0, dtype(-0.0), features), np.where(weight == 0, dtype(-0.0), weight)
    assert np.signbit(negative[0][bits]).all()
    labels = [0, 1, 0, 1]
    assert columns(score(*negative, labels)) == columns(score(features, weight, labels))


RNG_SIGNS = np.array([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0], [-7.0, -8.0, 9.0], [1.0, 1.0, -1.0]])


def test_zero_class_vector(refused: Callable[..., None]) -> None:
    head = with_row(2, 0.0, WEIGHT)
    refused("direction.*class 2.*--scores confidence,loss", head=head)
    with pytest.raises(InputError, match="every class vector needs a direction.*class 2"):
        Head("cosine", head)
    logits = FEATURES @ head.T
    expected = np.exp(logits[range(6), LABELS]) / np.exp(logits).sum(1)
    assert score(FEATURES, head, LABELS, scores="confidence").column("confidence").to_numpy() == pytest.approx(expected)
    assert np.isfinite(score(FEATURES, np.zeros_like(WEIGHT), LABELS, scores="loss,norm").column("loss").to_numpy()).all()


@pytest.mark.parametrize("label", [2**31, 2**62])
def test_label_out_of_range_without_a_head(refused: Callable[..., None], label: int) -> None:
    refused(str(label), head=None, labels=np.array([0, 1, 0, 1, 0, label]))
    with pytest.raises(InputError, match=str(label)):
        hardsight.scores.norm_in_class(FEATURES, [0, 1, 0, 1, 0, label])


@pytest.mark.parametrize("unlabeled", [np.array([0, -1, 2, 0, 1, 2]), np.array([0, np.nan, 2, 0, 1, 2]), [0, None, 2, 0, 1, 2]])
def test_unlabeled_rows_have_no_label_scores(unlabeled: Any) -> None:
    table, plain = score(FEATURES, WEIGHT, unlabeled), score(FEATURES, WEIGHT, LABELS)
    row, same = table.slice(1, 1).to_pylist()[0], plain.slice(1, 1).to_pylist()[0]
    assert row["label"] is None and row["status"] == "unlabeled"
    assert row["predicted"] == same["predicted"]
    for name, one in SCORES.items():
        if one.default:
            assert row[name] == (None if one.labels else pytest.approx(same[name], rel=1e-6))


def test_whole_float_labels_are_accepted() -> None:
    assert columns(score(FEATURES, WEIGHT, LABELS.astype(float))) == columns(score(FEATURES, WEIGHT, LABELS))
    assert columns(score(FEATURES, WEIGHT, [0, 1.0, 2, 0, 1, np.int8(2)])) == columns(score(FEATURES, WEIGHT, LABELS))
    flags = score(FEATURES, WEIGHT[:2], torch.from_numpy(LABELS > 0))
    assert flags.column("label").to_pylist() == (LABELS > 0).astype(int).tolist()


@pytest.mark.parametrize(
    ("match", "arrays"),
    [
        *(("class vectors.*class 1", {"head": with_row(1, [0, bad, 0, 0], WEIGHT)}) for bad in (np.nan, np.inf, -np.inf)),
        *((rf"2 of 6 .*1 \({k}\), 3 \({k}\)", {"labels": np.array([0, k, 1, k, 2, 0])}) for k in (-2, 3, 2**31, 2**62)),
        (r"6 of 6 .*0 \(7\), 1 \(7\), 2 \(7\), 3 \(7\), 4 \(7\)\.", {"labels": np.full(6, 7)}),  # five rows at most
        ("one entry per sample", {"ids": np.arange(5)}),
        ("at least one class", {"head": np.zeros((0, 4)), "labels": None}),
        (r"\(6, 4\).*\(3, 5\)", {"head": np.ones((3, 5))}),
        (r"transposed: pass weight\.T", {"head": np.ascontiguousarray(WEIGHT.T)}),
        *(("label", {"labels": np.zeros(shape, int)}) for shape in (5, 7, (6, 1), ())),
        (r"whole numbers.*3 \(0\.5\)", {"labels": np.array([0, 1, 2, 0.5, 1, 2])}),
        (r"3 \(inf\)", {"labels": np.array([0, 1, 2, np.inf, 1, 2])}),
        ("classes have none to join", {"labels": np.array(["cat", "dog"] * 3)}),
        ("classes have none to join", {"labels": np.array([True, False] * 3)}),
    ],
)
def test_arrays_and_files_that_are_refused(refused: Callable[..., None], match: str, arrays: dict[str, Any]) -> None:
    refused(match, **arrays)


def test_empty_dataset(tmp_path: Path, cli: Callable[..., Any]) -> None:
    empty = np.zeros((0, 4), np.float32)
    table = score(empty, WEIGHT, np.zeros(0, int), scores="all")
    names = [name for name in SCORES if SCORES[name].scope in ("row", "dataset")]
    assert len(table) == 0 and table.column_names == ["id", "label", "predicted", "status", *names]
    assert hardsight.avh(empty, WEIGHT, []).shape == (0,)
    snapshot = tmp_path / "empty.npz"
    np.savez(snapshot, features=empty, weight=WEIGHT, labels=np.zeros(0, int))
    for out in (tmp_path / "scores.parquet", tmp_path / "scores.csv", tmp_path / "scores.json"):
        done = cli("score", snapshot, "-o", out, "--scores", "all")
        assert done.code == 0 and "n = 0 " in done.out
    assert pq.read_table(tmp_path / "scores.parquet").schema.equals(table.schema, check_metadata=True)
    assert next(csv.reader((tmp_path / "scores.csv").read_text().splitlines())) == table.column_names
    assert json.loads((tmp_path / "scores.json").read_text()) == []


def test_one_class() -> None:
    along = np.vstack([FEATURES[:2], 2 * WEIGHT[:1]])
    table = score(along, WEIGHT[:1], [0, 0, 0])
    assert table.column("avh").to_pylist() == [1.0, 1.0, None]
    assert table.column("status").to_pylist() == ["ok", "ok", "all_angles_zero"]
    assert table.column("own_angle").to_pylist()[2] == pytest.approx(0, abs=1e-7)
    against = score(-along, WEIGHT[:1], [0, 0, 0])
    assert against.column("status").to_pylist() == ["ok", "ok", "all_angles_pi"]
    assert against.column("avc_label").to_pylist()[2] is None and against.column("avh").to_pylist()[2] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1, 2, 3, 7])
def test_all_classes_in_one_direction(factor: int, dtype: Any) -> None:
    one = np.array([[1.0, 2.0, 5.0]], dtype)
    weight, features = np.vstack([one, 3 * one, 10 * one]), np.vstack([factor * one, -factor * one])
    table = score(features, weight, [1, 1])
    assert table.column("status").to_pylist() == ["all_angles_zero", "all_angles_pi"]
    assert table.column("avh").to_pylist() == [None, pytest.approx(1 / 3)]
    assert table.column("avc_label").to_pylist() == [pytest.approx(1 / 3), None]
    assert table.column("avc_predicted").to_pylist() == [pytest.approx(1 / 3), None]


def test_a_million_classes_in_little_memory() -> None:
    c, d = 1_000_000, 8
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(c, d)).astype(np.float32)
    features, labels = rng.normal(size=(60, d)).astype(np.float32), rng.integers(0, c, 60)
    tracemalloc.start()
    values = hardsight.avh(features, weight, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * weight.nbytes + 64 * 2**20  # an n x c table would be 240 MB
    few = slice(0, 60, 20)
    theta = np.stack([one_against_all(x, weight) for x in features[few]])
    expected = theta[np.arange(len(theta)), labels[few]] / theta.sum(1)
    assert values[few] == pytest.approx(expected, rel=1e-6)


def one_against_all(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    w = weight.astype(np.float64)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    return np.arccos(np.clip(w @ (x / np.linalg.norm(x.astype(np.float64))), -1, 1))


@pytest.mark.parametrize("ids", [np.array([1, 2, 3, 4, 5, 2]), np.array(["a", "b", "c", "d", "e", "b"])])
def test_duplicated_ids(refused: Callable[..., None], tmp_path: Path, cli: Callable[..., Any], ids: np.ndarray) -> None:
    refused(r"row 5 repeats ['2b].* of row 1.*allow_duplicates=True", ids=ids)
    both = score(FEATURES, WEIGHT, LABELS, ids=ids, allow_duplicates=True)
    assert both.column("id").to_pylist() == ids.tolist()
    assert columns(both) == columns(score(FEATURES, WEIGHT, LABELS))
    done = cli("score", tmp_path / "snapshot.npz", "--allow-duplicates", "-o", tmp_path / "scores.parquet")
    assert done.code == 0 and pq.read_table(tmp_path / "scores.parquet").column("id").to_pylist() == ids.tolist()


STRANGE = ["", "line\nbreak", 'quote " and, comma', "x" * 10_000, "ünï/コード 🙂", " space "]
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "plain"]  # which a spreadsheet would run


@pytest.mark.parametrize(("ids", "in_csv"), [(STRANGE, STRANGE), (FORMULAS, [*("'" + id for id in FORMULAS[:5]), "plain"])])
def test_strange_ids_come_back_as_they_went_in(
    tmp_path: Path, cli: Callable[..., Any], ids: list[str], in_csv: list[str]
) -> None:
    assert score(FEATURES, WEIGHT, LABELS, ids=ids).column("id").to_pylist() == ids
    np.savez(tmp_path / "s.npz", features=FEATURES, weight=WEIGHT, labels=LABELS, ids=np.array(ids))
    for ending in ("parquet", "csv", "json"):
        assert cli("score", tmp_path / "s.npz", "-o", tmp_path / f"s.{ending}").code == 0
    assert pq.read_table(tmp_path / "s.parquet").column("id").to_pylist() == ids
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == in_csv
    gap = hardsight.scores.angular_gap(FEATURES, WEIGHT, LABELS)
    assert [float(row["angular_gap"]) for row in rows] == pytest.approx(gap)  # numbers stay
    assert [row["id"] for row in json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))] == ids


NONE: dict[str, Any] = {"features": None, "head": None}


def objects(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"features": np.ones(4)}, "two-dimensional"),
        ({"features": np.ones((2, 2, 2))}, "two-dimensional"),
        ({"features": np.array([["a", "b"]])}, "numbers"),
        ({"features": np.ones((2, 2), complex)}, "numbers"),
        ({"features": [[1.0, 2.0], [3.0]]}, "rectangular"),
        ({"features": csr_matrix(FEATURES)}, r"got csr_matrix. Pass features.toarray\(\)"),
        ({"features": pa.array([[1.0, 2.0], [1.0]])}, "features: row 1 has 1 values where the first has 2"),
        ({"features": pa.array([["a", "b"], ["c", "d"]])}, "features: lists must hold numbers, got string"),
        ({"features": pa.array([[True, False]] * 2)}, "features: lists must hold numbers, got bool"),
        ({"features": pa.array([None, None], pa.list_(pa.float32()))}, "at least one column"),
        ({"features": pa.array([[], []], pa.list_(pa.float32()))}, "at least one column"),
        ({"logits": np.ones((6, 3)), "head": None}, "features, logits or probs"),
        (NONE, "features, logits or probs"),
        (NONE | {"probs": np.array([[0.4, 0.4], [0.5, 0.5]]), "labels": [0, 0]}, "sum to 1.*row 0 sums to 0.8"),
        (NONE | {"probs": np.array([[0.5, 0.5], [-0.5, 1.5]]), "labels": [0, 0]}, "row 1 .*smallest value -0.5"),
        ({"features": None, "logits": np.ones((2, 3))}, "a head goes with features"),
        ({"features": np.full((6, 4), -1e30), "head": None}, "class 0.*same for every sample"),
        ({"features": np.full((6, 4), 0.1), "head": None}, "class 0.*same for every sample"),
        ({"features": 1e200 * FEATURES.astype(float), "head": None}, "must be below 1e150"),
        *(({"features": torch.ones(6, 4).to(kind)}, "features must hold numbers") for kind in (torch.bool, torch.complex64)),
        ({"head": None, "labels": np.zeros(6, int)}, "two classes"),
        ({"head": None, "labels": [0, 0, 0, 0, 0, 1]}, "class 1 has one"),
        ({"head": Head("linear", WEIGHT), "bias": np.ones(3)}, "bias"),
        ({"bias": np.ones(2)}, r"bias must have shape \(3,\)"),
        ({"bias": np.array([0, np.nan, 0])}, "bias must be finite"),
        ({"bias": [[1.0], [1.0, 2.0], 3.0]}, "bias must be a rectangular array"),
        ({"bias": [True, False, True]}, "bias must hold numbers, got bool"),
        ({"bias": np.array([1, 2, 3j])}, "bias must hold numbers, got complex"),
        ({"bias": {1, 2, 3}}, "bias must be an array or a list, got set"),
        ({"bias": "abc"}, "bias must be an array or a list, got str"),
        ({"bias": [[1.0, 2.0, 3.0]]}, r"bias must have shape \(3,\)"),
        ({"bias": torch.tensor([True, False, True])}, r"bias must hold numbers, got torch\.bool"),
        ({"head": "weight.npy"}, "got .*To use files, pass them all as paths"),
        ({"labels": Path("labels.npy")}, "got .*To use files, pass them all as paths"),
        *(({"labels": objects(0, one, 2, 0, None, 2)}, "row 1 holds") for one in ("cat", True, b"1", [1])),
        ({"labels": [10**400, 0, 1, 2, 0, 1]}, "over 300 digits"),
        *(({"labels": [0, 1, flag, 0, 1, 2]}, "class indices 0..c-1, but row 2 holds") for flag in (True, np.True_)),
        *(({"ids": objects(*ids)}, "all strings or all integers") for ids in (["a", 1] * 3, [1.5] * 6, [True, False] * 3)),
        *(({"ids": objects(*ids)}, "all strings or all integers") for ids in ([None] * 6, ["a", None, "b", "c", "d", "e"])),
        *(({"ids": make([*"abcd", "x\udc80", "f"])}, r"row 4 has half .*'x\\udc80'") for make in (list, np.array)),
        ({"ids": objects(*"abcd", "x\udc80", "f")}, r"row 4 has half a surrogate pair: 'x\\udc80'"),
        ({"ids": np.arange(2**63, 2**63 + 6, dtype=np.uint64)}, "row 0 holds 9223372036854775808"),
        ({"ids": [2**70, 1, 2, 3, 4, 5]}, f"row 0 holds {2**70}. Pass such ids as strings"),
        ({"ids": (0, 1, 2, 3, 4, -(2**63) - 1)}, f"row 5 holds {-(2**63) - 1}. Pass such ids as strings"),
        ({"ids": objects(2**63, 1, 2, 3, 4, 5)}, f"row 0 holds {2**63}. Pass such ids as strings"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        score(**{"features": FEATURES, "head": WEIGHT, "labels": LABELS} | arrays)


# ---- arrays that are of the wrong kind ----


def test_the_largest_integer_ids() -> None:
    ends = [-(2**63), 2**63 - 1, 0, 1, 2, 3]
    assert score(FEATURES, WEIGHT, LABELS, ids=ends).column("id").to_pylist() == ends


def test_ids_in_parquet_that_are_not_text(tmp_path: Path, cli: Callable[..., Any]) -> None:
    broken = pa.array([b"a", b"\xff\xfe"], pa.binary()).view(pa.string())
    features = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES[:2].ravel()), 4)
    pq.write_table(pa.table({"id": broken, "features": features, "label": [0, 1]}), tmp_path / "s.parquet")
    with pytest.raises(FileError, match=r"s\.parquet: the column id must hold UTF-8"):
        score(tmp_path / "s.parquet", WEIGHT)
    large = pa.array([2**63, 1], pa.uint64())
    pq.write_table(pa.table({"id": large, "features": features, "label": [0, 1]}), tmp_path / "s.parquet")
    with pytest.raises(InputError, match=r"s\.parquet: integer ids must lie between"):
        score(tmp_path / "s.parquet", WEIGHT)


@pytest.mark.parametrize("ids", [[7, 5, 7], ["b", "a", "b"]])
def test_ids_in_parquet_as_categories(tmp_path: Path, ids: list[Any]) -> None:
    features = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES[:3].ravel()), 4)
    pq.write_table(pa.table({"id": pa.array(ids).dictionary_encode(), "features": features}), tmp_path / "s.parquet")
    assert score(tmp_path / "s.parquet", WEIGHT, allow_duplicates=True).column("id").to_pylist() == ids


@pytest.mark.parametrize("name", ["features", "head", "labels", "ids", "bias", "logits", "probs"])
def test_masked_arrays_are_refused(name: str) -> None:
    arrays = {"features": FEATURES, "head": WEIGHT, "labels": LABELS, "ids": np.arange(6), "bias": np.zeros(3)}
    if name in ("logits", "probs"):
        arrays = {name: np.full((6, 3), 1 / 3), "labels": LABELS}
    mask = np.zeros(arrays[name].shape, bool)
    mask.flat[1] = True
    fix = {"labels": r"filled\(-1\)", "features": r"filled\(np\.nan\)"}.get(name, "filled")
    with pytest.raises(InputError, match=f"{'weight' if name == 'head' else name} is a masked array.*{fix}"):
        score(**arrays | {name: np.ma.array(arrays[name], mask=mask)})  # type: ignore[arg-type]


def test_a_matrix_is_an_array() -> None:
    with pytest.warns(PendingDeprecationWarning):
        same = np.matrix(FEATURES)
    assert columns(score(same, WEIGHT, LABELS, scores="all")) == columns(score(FEATURES, WEIGHT, LABELS, scores="all"))


TENSORS = {
    "sparse": (lambda x: x.to_sparse(), "a dense tensor, got torch.sparse_coo; pass .*to_dense"),
    "meta": (lambda x: x.to("meta"), "meta device and has a shape but no values"),
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("name", ["features", "head", "labels", "bias", "ids"])
def test_tensors_without_rows_of_values(kind: str, name: str) -> None:
    make, match = TENSORS[kind]
    arrays = {"features": FEATURES, "head": WEIGHT, "labels": LABELS, "bias": np.zeros(3), "ids": np.arange(6)}
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    with pytest.raises(InputError, match=match):
        score(**tensors | {name: make(tensors[name])})


@pytest.mark.parametrize("name", ["features", "head", "labels", "ids"])
@pytest.mark.parametrize("value", [{0, 1}, {0: 1}, (i for i in range(6)), object(), map(int, "012"), "text", b"bytes", 3, 2.5])
def test_things_that_are_no_arrays(name: str, value: Any) -> None:
    arrays = {"features": FEATURES, "head": WEIGHT, "labels": LABELS, "ids": np.arange(6), name: value}
    if name == "features" and isinstance(value, str):
        return  # that would be a path
    with pytest.raises(InputError, match="weight" if name == "head" else name):
        score(**arrays)


def test_null_as_pandas_writes_it() -> None:
    pd = pytest.importorskip("pandas")
    for labels in (pd.Series([pd.NA, *LABELS[1:]]), pd.Series([pd.NA, *LABELS[1:]], dtype="Int64"), [pd.NA, *LABELS[1:]]):
        assert score(FEATURES, WEIGHT, labels).column("status").to_pylist() == ["unlabeled"] + ["ok"] * 5


def test_a_linear_layer_is_a_head() -> None:
    layer = torch.nn.Linear(4, 3)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert columns(score(FEATURES, layer, LABELS)) == columns(score(FEATURES, weight, LABELS, bias=bias))
    bare = torch.nn.Linear(4, 3, bias=False)
    assert hardsight.avh(FEATURES, bare, LABELS).tolist() == hardsight.avh(FEATURES, bare.weight, LABELS).tolist()
    with pytest.raises(InputError, match="weight has no values yet"):
        score(FEATURES, torch.nn.LazyLinear(3), LABELS)
    with pytest.raises(InputError, match="a layer already has its own"):
        score(FEATURES, layer, LABELS, bias=bias)
    for module in (torch.nn.Sequential(layer), torch.nn.Conv2d(1, 1, 1), torch.nn.Identity()):
        with pytest.raises(InputError, match=f"got the module {type(module).__name__}: pass its nn.Linear"):
            score(FEATURES, module, LABELS)


@pytest.mark.parametrize("name", ["features", "logits", "probs"])
def test_no_column(refused: Callable[..., None], name: str) -> None:
    refused(rf"{name} must have at least one column.*got shape \(6, 0\)", **NONE | {name: np.zeros((6, 0))})


def test_a_class_whose_samples_are_all_broken_has_no_head() -> None:
    features, labels = RNG.normal(size=(30, 4)), np.arange(30) % 2
    labels[:3] = 2
    with pytest.raises(InputError, match="no sample can be scored: every row is all zeros, or holds a value"):
        score(np.nan * features, labels=labels)
    for broken in (np.nan, 0.0):
        features[:3] = broken
        with pytest.raises(InputError, match="finite features that are not all 0.*class 2 has none"):
            score(features, labels=labels)


# ---- lists in each row ----


def list_columns(rows: np.ndarray) -> dict[str, Any]:
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return {
        "list": pa.array(rows.tolist(), pa.list_(pa.float32())),
        "large list": pa.array(rows.tolist(), pa.large_list(pa.float32())),
        "fixed": fixed,
        "slice": pa.concat_arrays([fixed.slice(2), fixed]).slice(len(rows) - 2, len(rows)),
        "chunks": pa.chunked_array([fixed.slice(0, 1), fixed.slice(1, 3), fixed.slice(4)]),
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (rows.shape[1],)), fixed),
        "pandas": pytest.importorskip("pandas").Series(list(rows)),
    }


@pytest.mark.parametrize("kind", list_columns(FEATURES))
def test_columns_of_lists_are_features(kind: str) -> None:
    expected = columns(score(FEATURES, WEIGHT, LABELS))
    assert columns(score(list_columns(FEATURES)[kind], WEIGHT, LABELS)) == expected
    assert columns(score(FEATURES, list_columns(WEIGHT)[kind] if kind not in ("slice", "chunks") else WEIGHT, LABELS)) == expected
    avh = hardsight.avh(list_columns(FEATURES)[kind], WEIGHT, LABELS)
    assert avh.tolist() == hardsight.avh(FEATURES, WEIGHT, LABELS).tolist()


def test_a_null_list_in_memory_keeps_its_place() -> None:
    rows = FEATURES.tolist()
    for column in (pa.array([*rows[:2], None, *rows[3:]]), pa.array([*rows[:2], None, *rows[3:]], pa.list_(pa.float32(), 4))):
        table, whole = score(column, WEIGHT, LABELS), score(FEATURES.astype(np.float64), WEIGHT, LABELS)
        assert table.column("status").to_pylist() == ["ok", "ok", "missing_feature", "ok", "ok", "ok"]
        kept = [0, 1, 3, 4, 5]
        assert table.column("avh").to_numpy()[kept] == pytest.approx(whole.column("avh").to_numpy()[kept], rel=1e-6)

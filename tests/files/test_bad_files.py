"""Files that lie, are truncated or would run code: a clear error that names the file, exit code 2, no output.

Each test is named after the fault. Wherever a file could run code, it tries to leave a canary behind.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hardsight
from hardsight import HardsightError, Snapshot, score
from hardsight.files.heads import load_head, save_head
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.samples import write_samples
from properties import examples

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 4)).astype(np.float32)
WEIGHT = RNG.normal(size=(3, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 40)
EXPECTED = hardsight.avh(FEATURES, WEIGHT, LABELS)


@pytest.fixture
def refused(tmp_path: Path, cli: Callable[..., Any]) -> Callable[..., None]:
    """`score` and the command reject this snapshot, naming the file."""

    def check(match: str, path: Path, head: Path | None = None) -> None:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(HardsightError, match=match) as caught:
            score(path, head=head)
        named = head if head is not None else path
        assert str(named) in str(caught.value)
        out = tmp_path / "scores.parquet"
        done = cli("score", path, "-o", out, *([] if head is None else ["--head", head]))
        assert done.code == 2 and str(named) in done.err and done.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.fixture
def weight_file(tmp_path: Path) -> Path:
    np.save(tmp_path / "weight.npy", WEIGHT)
    return tmp_path / "weight.npy"


@pytest.fixture
def features_file(tmp_path: Path) -> Path:
    np.save(tmp_path / "good-features.npy", FEATURES)
    return tmp_path / "good-features.npy"


class Canary:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def npy_with_header(header: dict[str, Any] | str, data: bytes = b"") -> bytes:
    text = header if isinstance(header, str) else repr(header)
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


# ---- .npy ----


@pytest.mark.parametrize("kept", [0, 5, 9, 60, 127, 128, 129, 300, -1])
def test_truncated_npy(refused: Callable[..., None], tmp_path: Path, kept: int) -> None:
    np.save(tmp_path / "f.npy", FEATURES)
    whole = (tmp_path / "f.npy").read_bytes()
    (tmp_path / "f.npy").write_bytes(whole[:kept])
    refused("truncated" if len(whole[:kept]) >= 128 else "not a readable .npy", tmp_path / "f.npy")


def test_npy_with_bytes_after_its_end(refused: Callable[..., None], tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", FEATURES)
    with (tmp_path / "f.npy").open("ab") as file:
        file.write(b"more")
    refused("damaged", tmp_path / "f.npy")


def test_truncated_weight_and_labels(
    refused: Callable[..., None], tmp_path: Path, weight_file: Path, features_file: Path
) -> None:
    weight_file.write_bytes(weight_file.read_bytes()[:-3])
    refused("truncated", features_file, head=weight_file)


def test_npy_with_a_pickle_inside(refused: Callable[..., None], tmp_path: Path) -> None:
    trap = np.empty(1, dtype=object)
    trap[0] = Canary(tmp_path / "canary")
    np.save(tmp_path / "f.npy", trap, allow_pickle=True)
    assert b"mkdir" in (tmp_path / "f.npy").read_bytes()
    refused("Python objects", tmp_path / "f.npy")
    np.savez(tmp_path / "f.npz", features=FEATURES, weight=WEIGHT, labels=trap)
    refused("Python objects", tmp_path / "f.npz")
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "header",
    [
        {"descr": "<f4", "fortran_order": False, "shape": (2**46, 1)},
        {"descr": "<f4", "fortran_order": False, "shape": (2**63, 2**63)},
        {"descr": "<f4", "fortran_order": False, "shape": (-1, 4)},
        {"descr": "<f4", "fortran_order": False, "shape": (-2, -2)},
        {"descr": "<f4", "fortran_order": False, "shape": (1,) * 1000},
        {"descr": "<f4", "fortran_order": False, "shape": (4, 4.5)},
        {"descr": "<f4", "fortran_order": False},
        {"descr": "<U99999999", "fortran_order": False, "shape": (4,)},
        "__import__('os').mkdir('canary')",
        "{" * 5000,
    ],
)
def test_header_that_cannot_be_true(
    refused: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.npy").write_bytes(npy_with_header(header, b"\0" * 64))
    refused("f.npy", tmp_path / "f.npy")
    assert not (tmp_path / "canary").exists()


def test_a_million_dimensions(refused: Callable[..., None], tmp_path: Path) -> None:
    text = repr({"descr": "<f4", "fortran_order": False, "shape": (1,) * 10**6}) + "\n"
    (tmp_path / "f.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text.encode() + b"\0" * 4)
    refused("f.npy", tmp_path / "f.npy")


@pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda x: x.astype(x.dtype.newbyteorder(">")), lambda x: x.astype(np.float64)]
)
def test_fortran_order_and_big_endian_are_scored_right(tmp_path: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(tmp_path / "f.npy", change(FEATURES))
    np.save(tmp_path / "w.npy", change(WEIGHT))
    np.save(tmp_path / "y.npy", LABELS.astype(">i4"))
    table = score(tmp_path / "f.npy", tmp_path / "w.npy", tmp_path / "y.npy")
    assert table.column("avh").to_numpy() == pytest.approx(EXPECTED, rel=1e-6)
    np.savez_compressed(tmp_path / "s.npz", features=change(FEATURES), weight=change(WEIGHT), labels=LABELS.astype(">i8"))
    assert score(tmp_path / "s.npz").column("avh").to_numpy() == pytest.approx(EXPECTED, rel=1e-6)


# ---- .npz ----


def npz(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("name", ["../canary.npy", "/tmp/canary.npy", "a/../../canary.npy", "..\\canary.npy", "notes.txt"])
def test_npz_member_with_a_path(refused: Callable[..., None], tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    npz(folder / "s.npz", {"features.npy": npy_bytes(FEATURES), "weight.npy": npy_bytes(WEIGHT), name: npy_bytes(LABELS)})
    refused("unexpected member", folder / "s.npz")
    assert not (tmp_path / "canary.npy").exists()


def test_npz_bomb(refused: Callable[..., None], tmp_path: Path) -> None:
    rows = 2**26 + 1  # 268 MB of zeros
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("weight.npy", npy_bytes(np.ones((2, 1), np.float32)))
        with archive.open("features.npy", "w", force_zip64=True) as member:
            member.write(npy_with_header({"descr": "<f4", "fortran_order": False, "shape": (rows, 1)}))
            for _ in range(16):
                member.write(bytes(4 * 2**22))
            member.write(bytes(4))
    assert (tmp_path / "s.npz").stat().st_size < 2**21
    refused("would expand", tmp_path / "s.npz")


def test_npz_member_that_says_it_is_small(refused: Callable[..., None], tmp_path: Path) -> None:
    """The archive's directory claims fewer bytes than the member holds."""
    path = npz(tmp_path / "s.npz", {"features.npy": npy_bytes(FEATURES)}, zipfile.ZIP_DEFLATED)
    size = len(npy_bytes(FEATURES))
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", size), struct.pack("<I", size - 16)))
    refused("s.npz", path)


@pytest.mark.parametrize("cut", [0, 10, 300, -30])
def test_truncated_npz(refused: Callable[..., None], tmp_path: Path, cut: int) -> None:
    np.savez(tmp_path / "s.npz", features=FEATURES, weight=WEIGHT, labels=LABELS)
    (tmp_path / "s.npz").write_bytes((tmp_path / "s.npz").read_bytes()[:cut])
    refused("not a readable .npz", tmp_path / "s.npz")


def test_flipped_bit_in_npz(refused: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, features=FEATURES, weight=WEIGHT, labels=LABELS)
    whole = bytearray(path.read_bytes())
    whole[whole.index(FEATURES.tobytes()) + 33] ^= 4
    path.write_bytes(whole)
    refused("damaged", path)


def test_array_that_is_there_twice(refused: Callable[..., None], tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for rows in (FEATURES, 2 * FEATURES):
            archive.writestr("features.npy", npy_bytes(rows))
    refused("twice", tmp_path / "s.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"kind": np.array("quadratic")},
        {"kind": np.array(["linear", "linear"])},
        {"kind": np.array("cosine"), "scale": np.array("big")},
        {"kind": np.array("cosine"), "scale": np.ones(2)},
        {"kind": np.array("cosine"), "scale": np.array(-1.0)},
        {"scale": np.array(2.0)},
        {"bias": np.ones(4)},
        {"bias": np.array(["a", "b", "c"])},
        {"class_names": np.array(["a", "b"])},
        {"class_names": np.array("a")},
        {"weight": np.ones(4)},
        {"weight": np.array([["a"] * 4] * 3)},
        {"features": np.ones(4)},
        {"features": np.ones((4, 4), complex)},
        {"labels": np.ones((40, 2), int)},
        {"ids": np.ones(40)},
    ],
)
def test_npz_whose_arrays_do_not_fit(refused: Callable[..., None], tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "s.npz", **{"features": FEATURES, "weight": WEIGHT, "labels": LABELS, **arrays})  # type: ignore[arg-type]
    refused(next(iter(reversed(arrays))).rstrip("s").replace("_", "."), tmp_path / "s.npz")


# ---- .safetensors ----


def safetensors(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


WEIGHT_BYTES = WEIGHT.tobytes()
ONE = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
BAD_SAFETENSORS = {
    "truncated": safetensors({"weight": ONE}, WEIGHT_BYTES[:-1]),
    "truncated header": safetensors({"weight": ONE}, WEIGHT_BYTES)[:30],
    "empty": b"",
    "oversize header": struct.pack("<Q", 2**62) + b"{}",
    "header over the cap": struct.pack("<Q", 200 * 2**20) + b"{}",
    "overlapping": safetensors({"weight": ONE, "bias": {"dtype": "F32", "shape": [3], "data_offsets": [36, 48]}}, WEIGHT_BYTES),
    "dtype lies": safetensors({"weight": {**ONE, "dtype": "F64"}}, WEIGHT_BYTES),
    "shape lies": safetensors({"weight": {**ONE, "shape": [3, 400]}}, WEIGHT_BYTES),
    "overflowing shape": safetensors({"weight": {**ONE, "shape": [2**40, 2**40]}}, WEIGHT_BYTES),
    "unknown dtype": safetensors({"weight": {**ONE, "dtype": "Q7"}}, WEIGHT_BYTES),
    "bytes left over": safetensors({"weight": ONE}, WEIGHT_BYTES + b"more"),
    "not json": safetensors(b"{{{{", WEIGHT_BYTES),
    "no weight": safetensors({"kernel": ONE}, WEIGHT_BYTES),
    "metadata damaged": safetensors({"__metadata__": {"class_names": "[oops"}, "weight": ONE}, WEIGHT_BYTES),
    "unknown kind": safetensors({"__metadata__": {"kind": "quadratic"}, "weight": ONE}, WEIGHT_BYTES),
    "scale is text": safetensors({"__metadata__": {"kind": "cosine", "scale": '"big"'}, "weight": ONE}, WEIGHT_BYTES),
    "scale is a list": safetensors({"__metadata__": {"kind": "cosine", "scale": "[1]"}, "weight": ONE}, WEIGHT_BYTES),
    "class names are numbers": safetensors({"__metadata__": {"class_names": "[1, 2, 3]"}, "weight": ONE}, WEIGHT_BYTES),
    "class names are a number": safetensors({"__metadata__": {"class_names": "7"}, "weight": ONE}, WEIGHT_BYTES),
    "nan weight": safetensors({"weight": ONE}, np.full((3, 4), np.nan, np.float32).tobytes()),
    "html": b"<!doctype html><html><body>404</body></html>",
}


@pytest.mark.parametrize("fault", BAD_SAFETENSORS)
def test_bad_safetensors(refused: Callable[..., None], tmp_path: Path, features_file: Path, fault: str) -> None:
    path = tmp_path / "head.safetensors"
    path.write_bytes(BAD_SAFETENSORS[fault])
    refused("head.safetensors", features_file, head=path)


def test_the_same_bytes_unharmed_are_read(tmp_path: Path) -> None:
    (tmp_path / "head.safetensors").write_bytes(safetensors({"weight": ONE}, WEIGHT_BYTES))
    head, names = load_head(tmp_path / "head.safetensors")
    assert head.kind == "linear" and names is None
    np.testing.assert_array_equal(head.weight, WEIGHT)


# ---- pickles ----


@pytest.mark.parametrize("ending", [".pt", ".pth", ".pkl", ".bin"])
def test_pickles_are_never_loaded(refused: Callable[..., None], tmp_path: Path, features_file: Path, ending: str) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(pickle.dumps({"weight": Canary(tmp_path / "canary")}))
    refused("not loaded", path)
    refused("not loaded", features_file, head=path)
    assert not (tmp_path / "canary").exists()


def test_a_pickle_under_another_name(refused: Callable[..., None], tmp_path: Path) -> None:
    for ending in (".npy", ".npz", ".parquet"):
        path = tmp_path / f"model{ending}"
        path.write_bytes(pickle.dumps({"weight": Canary(tmp_path / "canary")}))
        refused("model", path)
    assert not (tmp_path / "canary").exists()


def test_a_torch_checkpoint_under_another_name(refused: Callable[..., None], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.ones(2, 2)}, tmp_path / "model.npz")
    refused("unexpected member", tmp_path / "model.npz")


# ---- Parquet ----


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def rows(features: np.ndarray) -> pa.Array:
    return pa.array([None if np.isnan(row).all() else row.tolist() for row in features], pa.list_(pa.float32()))


@pytest.mark.parametrize("what", ["truncated", "empty", "wrong magic", "html", "directory", "missing"])
def test_not_parquet(refused: Callable[..., None], tmp_path: Path, weight_file: Path, what: str) -> None:
    path = parquet(tmp_path / "s.parquet", features=rows(FEATURES), label=LABELS)
    whole = path.read_bytes()
    path.unlink()
    if what == "directory":
        path.mkdir()
    elif what != "missing":
        html = b"<!doctype html><html><body>Please log in</body></html>"
        path.write_bytes(
            {"truncated": whole[:-20], "empty": b"", "wrong magic": b"PARX" + whole[4:-4] + b"PARX", "html": html}[what]
        )
    with pytest.raises(HardsightError, match=r"s\.parquet"):
        score(path, weight_file)
    refused(r"s\.parquet", path)


def test_flipped_bits_in_our_samples_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.parquet"
    write_samples(path, FEATURES, {"id": [f"s{i}" for i in range(40)], "label": LABELS})
    whole = path.read_bytes()
    good = score(path, WEIGHT)
    flipped = noticed = 0
    for column in (0, 1, 7):  # id, label and features
        chunk = pq.read_metadata(path).row_group(0).column(column)
        last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        for at in range(last - 20, last):  # the end of the last page, behind its header
            damaged = bytearray(whole)
            damaged[at] ^= 16
            path.write_bytes(damaged)
            flipped += 1
            try:
                assert score(path, WEIGHT).equals(good)
            except HardsightError as error:
                assert str(path) in str(error)
                noticed += 1
    assert noticed == flipped == 60


def test_ragged_rows(refused: Callable[..., None], tmp_path: Path) -> None:
    ragged = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0]], pa.list_(pa.float32()))
    path = parquet(tmp_path / "s.parquet", features=ragged, label=[0, 1, 0])
    refused("row 2 has 1 values where the first has 2", path)


@pytest.mark.parametrize("fixed", [False, True])
def test_null_row_stays_in_its_place(tmp_path: Path, fixed: bool) -> None:
    features = FEATURES.copy()
    features[[0, 7]] = np.nan
    column = rows(features).cast(pa.list_(pa.float32(), 4)) if fixed else rows(features)
    table = score(parquet(tmp_path / "s.parquet", features=column, label=LABELS), WEIGHT)
    status = table.column("status").to_pylist()
    assert status[0] == status[7] == "missing_feature" and status.count("ok") == 38
    kept = [row for row in range(40) if row not in (0, 7)]
    assert table.column("avh").to_numpy()[kept] == pytest.approx(EXPECTED[kept], rel=1e-6)
    assert table.column("avh").to_pylist()[0] is None and table.column("predicted").to_pylist()[7] is None


def test_null_inside_a_row(tmp_path: Path) -> None:
    values = FEATURES.tolist()
    values[3][1] = None
    column = pa.array(values, pa.list_(pa.float32()))
    table = score(parquet(tmp_path / "s.parquet", features=column, label=LABELS), WEIGHT)
    assert table.column("status").to_pylist() == ["ok"] * 3 + ["nonfinite_feature"] + ["ok"] * 36
    assert table.column("avh").to_numpy()[4:] == pytest.approx(EXPECTED[4:], rel=1e-6)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64(), pa.int32()])
def test_numbers_of_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    whole_numbers = np.round(8 * FEATURES)
    column = pa.array(whole_numbers.tolist(), pa.list_(pa.float64())).cast(pa.list_(kind))
    table = score(parquet(tmp_path / "s.parquet", features=column, label=LABELS), WEIGHT)
    assert table.column("avh").to_numpy() == pytest.approx(hardsight.avh(whole_numbers, WEIGHT, LABELS), rel=2e-6)


def test_lists_of_text(refused: Callable[..., None], tmp_path: Path) -> None:
    refused("numbers", parquet(tmp_path / "s.parquet", features=[["a", "b"]] * 4, label=[0, 1, 0, 1]))
    refused("lists of numbers", parquet(tmp_path / "s.parquet", features=["a"] * 4, label=[0, 1, 0, 1]))


@settings(max_examples=examples(30))
@given(
    group=st.integers(1, 41),
    batch=st.integers(1, 41),
    nulls=st.sets(st.integers(0, 39), max_size=6),
    fixed=st.booleans(),
    limit=st.integers(0, 40),
)
def test_row_groups_batches_and_nulls_never_shift_a_row(
    tmp_path: Path, group: int, batch: int, nulls: set[int], fixed: bool, limit: int
) -> None:
    features = FEATURES.copy()
    features[sorted(nulls)] = np.nan
    column = rows(features).cast(pa.list_(pa.float32(), 4)) if fixed else rows(features)
    pq.write_table(pa.table({"features": column, "label": LABELS}), tmp_path / "s.parquet", row_group_size=group)
    snapshot = Snapshot.load(tmp_path / "s.parquet", head=WEIGHT)
    for start, stop in ((0, 40), (0, limit), (limit, 40)):
        read = list(snapshot.batches(start, stop, rows=batch))
        values = np.concatenate([part.values for part in read]) if read else np.zeros((0, 4))
        np.testing.assert_array_equal(values, features[start:stop])
        assert [label for part in read for label in part.labels] == LABELS[start:stop].tolist()
        assert [one for part in read for one in part.ids] == list(range(start, stop))


def test_missing_column(refused: Callable[..., None], tmp_path: Path) -> None:
    refused("needs one column named features", parquet(tmp_path / "s.parquet", embedding=rows(FEATURES), label=LABELS))


def test_duplicate_columns(refused: Callable[..., None], tmp_path: Path) -> None:
    for name, column in (("features", rows(FEATURES)), ("label", pa.array(LABELS)), ("id", pa.array(np.arange(40)))):
        table = pa.table({"features": rows(FEATURES), "label": LABELS, "id": np.arange(40)}).append_column(name, column)
        pq.write_table(table, tmp_path / "s.parquet")
        refused(f"column {name} appears 2 times", tmp_path / "s.parquet")


def test_column_in_another_case(refused: Callable[..., None], tmp_path: Path) -> None:
    refused("Rename 'Features' to 'features'", parquet(tmp_path / "s.parquet", Features=rows(FEATURES), label=LABELS))
    refused("'Label' must be named 'label'", parquet(tmp_path / "s.parquet", features=rows(FEATURES), Label=LABELS))
    refused("'ID' must be named 'id'", parquet(tmp_path / "s.parquet", features=rows(FEATURES), label=LABELS, ID=LABELS))


def test_extra_columns_are_ignored(tmp_path: Path) -> None:
    path = parquet(tmp_path / "s.parquet", camera=["x"] * 40, features=rows(FEATURES), label=LABELS, when=np.arange(40))
    assert score(path, WEIGHT).column("avh").to_numpy() == pytest.approx(EXPECTED, rel=1e-6)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array(["cat"] * 40), "classes have none to join"),
        (pa.array([True] * 40), "classes have none to join"),
        (pa.array(["cat"] * 40).dictionary_encode(), "classes have none to join"),
        (pa.array([0.5] * 40), "whole numbers"),
        (pa.array([9] * 40), "40 of 40"),
    ],
)
def test_label_column_of_another_kind(
    refused: Callable[..., None], tmp_path: Path, weight_file: Path, column: pa.Array, match: str
) -> None:
    path = parquet(tmp_path / "s.parquet", features=rows(FEATURES), label=column)
    with pytest.raises(HardsightError, match=match) as caught:
        score(path, weight_file)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("ids", [pa.array([1.5] * 40), pa.array([None, *"abc"] * 10), pa.array([b"x"] * 40)])
def test_id_column_of_another_kind(tmp_path: Path, ids: pa.Array) -> None:
    path = parquet(tmp_path / "s.parquet", features=rows(FEATURES), label=LABELS, id=ids)
    with pytest.raises(HardsightError, match=r"s\.parquet: the column id"):
        score(path, WEIGHT)


# ---- any bytes at all ----


@settings(max_examples=examples(150))
@given(at=st.integers(0, 10**6), value=st.integers(0, 255), ending=st.sampled_from([".npy", ".npz", ".safetensors"]))
@example(at=242, value=255, ending=".npz")  # the version a zip needs, in its central directory
def test_one_changed_byte_is_read_or_refused_never_a_crash(tmp_path: Path, at: int, value: int, ending: str) -> None:
    path = tmp_path / f"file{ending}"
    if ending == ".npy":
        np.save(path, WEIGHT)
    elif ending == ".npz":
        np.savez(path, weight=WEIGHT)
    else:
        save_head(path, hardsight.Head("linear", WEIGHT), ["a", "b", "c"])
    whole = bytearray(path.read_bytes())
    whole[at % len(whole)] = value
    path.write_bytes(whole)
    try:
        head, _ = load_head(path)
        assert head.weight.ndim == 2
    except HardsightError as error:
        assert str(path) in str(error)


def test_the_readers_read_what_numpy_wrote(tmp_path: Path) -> None:
    arrays = {"a": FEATURES, "b": LABELS, "c": np.array("word"), "d": np.array(["x", "yy"]), "e": np.asfortranarray(FEATURES)}
    np.savez_compressed(tmp_path / "s.npz", **arrays)  # type: ignore[arg-type]
    for name, on_disk in open_npz(tmp_path / "s.npz").items():
        np.testing.assert_array_equal(np.asarray(on_disk), arrays[name])
    np.save(tmp_path / "a.npy", FEATURES)
    on_disk = open_npy(tmp_path / "a.npy")
    for start, stop in ((5, 9), (9, 10), (2, 40), (0, 1), (40, 40)):  # forth and back
        np.testing.assert_array_equal(on_disk[start:stop], FEATURES[start:stop])

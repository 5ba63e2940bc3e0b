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
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardsight
from hardsight import HardsightError, Head, Snapshot, score
from hardsight.errors import FileError
from hardsight.files.heads import load_head, save_head
from hardsight.files.npy import open_npy, open_npz
from hardsight.files.samples import write_samples
from properties import examples

Refused = Callable[..., None]
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 4)).astype(np.float32)
WEIGHT = RNG.normal(size=(3, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, 40)
EXPECTED = hardsight.avh(FEATURES, WEIGHT, LABELS)


@pytest.fixture
def refused(tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """`score` and the command reject this snapshot, naming the file; nothing is written, and no code in it runs."""
    monkeypatch.chdir(tmp_path)

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


class Canary:
    """Unpickling it creates a folder in the working directory."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("canary",)


def npy_with_header(header: dict[str, Any] | str, data: bytes = b"") -> bytes:
    text = header if isinstance(header, str) else repr(header)
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def npy_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz_bytes(method: int = zipfile.ZIP_STORED, **arrays: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays.items():
            archive.writestr(name if "." in name else f"{name}.npy", npy_bytes(np.asanyarray(array)))
    return file.getvalue()


def parquet_bytes(table: pa.Table | None = None, **columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns) if table is None else table, file)
    return file.getvalue()


def rows(features: np.ndarray) -> pa.Array:
    return pa.array([None if np.isnan(row).all() else row.tolist() for row in features], pa.list_(pa.float32()))


NPY, PICKLE = npy_bytes(FEATURES), pickle.dumps({"weight": Canary()})
ARRAYS: dict[str, Any] = {"features": FEATURES, "weight": WEIGHT, "labels": LABELS}
NPZ, SMALL = npz_bytes(**ARRAYS), npz_bytes(zipfile.ZIP_DEFLATED, features=FEATURES)
ENTRY = NPZ.index(b"PK\1\2")  # of the archive's directory: who made it is at 4, the version needed at 6
FLIPPED = NPZ.index(FEATURES.tobytes()) + 33
COLUMNS: dict[str, Any] = {"features": rows(FEATURES), "label": LABELS, "id": np.arange(40)}
PARQUET, HTML = parquet_bytes(**COLUMNS), b"<!doctype html><html><body>Please log in</body></html>"
TRAP = np.array([Canary()], dtype=object)
MANY = repr({"descr": "<f4", "fortran_order": False, "shape": (1,) * 10**6}) + "\n"
SHAPES = [(2**46, 1), (2**63, 2**63), (-1, 4), (-2, -2), (1,) * 1000, (4, 4.5)]
HEADERS: list[Any] = [
    *({"descr": "<f4", "fortran_order": False, "shape": shape} for shape in SHAPES),
    {"descr": "<f4", "fortran_order": False},
    {"descr": "<U99999999", "fortran_order": False, "shape": (4,)},
    "__import__('os').mkdir('canary')",
    "{" * 5000,
]
MEMBERS = ["../canary.npy", "/tmp/canary.npy", "a/../../canary.npy", "..\\canary.npy", "notes.txt"]
UNFIT: list[dict[str, np.ndarray]] = [
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
]
FAULTS: dict[str, tuple[str, bytes, str]] = {  # the file, and what the error says beside its name
    **{f"npy cut to {kept}": ("f.npy", NPY[:kept], "not a readable .npy") for kept in (0, 5, 9, 60, 127)},
    **{f"npy cut to {kept}": ("f.npy", NPY[:kept], "truncated") for kept in (128, 129, 300, -1)},
    "bytes after the end": ("f.npy", NPY + b"more", "damaged"),
    "a pickle in npy": ("f.npy", npy_bytes(TRAP), "Python objects"),
    "a pickle in npz": ("f.npz", npz_bytes(features=FEATURES, weight=WEIGHT, labels=TRAP), "Python objects"),
    **{f"header {number}": ("f.npy", npy_with_header(header, b"\0" * 64), "f.npy") for number, header in enumerate(HEADERS)},
    "dimensions": ("f.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", len(MANY)) + MANY.encode() + b"\0" * 4, "f.npy"),
    **{
        f"member {name}": ("s.npz", npz_bytes(features=FEATURES, **cast(Any, {name: LABELS})), "unexpected member")
        for name in MEMBERS
    },
    "says it is small": ("s.npz", SMALL.replace(struct.pack("<I", len(NPY)), struct.pack("<I", len(NPY) - 16)), "s.npz"),
    "a zip of another version": ("s.npz", NPZ[: ENTRY + 6] + b"\xff" + NPZ[ENTRY + 7 :], r"not a readable .npz .* 25\.5"),
    **{f"npz cut to {kept}": ("s.npz", NPZ[:kept], "not a readable .npz") for kept in (0, 10, 300, -30)},
    "a flipped bit": ("s.npz", NPZ[:FLIPPED] + bytes([NPZ[FLIPPED] ^ 4]) + NPZ[FLIPPED + 1 :], "damaged"),
    **{
        f"array {number}": ("s.npz", npz_bytes(**ARRAYS | arrays), next(iter(reversed(arrays))).rstrip("s").replace("_", "."))
        for number, arrays in enumerate(UNFIT)
    },
    **{f"a pickle as {ending}": (f"model{ending}", PICKLE, "not loaded") for ending in (".pt", ".pth", ".pkl", ".bin")},
    **{f"a pickle as {ending}": (f"model{ending}", PICKLE, "model") for ending in (".npy", ".npz", ".parquet")},
    **{
        f"parquet {number}": ("s.parquet", content, r"s\.parquet")
        for number, content in enumerate((PARQUET[:-20], b"", b"PARX" + PARQUET[4:-4] + b"PARX", HTML))
    },
    "ragged rows": (
        "s.parquet",
        parquet_bytes(features=[[1.0, 2], [3.0, 4], [5.0]], label=[0, 1, 0]),
        "row 2 has 1 values",
    ),
    "lists of text": ("s.parquet", parquet_bytes(features=[["a", "b"]] * 4, label=[0, 1] * 2), "numbers"),
    "text": ("s.parquet", parquet_bytes(features=["a"] * 4, label=[0, 1] * 2), "lists of numbers"),
    "no column": ("s.parquet", parquet_bytes(embedding=rows(FEATURES)), "needs one of features, logits and probs"),
    **{
        f"two columns {name}": (
            "s.parquet",
            parquet_bytes(pa.table(COLUMNS).append_column(name, pa.array(column))),
            f"'{name}' appears more than once",
        )
        for name, column in COLUMNS.items()
    },
    "Features": ("s.parquet", parquet_bytes(Features=rows(FEATURES)), "Rename 'Features' to 'features'"),
    "Label": ("s.parquet", parquet_bytes(features=rows(FEATURES), Label=LABELS), "'Label' must be named 'label'"),
    "ID": ("s.parquet", parquet_bytes(features=rows(FEATURES), ID=LABELS), "'ID' must be named 'id'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_files(refused: Refused, tmp_path: Path, fault: str) -> None:
    assert b"mkdir" in PICKLE and b"mkdir" in npy_bytes(TRAP)  # the traps are set
    name, content, match = FAULTS[fault]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    refused(match, tmp_path / "in" / name)


@pytest.mark.parametrize("what", ["directory", "missing"])
def test_no_file(refused: Refused, tmp_path: Path, what: str) -> None:
    if what == "directory":
        (tmp_path / "s.parquet").mkdir()
    refused(r"s\.parquet", tmp_path / "s.parquet")


# ---- .npy and .npz ----


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


def test_who_made_a_zip_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "s.npz").write_bytes(NPZ[: ENTRY + 4] + b"\xff" + NPZ[ENTRY + 5 :])
    assert score(tmp_path / "s.npz").column("avh").to_numpy() == pytest.approx(EXPECTED, rel=1e-6)


def test_npz_bomb(refused: Refused, tmp_path: Path) -> None:
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


def test_array_that_is_there_twice(refused: Refused, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for rows in (FEATURES, 2 * FEATURES):
            archive.writestr("features.npy", npy_bytes(rows))
    refused("twice", tmp_path / "s.npz")


def test_a_torch_checkpoint_under_another_name(refused: Refused, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.ones(2, 2)}, tmp_path / "model.npz")
    refused("unexpected member", tmp_path / "model.npz")


# ---- heads ----


def safetensors(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


WEIGHT_BYTES = WEIGHT.tobytes()
ONE = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
BAD_HEADS = {
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


@pytest.mark.parametrize("fault", [*BAD_HEADS, ".npy", ".pt", ".pth", ".pkl", ".bin"])
def test_bad_heads(refused: Refused, tmp_path: Path, fault: str) -> None:
    (tmp_path / "features.npy").write_bytes(NPY)
    path = tmp_path / ("head.safetensors" if fault in BAD_HEADS else f"head{fault}")
    path.write_bytes(BAD_HEADS.get(fault, npy_bytes(WEIGHT)[:-3] if fault == ".npy" else PICKLE))
    match = "head.safetensors" if fault in BAD_HEADS else "truncated" if fault == ".npy" else "not loaded"
    refused(match, tmp_path / "features.npy", head=path)


def test_the_same_bytes_unharmed_are_read(tmp_path: Path) -> None:
    (tmp_path / "head.safetensors").write_bytes(safetensors({"weight": ONE}, WEIGHT_BYTES))
    head, names = load_head(tmp_path / "head.safetensors")
    assert head.kind == "linear" and names is None
    np.testing.assert_array_equal(head.weight, WEIGHT)


def test_every_cut_of_a_head_is_refused(tmp_path: Path) -> None:
    save_head(tmp_path / "whole.safetensors", Head("linear", WEIGHT))
    content = (tmp_path / "whole.safetensors").read_bytes()
    for length in range(len(content)):
        path = tmp_path / f"{length}.safetensors"  # a new file each time: to truncate one waits for the disk
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match=path.name):
            load_head(path)


# ---- Parquet ----


def parquet(path: Path, **columns: Any) -> Path:
    path.write_bytes(parquet_bytes(**columns))
    return path


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


def test_extra_columns_are_ignored(tmp_path: Path) -> None:
    path = parquet(tmp_path / "s.parquet", camera=["x"] * 40, features=rows(FEATURES), label=LABELS, when=np.arange(40))
    assert score(path, WEIGHT).column("avh").to_numpy() == pytest.approx(EXPECTED, rel=1e-6)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"label": pa.array(["cat"] * 40)}, "classes have none to join"),
        ({"label": pa.array([True] * 40)}, "classes have none to join"),
        ({"label": pa.array(["cat"] * 40).dictionary_encode()}, "classes have none to join"),
        ({"label": pa.array([0.5] * 40)}, "whole numbers"),
        ({"label": pa.array([9] * 40)}, "40 of 40"),
        ({"id": pa.array([1.5] * 40)}, "the column id"),
        ({"id": pa.array([None, *"abc"] * 10)}, "the column id"),
        ({"id": pa.array([b"x"] * 40)}, "the column id"),
    ],
)
def test_columns_of_another_kind(tmp_path: Path, columns: dict[str, pa.Array], match: str) -> None:
    path = parquet(tmp_path / "s.parquet", **COLUMNS | columns)
    with pytest.raises(HardsightError, match=match) as caught:
        score(path, WEIGHT)
    assert str(path) in str(caught.value)


def test_the_readers_read_what_numpy_wrote(tmp_path: Path) -> None:
    arrays = {"a": FEATURES, "b": LABELS, "c": np.array("word"), "d": np.array(["x", "yy"]), "e": np.asfortranarray(FEATURES)}
    np.savez_compressed(tmp_path / "s.npz", **arrays)  # type: ignore[arg-type]
    for name, on_disk in open_npz(tmp_path / "s.npz").items():
        np.testing.assert_array_equal(np.asarray(on_disk), arrays[name])
    np.save(tmp_path / "a.npy", FEATURES)
    on_disk = open_npy(tmp_path / "a.npy")
    for start, stop in ((5, 9), (9, 10), (2, 40), (0, 1), (40, 40)):  # forth and back
        np.testing.assert_array_equal(on_disk[start:stop], FEATURES[start:stop])

"""A snapshot in memory and in every kind of file gives the same rows."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hardsight
from hardsight import Head, Snapshot
from hardsight.errors import FileError, InputError
from hardsight.files.heads import save_head
from hardsight.files.kinds import kind_of
from hardsight.files.samples import write_samples
from hardsight.snapshot.sources import SelectedRows

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(10, 4)).astype(np.float32)
WEIGHT = RNG.normal(size=(3, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, -1, 1, 2, 0, 1, 2, 0])
IDS = [f"image {i}" for i in range(10)]
HEAD = Head("cosine", WEIGHT, scale=8.0)


def saved(folder: Path, kind: str) -> Path:
    path = folder / f"snapshot.{kind}"
    if kind == "npz":
        Snapshot(FEATURES, HEAD, LABELS, ids=IDS, class_names=["a", "b", "c"]).save(path)
    elif kind == "parquet":
        write_samples(path, FEATURES, {"id": IDS, "label": pa.array(LABELS, mask=LABELS < 0)})
    else:
        path.mkdir()
        (path / "samples").mkdir()
        parts = []
        for part, rows in enumerate((slice(0, 4), slice(4, 10))):
            name = f"samples/part-{part:05d}.parquet"
            write_samples(path / name, FEATURES[rows], {"id": IDS[rows], "label": LABELS[rows]})
            parts.append({"name": name})
        save_head(path / "head.safetensors", HEAD, ["a", "b", "c"])
        (path / "run.json").write_text(json.dumps({"parts": parts}))
    return path


@pytest.mark.parametrize("kind", ["npz", "parquet", "run"])
def test_every_file_gives_back_the_same_rows(tmp_path: Path, kind: str) -> None:
    snapshot = Snapshot.load(saved(tmp_path, kind), head=HEAD if kind == "parquet" else None)
    assert len(snapshot) == 10 and snapshot.num_classes == 3
    assert snapshot.head is not None and (snapshot.head.kind, snapshot.head.scale) == ("cosine", 8.0)
    assert snapshot.class_names == (None if kind == "parquet" else ["a", "b", "c"])
    rows = snapshot.in_memory()
    np.testing.assert_array_equal(rows.values, FEATURES)
    assert rows.labels.tolist() == LABELS.tolist() and list(rows.ids) == IDS
    np.testing.assert_array_equal(snapshot.head.weight, WEIGHT)
    assert [row for piece in snapshot.pieces() for row in piece] == list(range(10))


@pytest.mark.parametrize("kind", ["npz", "parquet", "run"])
@pytest.mark.parametrize(("start", "stop", "rows"), [(0, 10, 3), (2, 9, 2), (4, 5, 100), (3, 3, 1), (9, 99, 4)])
def test_batches_are_the_rows_asked_for_in_order(tmp_path: Path, kind: str, start: int, stop: int, rows: int) -> None:
    snapshot = Snapshot.load(saved(tmp_path, kind), head=HEAD)
    batches = list(snapshot.batches(start, stop, rows))
    assert all(0 < len(batch) <= rows for batch in batches)
    assert [one for batch in batches for one in batch.ids] == IDS[start:stop]
    assert [batch.start for batch in batches] == np.cumsum([start, *map(len, batches)])[:-1].tolist()
    assert np.array_equal(np.concatenate([batch.values for batch in batches] or [FEATURES[:0]]), FEATURES[start:stop])


def test_features_from_npy_with_head_and_labels_beside_it(tmp_path: Path) -> None:
    for name, array in (("features", FEATURES), ("weight", WEIGHT), ("labels", LABELS)):
        np.save(tmp_path / f"{name}.npy", array)
    snapshot = Snapshot.load(tmp_path / "features.npy", head=tmp_path / "weight.npy", labels=tmp_path / "labels.npy")
    assert snapshot.in_memory().labels.tolist() == LABELS.tolist() and snapshot.num_classes == 3
    bare = Snapshot.load(tmp_path / "features.npy")
    assert bare.head is None and bare.num_classes is None
    assert bare.in_memory().labels.tolist() == [-1] * 10


def test_pred_probs_in_a_file_are_probabilities(tmp_path: Path) -> None:
    probs = np.array([[0.9, 0.1], [0.2, 0.8]])
    lists = pa.array(probs.tolist())
    np.savez(tmp_path / "x.npz", pred_probs=probs, labels=[0, 1])
    pq.write_table(pa.table({"pred_probs": lists, "label": [0, 1]}), tmp_path / "x.parquet")
    for file in (tmp_path / "x.npz", tmp_path / "x.parquet"):
        snapshot = Snapshot.load(file)
        assert snapshot.source.evidence == "probs" and snapshot.num_classes == 2 and kind_of(file) == "snapshot"
        assert snapshot.column_names == ["id", "label"] and np.array_equal(snapshot.in_memory().values, probs)
    np.savez(tmp_path / "x.npz", pred_probs=probs, probs=probs)
    pq.write_table(pa.table({"pred_probs": lists, "probs": lists}), tmp_path / "x.parquet")
    for file in (tmp_path / "x.npz", tmp_path / "x.parquet"):
        with pytest.raises(FileError, match="needs one of features, logits and probs .* found .*pred_probs"):
            Snapshot.load(file)
    np.savez(tmp_path / "x.npz", features=probs, pred_probs=probs)
    with pytest.raises(FileError, match="needs one of .* found features, pred_probs"):
        Snapshot.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "features, logits or probs, got none"),
        ({"logits": FEATURES, "probs": np.ones((10, 1))}, "got logits and probs"),
        ({"features": FEATURES, "head": HEAD, "probs": np.ones((10, 2))}, "one column per class, got 2 for 3"),
        ({"features": FEATURES, "probs": np.ones((9, 2))}, "one row of probs per sample, got 9"),
        ({"features": FEATURES, "ids": [*range(9), 0]}, "row 9 repeats 0 of row 0"),
        ({"features": FEATURES, "head": np.ones((3, 5))}, "same number of columns"),
        ({"features": FEATURES, "head": HEAD, "bias": np.ones(3)}, "a Head already has its own"),
        ({"features": FEATURES, "head": HEAD, "class_names": ["a"]}, "one class name per class, got 1 for 3"),
        ({"features": FEATURES, "ids": [1, 2]}, "one entry per sample"),
    ],
)
def test_what_a_snapshot_refuses(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Snapshot(**arguments)


BAD_RUNS = [
    "{",
    "[]",
    '{"parts": 3}',
    *(f'{{"parts": [{part}]}}' for part in ("", "{}", '{"name": "samples/../../x.parquet"}', '{"name": 3}')),
    '{"parts": [{"name": "samples/\\u0000"}]}',
    '{"parts": [{"name": "samples/a.parquet", "rows": "many"}]}',
    "[" * 100_000,
]


def test_what_is_no_snapshot(tmp_path: Path) -> None:
    def refused(match: str, path: Path = tmp_path) -> None:
        with pytest.raises(FileError, match=match):
            Snapshot.load(path)

    refused("no run.json")
    (tmp_path / "start.json").write_text("{}")
    refused("was interrupted")
    for damaged in BAD_RUNS:
        (tmp_path / "run.json").write_text(damaged)
        refused("run.json")
    (tmp_path / "notes.txt").write_text("hello")
    refused("a snapshot is a run directory", tmp_path / "notes.txt")
    for name in ("no.npz", "no.npy", "no.parquet", "no.thing"):
        refused("does not exist", tmp_path / name)


@pytest.mark.parametrize("kind", ["uint8", "uint64", "int8", "float32"])
def test_labels_of_every_width_in_parquet(tmp_path: Path, kind: str) -> None:
    features = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES.ravel()), 4)
    known, some = np.maximum(LABELS, 0), LABELS >= 0
    for labels, mask in ((known, None), (known, ~some)):
        column = pa.array(labels.astype(kind), mask=mask)
        pq.write_table(pa.table({"features": features, "label": column}), tmp_path / "s.parquet")
        expected = labels if mask is None else LABELS
        assert Snapshot.load(tmp_path / "s.parquet", head=HEAD).in_memory().labels.tolist() == expected.tolist()


def test_other_ways_to_write_features_and_ids_in_parquet(tmp_path: Path) -> None:
    features = pa.FixedSizeListArray.from_arrays(pa.array(FEATURES.ravel()), 4)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (4,)), features)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        pq.write_table(pa.table({"features": tensor, "id": pa.array(IDS, kind)}), tmp_path / "s.parquet")
        rows = Snapshot.load(tmp_path / "s.parquet", head=HEAD).in_memory()
        assert list(rows.ids) == IDS and rows.values.tolist() == FEATURES.tolist()


def test_an_empty_list_column_goes_with_any_head(tmp_path: Path) -> None:
    pq.write_table(pa.table({"features": pa.array([], pa.list_(pa.float32()))}), tmp_path / "s.parquet")
    assert len(Snapshot.load(tmp_path / "s.parquet", head=HEAD)) == 0


@pytest.mark.skipif(os.name == "nt", reason="pipes with names are Unix's")
@pytest.mark.parametrize("ending", ["npz", "npy", "parquet"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"s.{ending}")
    with pytest.raises(FileError, match="a pipe or a device"):
        Snapshot.load(tmp_path / f"s.{ending}")


OWN = [("id", pa.string()), ("label", pa.int64()), ("split", pa.string()), ("path", pa.string()), ("base_id", pa.string())]
OWN += [("degradation", pa.string()), ("level", pa.float64())]


def test_samples_are_written_in_one_schema(tmp_path: Path) -> None:
    """Own columns first, whether given or not; a label of -1 is null; further columns follow, then float32 features."""
    columns = {"weather": ["fog"] * 10, "level": [1] * 10, "label": LABELS, "id": IDS}
    assert write_samples(tmp_path / "p.parquet", FEATURES.astype(np.float64), columns) == 10
    table = pq.read_table(tmp_path / "p.parquet")
    expected = [*OWN, ("weather", pa.string()), ("features", pa.list_(pa.float32(), 4))]
    assert [(field.name, field.type) for field in table.schema] == expected
    assert table.column("label").to_pylist() == [None if label < 0 else label for label in LABELS.tolist()]
    assert table.column("split").null_count == 10 and table.column("level").to_pylist() == [1.0] * 10
    write_samples(tmp_path / "bare.parquet", FEATURES, {"id": np.arange(10)})
    bare = pq.read_schema(tmp_path / "bare.parquet")
    assert [(field.name, field.type) for field in bare][1:7] == OWN[1:] and bare.field("id").type == pa.int64()


VALUES: dict[str, list[Any]] = {
    "id": ["a", "b", "c", "d"],
    "label": [1, None, 0, 1],
    "split": ["train", "test", "test", "train"],
    "weight_g": [10, 20, 30, 40],
}


def with_columns(folder: Path, kind: str) -> Snapshot:
    """Four samples, the third without features where the kind of file can say so."""
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    labels, ids = VALUES["label"], VALUES["id"]
    further = {name: VALUES[name] for name in ("split", "weight_g")}
    if kind == "arrays":
        return Snapshot(features, np.eye(2), labels, ids=ids, columns=further)
    if kind == "npz":
        Snapshot(features, np.eye(2), labels, ids=ids, columns=further).save(folder / "s.npz")
        return Snapshot.load(folder / "s.npz")
    lists = pa.array([[0, 1], [2, 3], None, [6, 7]], pa.list_(pa.float32(), 2))
    table = pa.table({"id": pa.array(ids, pa.large_string()), "label": pa.array(labels, pa.int8()), **further, "features": lists})
    if kind == "parquet":
        pq.write_table(table, folder / "s.parquet", row_group_size=3)
        return Snapshot.load(folder / "s.parquet", head=np.eye(2))
    (folder / "samples").mkdir()
    pq.write_table(table.slice(0, 1), folder / "samples" / "part-00000.parquet")
    pq.write_table(table.slice(1), folder / "samples" / "part-00001.parquet")
    save_head(folder / "head.safetensors", Head("linear", np.eye(2)))
    (folder / "run.json").write_text(json.dumps({"parts": [{"name": f"samples/part-0000{k}.parquet"} for k in (0, 1)]}))
    return Snapshot.load(folder)


EVERY_KIND = pytest.mark.parametrize("kind", ["arrays", "npz", "parquet", "run"])


@EVERY_KIND
def test_columns_without_features(tmp_path: Path, kind: str) -> None:
    snapshot = with_columns(tmp_path, kind)
    assert snapshot.column_names == ["id", "label", "split", "weight_g"]
    table = snapshot.columns()
    assert table.to_pydict() == VALUES
    assert table.schema.field("id").type == pa.string() and table.schema.field("label").type == pa.int64()
    assert snapshot.columns(["weight_g", "id"]).column_names == ["weight_g", "id"]
    with pytest.raises(InputError, match="no column 'features'; it has id, label, split, weight_g"):
        snapshot.columns(["id", "features"])


@EVERY_KIND
def test_take_keeps_everything_of_the_rows_in_their_order(tmp_path: Path, kind: str) -> None:
    snapshot = with_columns(tmp_path, kind)
    taken = snapshot.take(np.array([3, 2, 1]))
    assert taken.columns().to_pydict() == {name: values[:0:-1] for name, values in VALUES.items()}
    rows = taken.in_memory()
    assert rows.values[[0, 2]].tolist() == [[6, 7], [2, 3]] and rows.labels.tolist() == [1, 0, -1]
    if kind in ("parquet", "run"):  # the row without features is still known to have none
        assert rows.missing is not None and rows.missing.tolist() == [False, True, False] and np.isnan(rows.values[1]).all()
    else:
        assert rows.missing is None and rows.values[1].tolist() == [4, 5]
    assert taken.head is not None and taken.name == snapshot.name
    assert len(snapshot.take([])) == 0
    for wrong, match in (([4], "0 to 3, got 4"), ([-1], "got -1"), ([0.5], "row numbers"), ([[0]], "row numbers")):
        with pytest.raises(InputError, match=match):
            snapshot.take(wrong)


def test_take_of_a_large_file_holds_only_what_was_taken(tmp_path: Path) -> None:
    """Batches of 32 MB, of which two rows stay: the peak is far below the 256 MB of the features."""
    import tracemalloc

    np.save(tmp_path / "f.npy", np.ones((2**17, 512), np.float32))
    tracemalloc.start()
    taken = Snapshot.load(tmp_path / "f.npy").take([2**17 - 1, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken.columns().to_pydict() == {"id": [2**17 - 1, 0], "label": [None, None]} and peak < 100e6


def test_parts_with_other_columns_make_one_table(tmp_path: Path) -> None:
    """Parts of an old run need not agree: a column that a part has not, or knows only as null, is null there."""
    (tmp_path / "samples").mkdir()
    lists = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    for number, further in enumerate(({"split": pa.nulls(1), "level": [0.5]}, {"split": ["test"]})):
        pq.write_table(pa.table({**further, "features": lists}), tmp_path / "samples" / f"part-0000{number}.parquet")
    (tmp_path / "run.json").write_text(json.dumps({"parts": [{"name": f"samples/part-0000{k}.parquet"} for k in (0, 1)]}))
    table = Snapshot.load(tmp_path).columns()
    expected = {"id": [0, 1], "label": [None, None], "split": [None, "test"], "level": [0.5, None]}
    assert table.to_pydict() == expected


def test_columns_that_no_table_can_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", features=np.eye(2), phase=np.array([1j, 2j]))
    with pytest.raises(InputError, match="s.npz: the column phase cannot be shown in a table"):
        Snapshot.load(tmp_path / "s.npz").columns()


def test_joined_by_id_in_the_order_of_the_first(tmp_path: Path) -> None:
    ids = ["3", "10", "7", "8"]
    first = Snapshot(np.eye(4), labels=["cat", "dog", "dog", "cat"], ids=ids)
    second = Snapshot(np.eye(3), labels=[0, 1, 0], ids=[7, 3, 99], class_names=["dog", "cat"])  # integers, and other numbers
    both = first.joined(second)
    assert both.first.ids.tolist() == ["3", "7"] and both.second.ids.tolist() == [3, 7]
    assert both.only_first == 2
    assert both.note is not None and "'10'" in both.note and "99" in both.note
    assert both.first.labels.tolist() == both.second.labels.tolist() == [0, 1]  # cat, dog in both, by name
    assert first.joined(first).note is None and len(first.joined(first).second) == 4
    with pytest.raises(InputError, match="'3'.*'x'"):
        first.joined(Snapshot(np.eye(1), ids=["x"]))
    with pytest.raises(InputError, match="'a'"):
        first.joined(Snapshot(np.eye(2), ids=["a", "a"], allow_duplicates=True))


def test_a_large_part_of_files_stays_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = {"features": rng.normal(size=(50, 3)).tolist(), "label": rng.integers(0, 2, 50), "split": ["train", "test"] * 25}
    pq.write_table(pa.table(table), tmp_path / "s.parquet", row_group_size=7)
    whole = Snapshot.load(tmp_path / "s.parquet")
    in_memory = whole.of_split("test")
    monkeypatch.setattr("hardsight.snapshot.snapshot.LEFT_IN_FILES", 0)
    in_files = whole.of_split("test")
    assert type(in_files.source) is not type(in_memory.source) and len(in_files) == 25
    for part in (in_files, in_files.first(10), in_files.take([3, 1])):
        same = in_memory.take([3, 1]) if len(part) == 2 else in_memory.first(len(part))
        assert part.ids.tolist() == same.ids.tolist() and part.labels.tolist() == same.labels.tolist()
        assert part.features is not None and same.features is not None and (part.features == same.features).all()
        assert part.columns().equals(same.columns())
    source = in_files.first(10).source
    assert isinstance(source, SelectedRows) and source.source is whole.source  # rows of rows are rows of the file
    rows = [row for batch in in_files.batches(3, 9, rows=4) for row in batch.ids.tolist()]
    assert rows == in_memory.ids[3:9].tolist()


def test_load_takes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", features=np.eye(2))
    for name in ("head", "labels", "features", "class_names"):
        assert name in (Snapshot.load.__doc__ or "") and len(Snapshot.load(tmp_path / "s.npz", **{name: None})) == 2  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="logits"):
        Snapshot.load(tmp_path / "s.npz", logits=np.eye(2))  # type: ignore[call-arg]


def test_features_named_like_scores_are_features_where_labels_are_given() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 3)), columns=["height", "width", "norm"])
    snapshot = Snapshot.open(frame, labels=[0, 1, 0, 1, 0, 1])
    assert snapshot.source.evidence == "features" and snapshot.source.width == 3


def test_probabilities_next_to_a_snapshot_are_joined_by_index() -> None:
    pd = pytest.importorskip("pandas")
    ids, probs = ["a", "b", "c"], np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    snapshot = Snapshot(np.eye(3), labels=[0, 1, 0], ids=ids)
    joined = Snapshot.open(snapshot, probs=pd.DataFrame(probs, index=ids)[::-1]).probs
    assert joined is not None and joined.tolist() == probs.tolist()


@pytest.mark.parametrize("kind", ["features", "logits", "probs", "scores", "run", "file of probs"])
def test_classes_in_another_order_are_joined_by_name(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    features, weight, labels = rng.normal(size=(60, 3)), rng.normal(size=(3, 3)), rng.integers(0, 3, 60)
    labels[:3] = -1
    order = np.array([2, 0, 1])  # class k of the second is class order[k] of the first
    logits = features @ weight.T
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def snapshot(which: np.ndarray, folder: Path) -> Snapshot:
        own, names = np.append(np.argsort(which), -1)[labels], [["ant", "bee", "cat"][k] for k in which]
        if kind == "logits":
            return Snapshot(logits=logits[:, which], labels=own, class_names=names)
        if kind == "probs":
            return Snapshot(probs=probs[:, which], labels=own, class_names=names)
        if kind == "scores":
            return Snapshot.open(hardsight.score(features, weight[which], own, class_names=names, scores=["loss"]))
        folder.mkdir()
        if kind == "file of probs":
            table = pa.table({"probs": probs[:, which].tolist(), "label": pa.array(own, mask=own < 0)})
            pq.write_table(table, folder / "probs.parquet")
            return Snapshot.open(folder / "probs.parquet", class_names=names)
        if kind == "features":
            return Snapshot(features, weight[which], own, class_names=names)
        (folder / "samples").mkdir()
        write_samples(folder / "samples/part-00000.parquet", features, {"id": np.arange(60), "label": own})
        save_head(folder / "head.safetensors", Head("linear", weight[which]), names)
        (folder / "run.json").write_text(json.dumps({"parts": [{"name": "samples/part-00000.parquet"}]}))
        hardsight.score(folder, scores=["loss"], output=folder / "scores.parquet")  # read back, and not computed again
        return Snapshot.open(folder)

    first, second = snapshot(np.arange(3), tmp_path / "first"), snapshot(order, tmp_path / "second")
    assert first.class_names != second.class_names
    same = second.numbered_as(first)
    assert same.class_names == first.class_names and same.labels.tolist() == first.labels.tolist()
    ours, theirs = first.scores(["loss"]), same.scores(["loss"])
    assert theirs["predicted"].equals(ours["predicted"]) and theirs["label"].equals(ours["label"])
    assert np.allclose(theirs["loss"].to_numpy()[3:], ours["loss"].to_numpy()[3:])
    drifted = hardsight.drift(first, second, by="loss")
    assert drifted.summary == {"samples": 57, "harder": 0, "easier": 0}
    assert {word for word in drifted["outcome"].to_pylist() if word} <= {"right in both", "wrong in both"}


def test_models_and_people_are_compared_by_the_names_of_classes() -> None:
    names, features, weight = ["ant", "bee", "cat"], np.eye(3) + 0.1, np.eye(3)
    first = Snapshot(features, weight, [0, 1, 2], class_names=names)
    second = Snapshot(features, weight[::-1], [2, 1, 0], class_names=names[::-1])
    assert hardsight.score(first, scores=["model_agreement"], models=[second])["model_agreement"].to_numpy() == pytest.approx(1)
    people = np.array([[5, 1, 0], [0, 5, 1], [1, 0, 5]])
    tables = [hardsight.correlate([first, other], people, replicates=20).table for other in (first, second)]
    assert tables[0].drop_columns("model").equals(tables[1].drop_columns("model"))


def test_split_comes_before_first_and_limit() -> None:
    splits = ["train", "test"] * 4
    snapshot = Snapshot(np.eye(8), columns={"split": splits})
    assert snapshot.selected("test", first=3).ids.tolist() == [1, 3, 5]
    assert snapshot.selected("test", first=3, limit=2).ids.tolist() == [1, 3]
    assert len(snapshot.selected()) == 8


def test_clean_cuts_as_mine_does() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    features = rng.normal(size=(80, 2)) + 4 * labels[:, None]
    columns = {"split": ["a"] * 40 + ["b"] * 40, "site": ["x", "y"] * 40}
    snapshot = Snapshot(features, labels=labels, columns=columns)
    cleaned = hardsight.clean(snapshot, split="b", first=20)
    mined = hardsight.mine(snapshot, split="b", first=20, k=1)
    assert cleaned["id"].to_pylist() == list(range(40, 60)) and set(mined["anchor"].to_pylist()) == set(range(40, 60))
    audited = hardsight.audit(Snapshot(features, np.eye(2), labels, columns=columns), "site", split="b", first=20)
    assert audited["n"].to_pylist() == [10, 10]


def test_saved_with_the_columns_of_a_file(tmp_path: Path) -> None:
    table = {"features": np.eye(3).tolist(), "id": ["7", "8", "9"], "site": ["a", "b", "c"], "age": [1, None, 3]}
    pq.write_table(pa.table({**table, "note": ["x", None, "y"], "none": pa.nulls(3, pa.string())}), tmp_path / "s.parquet")
    with pytest.warns(UserWarning, match="column note"):
        Snapshot.load(tmp_path / "s.parquet").save(tmp_path / "s.npz")
    again = Snapshot.load(tmp_path / "s.npz")
    assert again.column_names == ["id", "label", "site", "age"] and again.ids.tolist() == ["7", "8", "9"]
    assert again.columns(["site"])["site"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("ids", [["7", "8"], [7, 8], ["007", "8"], ["", "=1+1"]])
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_ids_are_read_back_as_written(tmp_path: Path, ending: str, ids: list[str | int]) -> None:
    file = tmp_path / f"scores.{ending}"
    hardsight.score(np.eye(2), np.eye(2), [0, 1], ids=ids, output=file)
    assert Snapshot.open(file).ids.tolist() == ids


def test_labels_are_no_further_column() -> None:
    with pytest.raises(InputError, match="label"):
        Snapshot(np.eye(2), np.eye(2), [0, 1]).with_columns({"label": pa.array([1, 0])})


def test_a_subtracted_1_is_among_the_notes() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 2)), np.arange(60) % 2 + 1
    head, columns = np.eye(2), {"site": ["a", "b", "b"] * 20}
    for verb in (
        lambda: hardsight.score(features, head, labels),
        lambda: hardsight.clean(features, head=head, labels=labels),
        lambda: hardsight.audit(features, "site", head=head, labels=labels, columns=columns),
        lambda: hardsight.drift(Snapshot(features, head, labels), Snapshot(features, head, labels)),
        lambda: hardsight.select(features, 5, head=head, labels=labels),
        lambda: hardsight.curriculum(features, head=head, labels=labels),
        lambda: hardsight.mine(features, head=head, labels=labels),
    ):
        with pytest.warns(UserWarning, match="1 was subtracted") as warned:
            notes = verb().notes
        assert [note for note in notes if "1 was subtracted" in note] == notes[:1]
        assert len({str(one.message) for one in warned if "subtracted" in str(one.message)}) == 1


def test_duplicates_are_not_offered_where_they_are_refused() -> None:
    for verb in (hardsight.clean, hardsight.drift):
        assert "allow_duplicates" not in inspect.signature(verb).parameters
    assert "allow_duplicates" in inspect.signature(hardsight.score).parameters

"""What labels mean: names, numbers, digits and missing values, by one rule at every door."""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression

from hardsight import Snapshot, avh, score
from hardsight.checks import counted_from_one
from hardsight.data import open_data
from hardsight.errors import InputError
from hardsight.extraction.feed import ArrayInputs
from hardsight.files.heads import save_head
from hardsight.files.label_files import labels_in
from hardsight.head import Head
from hardsight.labels import Classes, Written, class_numbers, distinct_names, read_labels
from hardsight.quality.folds import out_of_sample
from hardsight.table import read_scores, write_table

FEATURES = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0], [0.0, 1.0]])  # 0, 45, 90 and 90 degrees
NAMES = ["cat", "dog", "dog", "cat"]
AVH = [0.0, 0.5, 0.0, 1.0]  # of two classes at 0 and 90 degrees: own angle over the sum of both


def names_in(table: Any) -> list[str] | None:
    return json.loads(table.schema.metadata[b"hardsight"]).get("class_names")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        tuple(NAMES),
        np.array(NAMES),
        np.array(NAMES, dtype=object),
        np.array(NAMES, dtype="S"),
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="category"),
        pa.array(NAMES),
        pa.chunked_array([NAMES[:1], NAMES[1:]]),
        pa.array(NAMES).dictionary_encode(),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_names_in_every_form(labels: Any) -> None:
    table = score(FEATURES, np.eye(2), labels, scores="avh")
    assert table.column("label").to_pylist() == [0, 1, 1, 0] and names_in(table) == ["cat", "dog"]
    assert table.column("avh").to_pylist() == pytest.approx(AVH)
    assert avh(FEATURES, np.eye(2), labels) == pytest.approx(AVH)


@pytest.mark.parametrize("labels", [[False, True, True, False], np.array([0, 1, 1, 0], bool), pd.array([0, 1, 1, 0], "boolean")])
def test_true_and_false(labels: Any) -> None:
    table = score(FEATURES, np.eye(2), labels, scores="avh")
    assert table.column("avh").to_pylist() == pytest.approx(AVH) and names_in(table) == ["False", "True"]
    only_true = score(FEATURES, np.eye(2), [True] * 4, scores="avh")
    assert only_true.column("label").to_pylist() == [1] * 4


def test_null_and_empty_are_unlabeled() -> None:
    labels = pd.Series(["cat", None, "dog", ""], dtype=object)
    assert score(FEATURES, np.eye(2), labels).column("label").to_pylist() == [0, None, 1, None]


def named(labels: Any, class_names: list[str] | None = None) -> tuple[list[int], list[str] | None]:
    numbers, names = class_numbers(labels, class_names)
    return numbers.tolist(), names


def test_digits_are_numbers_only_where_nothing_has_a_type() -> None:
    assert named(["10", "2"]) == ([1, 0], ["2", "10"])  # text is a name, in natural order
    assert named(Written(["10", "2", "-1", "3.0"])) == ([10, 2, -1, 3], None)
    assert named(Written(["7", "3"]), ["3", "7"]) == ([1, 0], ["3", "7"])  # these are the names
    assert named(Written(["1", "0"]), ["3", "7"]) == ([1, 0], ["3", "7"])  # none of these is one


def test_names_follow_the_head(tmp_path: Path) -> None:
    """The head's first row is dog: labels join by name, not by their own order."""
    swapped = np.eye(2)[::-1].copy()
    snapshot = Snapshot(FEATURES, swapped, NAMES, class_names=["dog", "cat"])
    assert score(snapshot, scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
    assert snapshot.columns(["label"]).column(0).to_pylist() == [1, 0, 0, 1]
    save_head(tmp_path / "head.safetensors", Head("linear", swapped), ["dog", "cat"])
    np.save(tmp_path / "x.npy", FEATURES)
    np.save(tmp_path / "y.npy", np.array(NAMES))
    table = score(tmp_path / "x.npy", tmp_path / "head.safetensors", tmp_path / "y.npy", scores="avh")
    assert table.column("avh").to_pylist() == pytest.approx(AVH) and names_in(table) == ["dog", "cat"]


@pytest.mark.parametrize(
    ("labels", "class_names", "match"),
    [
        (NAMES, ["cat", "bird"], "1 of 2 names among the labels are none of the classes, such as 'dog'; "),
        (NAMES, ["cat", "bird", "fish"], "1 of 2 names among the labels are none of the classes, such as 'dog'; "),
        (NAMES, None, r"the 3 classes have none to join them to \(the labels hold 2, such as 'cat'\): give"),
        *((mixed, None, "labels must be class indices") for mixed in (["cat", 1, 0, "cat"], [True, 1, 0, 0], ["cat", True] * 2)),
    ],
)
def test_labels_that_are_refused(labels: Any, class_names: list[str] | None, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Snapshot(FEATURES, np.ones((len(class_names or "abc"), 2)), labels, class_names=class_names).columns()


COLUMNS = {
    "text": pa.array(NAMES),
    "large text": pa.array(NAMES, pa.large_string()),
    "categories": pa.array(NAMES).dictionary_encode(),
    "flags": pa.array([False, True, True, False]),
    "numbers": pa.array([0, 1, 1, 0]).dictionary_encode(),
    "text of numbers": pa.array(["0", "1", "1", "0"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_parquet(tmp_path: Path, kind: str) -> None:
    pq.write_table(pa.table({"features": FEATURES.tolist(), "label": COLUMNS[kind]}), tmp_path / "s.parquet", row_group_size=1)
    table = score(tmp_path / "s.parquet", np.eye(2), scores="avh")
    assert table.column("label").to_pylist() == [0, 1, 1, 0]
    assert table.column("avh").to_pylist() == pytest.approx(AVH)
    expected = {"flags": ["False", "True"], "numbers": None, "text of numbers": ["0", "1"]}.get(kind, ["cat", "dog"])
    assert names_in(table) == expected


def test_npz_with_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", features=FEATURES, weight=np.eye(2)[::-1], labels=NAMES, class_names=["dog", "cat"])
    assert score(tmp_path / "s.npz", scores="avh").column("avh").to_pylist() == pytest.approx(AVH)
    Snapshot.load(tmp_path / "s.npz").save(tmp_path / "again.npz")
    assert score(tmp_path / "again.npz", scores="avh").column("avh").to_pylist() == pytest.approx(AVH)


def test_images_with_names(tmp_path: Path) -> None:
    pixels = np.zeros((2, 4, 4), np.uint8)
    np.savez(tmp_path / "i.npz", train_images=pixels, train_labels=["dog", "cat"], test_images=pixels, test_labels=["ant", "dog"])
    data = open_data(tmp_path / "i.npz")
    assert data.labels is not None and data.labels.tolist() == [2, 1, 0, 2] and data.class_names == ["ant", "cat", "dog"]


def test_out_of_sample_predictions_of_names() -> None:
    features = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    probs = out_of_sample(features, ["a", "a", "a", "b", "b", "b"], folds=3)
    assert probs.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 1]


def test_labels_counted_from_one(tmp_path: Path) -> None:
    hint = "Labels look counted from 1: subtract 1."
    with pytest.warns(UserWarning, match="1 to 2 for 2 classes: 1 was subtracted"):
        assert Snapshot(FEATURES, np.eye(2), [1, 2, 2, 1]).labels.tolist() == [0, 1, 1, 0]
    with pytest.warns(UserWarning, match="1 was subtracted"):
        assert avh(FEATURES, np.eye(2), [1, 2, 2, 1]) == pytest.approx(AVH)
    pq.write_table(pa.table({"features": FEATURES.tolist(), "label": [1, 2, 2, 1]}), tmp_path / "s.parquet")
    with pytest.warns(UserWarning, match="1 was subtracted"):
        assert Snapshot.load(tmp_path / "s.parquet", head=np.eye(2)).labels.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match=hint):  # a head must be fitted: nothing says how many classes there are
        score(FEATURES, None, [1, 2, 2, 1])
    for labels, num_classes in (([0, 1, 2], 2), ([1, 3], 2), ([-1], None)):
        assert counted_from_one(np.array(labels), num_classes) == ""
    np.savez(tmp_path / "i.npz", images=np.zeros((2, 4, 4), np.uint8), labels=[1, 2])
    assert open_data(tmp_path / "i.npz").notes == (hint,)
    assert ArrayInputs(FEATURES, [1, 2, 2, 1]).notes == (hint,)


def test_a_class_without_samples_keeps_its_number(tmp_path: Path) -> None:
    """No label is 0, but none is 3 either: they are the classes 1 and 2 of three."""
    assert Snapshot(FEATURES, np.ones((3, 2)), [1, 2, 2, 1]).labels.tolist() == [1, 2, 2, 1]
    for number in range(2):
        Image.new("L", (4, 4)).save(tmp_path / f"{number}.png")
    (tmp_path / "list.txt").write_text("0.png 1\n1.png 2\n")
    data = open_data(tmp_path / "list.txt")
    assert data.labels is not None and data.labels.tolist() == [1, 2]


def hugging_face(names: Sequence[str]) -> dict[bytes, bytes]:
    features = {"label": {"names": list(names), "_type": "ClassLabel"}}
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


NUMBERS = [pa.array([0.0, 1.0, 1.0, None]), pa.array([0, 1, 1, None], pa.uint8()), pa.array([0, 1, 1, None])]


@pytest.mark.parametrize("column", NUMBERS, ids=["float", "uint8", "int64"])
def test_numbers_of_a_schema_join_by_name(tmp_path: Path, column: pa.Array) -> None:
    table = pa.table({"features": FEATURES.tolist(), "label": column}).replace_schema_metadata(hugging_face(["cat", "dog"]))
    pq.write_table(table, tmp_path / "s.parquet")
    for opened in (
        Snapshot.load(tmp_path / "s.parquet", class_names=["dog", "cat"]),
        Snapshot(table, class_names=["dog", "cat"]),
    ):
        assert opened.labels.tolist() == [1, 0, 0, -1] and opened.class_names == ["dog", "cat"]


def test_shards_with_classes_in_another_order(tmp_path: Path) -> None:
    for number, names in enumerate((["cat", "dog"], ["dog", "cat"])):
        table = pa.table({"features": FEATURES[:2].tolist(), "label": [0, 1], "id": [2 * number, 2 * number + 1]})
        pq.write_table(table.replace_schema_metadata(hugging_face(names)), tmp_path / f"{number}.parquet")
    snapshot = Snapshot.load(tmp_path)
    assert snapshot.labels.tolist() == [0, 1, 1, 0] and snapshot.class_names == ["cat", "dog"]
    assert snapshot.in_memory().labels.tolist() == [0, 1, 1, 0]
    pq.write_table(table.replace_schema_metadata(hugging_face(["cow", "cat", "dog"])), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet.*'cow'.*0\.parquet"):
        Snapshot.load(tmp_path)


BAD = {
    "fraction": ([0, 1.7, 1, 0], r"1 \(1\.7\)"),
    "text among numbers": ([0, "cat", 1, 0], "row 1 holds 'cat'"),
    "date": ([datetime.date(2020, 1, 1)] * 4, "row 0"),
    "beyond int64": ([0, 2**70, 1, 0], "1 "),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_label(tmp_path: Path, kind: str) -> None:
    labels, where = BAD[kind]
    with pytest.raises(InputError, match=where):
        Snapshot(FEATURES, None, labels)
    if kind in ("fraction", "date"):
        pq.write_table(pa.table({"features": FEATURES.tolist(), "label": labels}), tmp_path / "s.parquet")
        with pytest.raises(InputError, match=f"column label.*{where}"):
            Snapshot.load(tmp_path / "s.parquet").columns()


@pytest.mark.parametrize("labels", [["3", "9"], Written(["3", "9"])])
def test_a_label_that_no_class_has(labels: Any) -> None:
    with pytest.raises(InputError, match="'9'"):
        read_labels(labels, Classes(["3", "7"]))
    with pytest.raises(InputError, match="'9'"):
        Snapshot(probs=pd.DataFrame(np.full((2, 2), 0.5), columns=["3", "7"]), labels=["3", "9"])


@pytest.mark.parametrize("labels", [[7, 3, 7, -1], [7.0, 3.0, 7.0, None], ["7", "3", "7", None]])
def test_integers_that_name_columns(labels: Any) -> None:
    probs = np.full((4, 2), 0.5)
    for frame in (pd.DataFrame(probs, columns=[3, 7]), pl.DataFrame(probs, schema=["3", "7"])):
        snapshot = Snapshot(probs=frame, labels=labels)
        assert snapshot.labels.tolist() == [1, 0, 1, -1] and snapshot.class_names == ["3", "7"]
    with pytest.raises(InputError, match="'5'"):
        Snapshot(probs=frame, labels=[3, 5, 7, 7])
    renamed = Snapshot(probs=frame, labels=labels, class_names=["three", "seven"])
    assert renamed.labels.tolist() == [1, 0, 1, -1] and renamed.class_names == ["three", "seven"]


def test_classes_of_an_estimator() -> None:
    for classes in ([3, 7], [-1, 1], [1, 2]):
        given = np.array(classes)[[0, 1, 1, 0]]
        snapshot = Snapshot(FEATURES, LogisticRegression().fit(FEATURES, given), given)
        assert snapshot.labels.tolist() == [0, 1, 1, 0] and snapshot.class_names == [str(k) for k in classes]


def test_columns_follow_the_class_names() -> None:
    probs = pd.DataFrame({"dog": [0.9, 0.8], "cat": [0.1, 0.2]})
    snapshot = Snapshot(probs=probs, labels=[0, 1], class_names=["cat", "dog"])
    assert snapshot.probs is not None and snapshot.probs[:, 0].tolist() == [0.1, 0.2]


def test_names_of_the_head_and_the_user(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", FEATURES)
    save_head(tmp_path / "head.safetensors", Head("linear", np.eye(2)), ["dog", "cat"])
    with pytest.raises(InputError, match=r"'cat' is class 0 .* class 1"):
        Snapshot.load(tmp_path / "x.npy", head=tmp_path / "head.safetensors", class_names=["cat", "dog"])
    readable = Snapshot.load(tmp_path / "x.npy", head=tmp_path / "head.safetensors", class_names=["Hund", "Katze"])
    assert readable.class_names == ["Hund", "Katze"]
    np.savez(tmp_path / "x.npz", features=FEATURES, labels=[0, 1, 1, 0], class_names=["cat", "dog"])
    assert Snapshot.load(tmp_path / "x.npz", head=tmp_path / "head.safetensors").labels.tolist() == [1, 0, 0, 1]


def test_class_names_differ() -> None:
    with pytest.raises(InputError, match="'crane' is the name of class 0 and of class 2"):
        Snapshot(FEATURES, np.ones((3, 2)), class_names=["crane", "heron", "crane"])
    assert distinct_names(["crane", "heron", "crane"]) == ["crane (0)", "heron", "crane (2)"]  # of a model


def test_names_that_look_like_formulas_come_back_from_a_table_of_ours(tmp_path: Path) -> None:
    ids, names, known = ["-horse/1.jpg", "=b", "'-c"], ["-horse", "@dog", "'=cat"], ["'=cat", "-horse", "@dog", "+4"]
    for columns in ({"label": names}, {"label": [1, 2, 0], "label_name": names}):  # the latter by `clean --apply`
        write_table(pa.table({"id": ids, **columns}), tmp_path / "labels.csv")
        assert labels_in(tmp_path / "labels.csv", ids, known) == (names, ())


def test_a_file_of_labels(tmp_path: Path) -> None:
    for number in range(3):
        Image.new("L", (4, 4)).save(tmp_path / f"{number}.png")
    (tmp_path / "labels.csv").write_text("id,label\n0.png,cat\n1.png,dog\n")
    data = open_data(tmp_path, labels_from=tmp_path / "labels.csv")
    assert data.labels is not None and data.labels.tolist() == [0, 1, -1]
    assert any("1 of 3" in note and "'2.png'" in note for note in data.notes)
    (tmp_path / "labels.csv").write_text("id,label\n0.png,cat\n0.png,dog\n")
    with pytest.raises(InputError, match="'0.png' has 'cat' and 'dog'"):
        open_data(tmp_path, labels_from=tmp_path / "labels.csv")


LABEL_FILES = ("csv", "tsv", "parquet", "npy", "txt", "pairs.txt")


def label_file(folder: Path, kind: str, labels: list[Any], ids: list[Any]) -> Path:
    """Labels in a file: in another order where they are joined by id."""
    path, frame = folder / f"y.{kind}", pd.DataFrame({"id": ids, "label": labels})[::-1]
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    elif kind == "npy":
        np.save(path, np.array(labels))
    else:
        rows = frame.values.tolist()
        path.write_text("\n".join(map(str, labels) if kind == "txt" else (f"{id} {label}" for id, label in rows)) + "\n")
    return path


def snapshot_file(folder: Path, kind: str, ids: list[Any]) -> Path:
    """Two features of each sample, with other labels beside them."""
    features, wrong = FEATURES[: len(ids)], np.zeros(len(ids), int)
    if kind == "npz":
        np.savez(folder / "s.npz", features=features, ids=ids, labels=wrong)
    elif kind == "csv":
        pd.DataFrame(features, columns=["f0", "f1"]).assign(id=ids, label=wrong).to_csv(folder / "s.csv", index=False)
    elif kind == "parquet":
        pq.write_table(
            pa.table({"features": features.tolist(), "id": ids, "label": wrong}), folder / "s.parquet", row_group_size=2
        )
    else:
        (folder / "s.run").mkdir()
        for number, rows in enumerate((slice(0, 1), slice(1, None))):
            part = pa.table({"features": features[rows].tolist(), "id": ids[rows], "label": wrong[rows]})
            pq.write_table(part, folder / "s.run" / f"{number}.parquet")
    return folder / f"s.{kind}"


@pytest.mark.parametrize("of", ["npz", "csv", "parquet", "run"])
@pytest.mark.parametrize("kind", LABEL_FILES)
def test_labels_of_a_snapshot_in_a_file(tmp_path: Path, kind: str, of: str) -> None:
    ids: list[Any] = ["b", "a", "d"] if of != "parquet" else [5, 3, 10]
    x, features = snapshot_file(tmp_path, of, ids), {"features": "f*"} if of == "csv" else {}
    for labels in (["dog", "cat", "dog"], [1, 0, 1]):
        y = label_file(tmp_path, kind, labels, ids)
        snapshot = Snapshot.open(x, labels=str(y), class_names=["cat", "dog", "cow"], **features)
        assert snapshot.labels.tolist() == [1, 0, 1] == [int(k) for batch in snapshot.batches(rows=1) for k in batch.labels]
        assert snapshot.take([2, 1]).labels.tolist() == [1, 0]
        other = Snapshot(FEATURES, class_names=["dog", "cow", "cat"])
        assert snapshot.numbered_as(other).labels.tolist() == [0, 2, 0]
        with pytest.raises(InputError, match="'dog'|1"):
            Snapshot.open(x, labels=y, class_names=["cat"], **features)
    if kind in ("npy", "txt"):
        with pytest.raises(InputError, match="y.* got 2 labels for 3 samples"):
            Snapshot.open(x, labels=label_file(tmp_path, kind, [0, 1], ids[:2]), **features)
        return
    with pytest.warns(UserWarning, match=f"no label for 1 of 3 samples, such as '{ids[2]}'"):
        snapshot = Snapshot.open(x, labels=label_file(tmp_path, kind, ["dog", "cat"], ids[:2]), **features)
    assert snapshot.labels.tolist() == [1, 0, -1]
    with pytest.raises(InputError, match=f"'{ids[0]}' has 'cat' and 'dog'"):
        Snapshot.open(x, labels=label_file(tmp_path, kind, ["dog", "cat"], [ids[0], ids[0]]), **features)
    with pytest.raises(InputError, match="own look like 'zebra'"):
        Snapshot.open(x, labels=label_file(tmp_path, kind, ["dog"], ["zebra"]), **features)


def test_a_run_is_scored_with_the_labels_of_a_file(tmp_path: Path, cli: Any) -> None:
    ids = ["b", "a", "d"]
    x, y = snapshot_file(tmp_path, "run", ids), label_file(tmp_path, "csv", [0, 0, 1], ids)
    np.save(tmp_path / "w.npy", np.eye(2))
    done = cli("score", x, "--labels", y, "--head", tmp_path / "w.npy", "--scores", "avh", "-o", tmp_path / "s.parquet")
    assert done.code == 0, done.err
    assert pq.read_table(tmp_path / "s.parquet").column("avh").to_pylist() == pytest.approx([0, 0.5, 0])


@pytest.mark.parametrize("word", ["#N/A", "NaN", "nan", "NA", "None", "null", ""])
def test_words_for_missing_labels(tmp_path: Path, word: str) -> None:
    for values in (["cat", word, "dog", "cat"], Written(["0", word, "1", "0"])):
        read = read_labels(values)
        assert read.numbers.tolist() == [0, -1, 1, 0] and word not in (read.class_names or [])
    for cells in (["cat", word, None, ""], Written(["cat", word, "", "-1"]), Written(["0", word, None, ""])):
        notes = read_labels(cells).notes
        assert notes == ((f"3 of 4 labels are missing, such as {word!r}: unlabeled.",) if word else ())
    pq.write_table(pa.table({"features": FEATURES.tolist(), "label": ["cat", word, None, ""]}), tmp_path / "n.parquet")
    (tmp_path / "s.csv").write_text(f"id,f0,label\na,1,1\nb,2,{word}\nc,3,0\nd,4,\n")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert Snapshot.load(tmp_path / "n.parquet").labels.tolist() == [0, -1, -1, -1]
        assert Snapshot.load(tmp_path / "s.csv", features="f*").labels.tolist() == [1, -1, 0, -1]
    assert [str(warning.message)[:6] for warning in warned] == (["3 of 4", "2 of 4"] if word else [])
    assert read_labels(["cat", word], Classes(["cat", word])).numbers.tolist() == [0, 1]  # unless a class has this name


IDS = ["007", "", "=1+1", "a\0", "'=1", "-1"]


def test_ids_are_as_written(tmp_path: Path) -> None:
    features = np.eye(len(IDS))
    names = [f"f{k}" for k in range(len(IDS))]
    frame = pd.DataFrame(features, columns=names).assign(id=IDS)
    frame.to_csv(tmp_path / "s.csv", index=False)
    pq.write_table(pa.table({"features": features.tolist(), "id": IDS}), tmp_path / "s.parquet")
    for door in (
        Snapshot(features, ids=IDS),
        Snapshot.open(frame, features="f*"),
        Snapshot.open(pl.from_pandas(frame), features="f*"),
        Snapshot.load(tmp_path / "s.csv", features="f*"),
        Snapshot.load(tmp_path / "s.parquet"),
    ):
        assert door.ids.tolist() == IDS
    for ending in ("csv", "json", "parquet"):
        write_table(score(features, features, ids=IDS, scores="entropy").table, tmp_path / f"scores.{ending}")
        assert read_scores(tmp_path / f"scores.{ending}").column("id").to_pylist() == IDS
    (tmp_path / "s.csv").write_text("id,f0\n10,1\n7,2\n")
    assert Snapshot.load(tmp_path / "s.csv", features="f*").ids.tolist() == [10, 7]
    with pytest.raises(InputError, match=r"'a\\x00'"):  # NumPy's text ends at the last character that is not NUL
        Snapshot(features, ids=IDS).save(tmp_path / "s.npz")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_names_in_a_table_of_scores(tmp_path: Path, ending: str) -> None:
    table = pa.table({"id": ["a", "b", "c"], "label": ["dog", "NA", "cat"], "avh": [0.1, 0.2, 0.3]})
    path = tmp_path / f"s.{ending}"
    pq.write_table(table, path) if ending == "parquet" else pd.DataFrame(table.to_pydict()).to_csv(path, index=False)
    with pytest.warns(UserWarning, match="'NA'"):
        snapshot = Snapshot.open(path)
    assert snapshot.labels.tolist() == [1, -1, 0] and snapshot.class_names == ["cat", "dog"]


SCORES_DOORS = ("csv", "json", "parquet", "pandas", "polars", "arrow")


def table_of_scores(door: str, folder: Path, **columns: list[Any]) -> Any:
    """A table of scores as each door takes it."""
    n = len(columns["label"])
    table = pa.table({"id": list("abcdef")[:n], **columns, "status": ["ok"] * n, "avh": [0.25] * n})
    path = folder / f"s.{door}"
    if door in ("pandas", "polars", "arrow"):
        return pd.DataFrame(table.to_pydict()) if door == "pandas" else pl.from_arrow(table) if door == "polars" else table
    if door == "parquet":
        pq.write_table(table, path)
    elif door == "csv":
        pd.DataFrame(table.to_pydict()).to_csv(path, index=False)
    else:
        path.write_text(json.dumps(table.to_pylist()))
    return path


@pytest.mark.parametrize("door", SCORES_DOORS)
def test_a_table_of_scores_is_joined_by_name(tmp_path: Path, door: str) -> None:
    x = table_of_scores(door, tmp_path, label=["dog", "cat", None], predicted=["cat", "cat", "dog"])
    for class_names, labels, predicted in (
        (["dog", "cat"], [0, 1, -1], [1, 1, 0]),
        (["cat", "cow", "dog"], [2, 0, -1], [0, 0, 2]),  # a class without samples keeps its number
        (None, [1, 0, -1], [0, 0, 1]),
    ):
        snapshot = Snapshot.open(x, class_names=class_names)
        assert snapshot.labels.tolist() == labels and snapshot.class_names == (class_names or ["cat", "dog"])
        scores = snapshot.scores(["avh"])
        assert (
            scores["label"].to_pylist() == [None if k < 0 else k for k in labels] and scores["predicted"].to_pylist() == predicted
        )
    for class_names in (["dog", "cow"], ["cow", "dog"], ["dog"]):
        with pytest.raises(InputError, match=r"column label, row 1: .*'cat'.* the classes are (dog|cow)"):
            Snapshot.open(x, class_names=class_names)
    if isinstance(x, Path):
        assert read_scores(x, ["dog", "cat"])["predicted"].to_pylist() == [1, 1, 0]
        with pytest.raises(InputError, match=f"{x}: column label, row 1: .*'cat'"):
            read_scores(x, ["dog", "cow"])


@pytest.mark.parametrize("door", SCORES_DOORS)
def test_numbers_in_a_table_of_scores(tmp_path: Path, door: str) -> None:
    x = table_of_scores(door, tmp_path, label=[2, 1], predicted=[1, 1])
    with pytest.warns(UserWarning, match="1 was subtracted"):  # of both columns
        scores = Snapshot.open(x, class_names=["dog", "cat"]).scores(["avh"])
    assert (scores["label"].to_pylist(), scores["predicted"].to_pylist()) == ([1, 0], [0, 0])
    x = table_of_scores(door, tmp_path, label=[0, 1], predicted=[1, 3])
    with pytest.raises(InputError, match=r"column predicted: .* the first rows: 1 \(3\)"):
        Snapshot.open(x, class_names=["dog", "cat"])


def test_numbers_of_a_table_count_the_names_of_its_own(tmp_path: Path) -> None:
    table = score(np.eye(2), np.eye(2), [0, 1], class_names=["cat", "dog"])
    table.save(tmp_path / "s.parquet")
    for x in (table, table.table, tmp_path / "s.parquet"):
        snapshot = Snapshot.open(x, class_names=["dog", "cat"])
        assert snapshot.labels.tolist() == [1, 0] and snapshot.columns(["predicted"])["predicted"].to_pylist() == [1, 0]
        with pytest.raises(InputError, match="'dog' is class 1 of 2 of the labels and class 0 of 2"):
            Snapshot.open(x, class_names=["dog", "cow"])

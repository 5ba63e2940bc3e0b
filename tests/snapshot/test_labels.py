"""Labels that are names: text, True and False, objects, categories; in arrays, tables and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardsight import Snapshot, avh, score
from hardsight.checks import counted_from_one
from hardsight.data import open_data
from hardsight.errors import InputError
from hardsight.files.heads import save_head
from hardsight.head import Head
from hardsight.labels import class_numbers
from hardsight.quality.folds import out_of_sample
from hardsight.training.inputs import ArrayInputs

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


def test_text_of_numbers_counts_as_numbers() -> None:
    assert class_numbers(["10", "2", "-1"])[0].tolist() == [10, 2, -1]
    assert class_numbers(["7", "3"], ["3", "7"]) == (pytest.approx([1, 0]), ["3", "7"])  # unless these are the names


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
    expected = {"flags": ["False", "True"], "numbers": None, "text of numbers": None}.get(kind, ["cat", "dog"])
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


def test_labels_counted_from_one_are_pointed_out(tmp_path: Path) -> None:
    hint = "Labels look counted from 1: subtract 1."
    for head in (np.eye(2), None):  # a head of two classes; none, to be fitted
        with pytest.raises(InputError, match=hint):
            score(FEATURES, head, [1, 2, 2, 1])
    for labels, num_classes in (([0, 1, 2], 2), ([1, 3], 2), ([-1], None)):
        assert counted_from_one(np.array(labels), num_classes) == ""
    np.savez(tmp_path / "i.npz", images=np.zeros((2, 4, 4), np.uint8), labels=[1, 2])
    assert open_data(tmp_path / "i.npz").notes == (hint,)
    assert ArrayInputs(FEATURES, [1, 2, 2, 1]).notes == (hint,)

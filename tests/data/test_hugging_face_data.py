"""Hugging Face datasets, as objects, Parquet shards and saved folders: images for extract and train, features for score."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encoded
from sklearn.linear_model import RidgeClassifier

from hardsight import Snapshot, extract, score
from hardsight.data import BrokenImage, open_data
from hardsight.errors import InputError
from hardsight.training.sets import _open as open_to_train

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), dtype=np.uint8)
LABELS = [1, 0, 2, 1, 0, 2, 1]
NAMES = ["cow", "ant", "bee"]  # not sorted: the order is that of the schema


@pytest.fixture(scope="module")
def dataset() -> Any:
    features = datasets.Features({
        "image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES), "camera": datasets.Value("string"),
    })  # fmt: skip
    images = [{"bytes": encoded(pixels), "path": f"{row}.png"} for row, pixels in enumerate(PIXELS)]
    return datasets.Dataset.from_dict({"image": images, "label": LABELS, "camera": list("abababa")}, features=features)


def is_the_data(data: Any, rows: Any = range(7)) -> None:
    assert [NAMES[label] for label in data.labels] == [NAMES[LABELS[row]] for row in rows] and data.class_names == NAMES
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(np.asarray(data.image(place)), PIXELS[row])


def test_a_dataset_object(dataset: Any) -> None:
    data = open_data(dataset)
    is_the_data(data)
    assert data.ids == [str(row) for row in range(7)] and data.columns == {"camera": list("abababa")}
    is_the_data(open_data(dataset.select([5, 2, 0])), [5, 2, 0])  # rows as the dataset has them, not as its table
    is_the_data(open_data(dataset).take([6, 1]), [6, 1])
    assert data.fingerprint() == open_data(dataset).fingerprint() != open_data(dataset.select([0, 1])).fingerprint()
    is_the_data(open_to_train(dataset))


def shards(dataset: Any, folder: Path) -> Path:
    """As the Hub has them: data/train-00000-of-00002.parquet, ..."""
    (folder / "data").mkdir(parents=True)
    for number, rows in enumerate((range(3), range(3, 5))):
        dataset.select(rows).to_parquet(folder / "data" / f"train-0000{number}-of-00002.parquet")
    dataset.select(range(5, 7)).to_parquet(folder / "data" / "test-00000-of-00001.parquet")
    return folder


def test_parquet_shards(dataset: Any, tmp_path: Path) -> None:
    data = open_data(shards(dataset, tmp_path / "set"))
    is_the_data(data, [5, 6, 0, 1, 2, 3, 4])
    assert data.columns["split"] == ["test"] * 2 + ["train"] * 5
    assert data.ids == ["test/0", "test/1", "train/0", "train/1", "train/2", "train/3", "train/4"]
    is_the_data(open_data(tmp_path / "set", split="train"), range(5))
    one = tmp_path / "set" / "data" / "train-00000-of-00002.parquet"
    is_the_data(open_data(one), range(3))
    is_the_data(pickle.loads(pickle.dumps(open_data(one))), range(3))  # as a worker gets it


def test_row_groups_are_read_one_at_a_time(dataset: Any, tmp_path: Path) -> None:
    dataset.to_parquet(tmp_path / "d.parquet", batch_size=2)
    data = open_data(tmp_path / "d.parquet")
    held: Any = data.images
    is_the_data(data)
    assert [shard.counts for shard in held.shards] == [(2, 2, 2, 1)]
    is_the_data(data.take([6, 0, 3]), [6, 0, 3])


def test_saved_datasets(dataset: Any, tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    dataset.save_to_disk(tmp_path / "one")
    is_the_data(open_data(tmp_path / "one"))
    both = datasets.DatasetDict({"train": dataset.select(range(4)), "test": dataset.select(range(4, 7))})
    both.save_to_disk(tmp_path / "both")
    data = open_data(tmp_path / "both")
    is_the_data(data)
    assert data.columns["split"] == ["train"] * 4 + ["test"] * 3
    with pytest.raises(InputError, match=r"a DatasetDict holds several splits: give one of them, such as data\['train'\]"):
        open_data(both)


def test_extract(dataset: Any, tmp_path: Path) -> None:
    model = RidgeClassifier().fit(PIXELS.reshape(7, -1) / 255, [NAMES[label] for label in LABELS])  # ant, bee, cow
    snapshot = extract(model, dataset, tmp_path / "object")
    assert snapshot.class_names == ["ant", "bee", "cow"]
    assert snapshot.columns(["label"]).column(0).to_pylist() == [0, 2, 1, 0, 2, 1, 0]  # joined by name
    again = extract(model, shards(dataset, tmp_path / "set"), tmp_path / "files", split="train")
    np.testing.assert_array_equal(again.in_memory().values, snapshot.in_memory(0, 5).values)
    assert score(again, scores="avh").equals(score(tmp_path / "files", scores="avh"))


def test_features_for_score(tmp_path: Path, cli: Callable[..., Any]) -> None:
    """Class names of the schema are joined to those of the head, whose rows are in another order."""
    kinds = {"features": datasets.List(datasets.Value("float32")), "label": datasets.ClassLabel(names=NAMES)}
    features = datasets.Features(kinds)
    held = datasets.Dataset.from_dict({"features": np.eye(3).tolist(), "label": [0, 1, 2]}, features=features)
    assert score(held, np.eye(3), scores="avh").column("avh").to_pylist() == [0.0, 0.0, 0.0]
    (tmp_path / "shards").mkdir()
    held.select([0]).to_parquet(tmp_path / "shards" / "a.parquet")
    held.select([1, 2]).to_parquet(tmp_path / "shards" / "b.parquet")
    snapshot = Snapshot.load(tmp_path / "shards", head=np.eye(3)[[1, 2, 0]], class_names=["ant", "bee", "cow"])
    table = score(snapshot, scores="avh")
    assert table.column("label").to_pylist() == [2, 0, 1] and table.column("avh").to_pylist() == [0.0, 0.0, 0.0]
    assert Snapshot.load(tmp_path / "shards").class_names == NAMES
    np.save(tmp_path / "w.npy", np.eye(3))
    done = cli("score", tmp_path / "shards", "--head", tmp_path / "w.npy")
    assert done.code == 0 and len(list((tmp_path / "shards").iterdir())) == 2  # no table among the shards
    embedded = held.rename_column("features", "vector")
    assert score(embedded, np.eye(3), features="vector", scores="avh").column("avh").to_pylist() == [0.0, 0.0, 0.0]


def test_bad_files(dataset: Any, tmp_path: Path) -> None:
    pictures = [b"no image", None, encoded(PIXELS[0])]
    pq.write_table(pa.table({"image": pictures, "label": ["x", "y", "x"]}), tmp_path / "raw.parquet")
    raw = open_data(tmp_path / "raw.parquet")  # bytes without a struct
    assert raw.class_names == ["x", "y"]
    np.testing.assert_array_equal(np.asarray(raw.image(2)), PIXELS[0])
    linked = {"image": [{"bytes": None, "path": "/etc/hostname"}], "label": [0]}
    pq.write_table(pa.table(linked), tmp_path / "linked.parquet")
    outside = open_data(tmp_path / "linked.parquet")  # a path in a file leads nowhere
    for data, row, message in ((raw, 0, "not_an_image"), (raw, 1, "missing"), (outside, 0, "no bytes in the table")):
        with pytest.raises(BrokenImage, match=message):
            data.image(row)
    with pytest.raises(InputError, match="--labels color is not one of its columns"):
        open_data(tmp_path / "raw.parquet", labels_from="color")
    with pytest.raises(InputError, match="a column of images is needed.*it has label"):
        open_data(dataset.remove_columns(["image", "camera"]))

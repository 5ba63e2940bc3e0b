"""One small dataset through every door: the same labels, class names and ids, or the same refusal."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hardsight import Snapshot
from hardsight.data import ImageData, open_data
from hardsight.errors import InputError

WORDS = ["cat", "dog", "c10", "c9", "Ünï", "a b"]
MISSING = [None, "", "NaN", "#N/A"]


@dataclass
class Dataset:
    """Labels as a user has them; `typed` are those of a file with types."""

    labels: list[Any]
    ids: list[Any]
    class_names: list[str] | None

    @property
    def features(self) -> np.ndarray:
        return np.arange(2.0 * len(self.ids)).reshape(-1, 2)

    @property
    def frame(self) -> pd.DataFrame:
        columns = {"f0": self.features[:, 0], "f1": self.features[:, 1], "id": self.ids}
        return pd.DataFrame(columns).assign(label=pd.Series(self.labels, dtype=object))

    @property
    def table(self) -> pa.Table:
        return pa.table({"features": self.features.tolist(), "id": self.ids, "label": pa.array(self.labels)})

    @property
    def written(self) -> list[str]:
        return ["" if label is None else str(label) for label in self.labels]


def of_list(data: Dataset, folder: Path) -> Snapshot:
    return Snapshot(data.features, None, data.labels, ids=data.ids, class_names=data.class_names)


def of_pandas(data: Dataset, folder: Path) -> Snapshot:
    return Snapshot.open(data.frame, features="f*", class_names=data.class_names)


def of_pandas_index(data: Dataset, folder: Path) -> Snapshot:
    frame = data.frame.set_index("id")
    return Snapshot(frame[["f0", "f1"]], None, frame["label"][::-1], class_names=data.class_names)


def of_plain_frame(data: Dataset, folder: Path) -> Snapshot:
    """Nothing is named: the column label is the labels."""
    return Snapshot.open(data.frame, class_names=data.class_names)


def of_polars(data: Dataset, folder: Path) -> Snapshot:
    frame = pl.DataFrame({"f0": data.features[:, 0], "f1": data.features[:, 1], "id": data.ids, "label": data.labels})
    return Snapshot.open(frame, features="f*", class_names=data.class_names)


def of_arrow(data: Dataset, folder: Path) -> Snapshot:
    return Snapshot.open(data.table, class_names=data.class_names)


def of_dataset(data: Dataset, folder: Path) -> Snapshot:
    datasets: Any = pytest.importorskip("datasets")
    return Snapshot.open(datasets.Dataset(data.table), class_names=data.class_names)


def of_parquet(data: Dataset, folder: Path) -> Snapshot:
    pq.write_table(data.table, folder / "s.parquet", row_group_size=2)
    return Snapshot.load(folder / "s.parquet", class_names=data.class_names)


def of_csv(data: Dataset, folder: Path) -> Snapshot:
    data.frame.assign(label=data.written).to_csv(folder / "s.csv", index=False)
    return Snapshot.load(folder / "s.csv", features="f*", class_names=data.class_names)


def of_labels_by_id(data: Dataset, folder: Path) -> Snapshot:
    np.savez(folder / "s.npz", features=data.features, ids=data.ids)
    pq.write_table(data.table.drop_columns(["features"]).take(list(range(len(data.ids)))[::-1]), folder / "y.parquet")
    return Snapshot.load(folder / "s.npz", labels=folder / "y.parquet", class_names=data.class_names)


def of_probs(data: Dataset, folder: Path) -> Snapshot:
    """A frame of probabilities whose columns are named after the classes, with as many as there are."""
    names = data.class_names or Snapshot(data.features, labels=data.labels).class_names
    largest = max((label for label in data.labels if isinstance(label, int)), default=0)
    frame = pd.DataFrame(np.full((len(data.ids), 1), 0.1), index=pd.Index(data.ids, dtype=object))
    frame = pd.concat([frame] * (largest + 1 if names is None else len(names)), axis=1)
    frame.columns = range(len(frame.columns)) if names is None else names  # type: ignore[assignment]
    return Snapshot(probs=frame, labels=data.labels, class_names=data.class_names)


def scores_of(data: Dataset) -> pa.Table:
    n = len(data.ids)
    columns = {"id": data.ids, "label": pa.array(data.labels), "predicted": pa.array(data.labels[::-1])}
    return pa.table({**columns, "status": ["ok"] * n, "avh": [0.5] * n})


def of_scores(data: Dataset, folder: Path) -> Snapshot:
    return both_columns(data, Snapshot.open(scores_of(data), class_names=data.class_names))


def of_scores_frame(data: Dataset, folder: Path) -> Snapshot:
    return both_columns(data, Snapshot.open(scores_of(data).to_pandas(), class_names=data.class_names))


def of_scores_parquet(data: Dataset, folder: Path) -> Snapshot:
    pq.write_table(scores_of(data), folder / "s.parquet")
    return both_columns(data, Snapshot.open(folder / "s.parquet", class_names=data.class_names))


def of_scores_json(data: Dataset, folder: Path) -> Snapshot:
    (folder / "s.json").write_text(json.dumps(scores_of(data).to_pylist()))
    return both_columns(data, Snapshot.open(folder / "s.json", class_names=data.class_names))


def both_columns(data: Dataset, opened: Snapshot) -> Snapshot:
    """What is predicted here are the labels backwards: both columns are read by one rule."""
    labels, predicted = (opened.columns([name]).column(0).to_pylist() for name in ("label", "predicted"))
    assert predicted == labels[::-1]
    return opened


def of_labels_file(data: Dataset, folder: Path) -> Snapshot:
    text = any(isinstance(label, str) for label in data.labels)
    labels = data.written if text else [-1 if label is None else label for label in data.labels]
    np.savez(folder / "s.npz", features=data.features, ids=data.ids)
    np.save(folder / "y.npy", np.array(labels))
    return Snapshot.load(folder / "s.npz", labels=folder / "y.npy", class_names=data.class_names)


def named_alike(images: ImageData, data: Dataset) -> ImageData:
    """The images under the class names of the user, as `extract` takes them."""
    from hardsight.extraction.inputs import _named

    return _named(images, data.class_names)  # type: ignore[return-value]


def of_image_csv(data: Dataset, folder: Path) -> ImageData:
    paths = [f"{row}.png" for row in range(len(data.ids))]
    pd.DataFrame({"path": paths, "id": data.ids, "label": data.written}).to_csv(folder / "i.csv", index=False)
    return named_alike(open_data(folder / "i.csv"), data)


def of_image_parquet(data: Dataset, folder: Path) -> ImageData:
    paths = [f"{row}.png" for row in range(len(data.ids))]
    pq.write_table(pa.table({"path": paths, "id": data.ids, "label": pa.array(data.labels)}), folder / "i.parquet")
    return named_alike(open_data(folder / "i.parquet"), data)


def of_encoded(data: Dataset, folder: Path) -> ImageData:
    images = [{"bytes": PNG, "path": None}] * len(data.ids)
    pq.write_table(pa.table({"image": images, "id": data.ids, "label": pa.array(data.labels)}), folder / "e.parquet")
    return named_alike(open_data(folder / "e.parquet"), data)


def of_tar(data: Dataset, folder: Path) -> ImageData:
    with tarfile.open(folder / "t.tar", "w") as tar:
        for row, label in enumerate(data.written):
            for name, content in ((f"{row}.png", PNG), (f"{row}.cls", label.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return named_alike(open_data(folder / "t.tar"), data)


def of_labels_csv(data: Dataset, folder: Path) -> ImageData:
    (folder / "images").mkdir()
    for row in range(len(data.ids)):
        (folder / "images" / f"{row}.png").write_bytes(PNG)
    names = [f"{row}.png" for row in range(len(data.ids))]
    pd.DataFrame({"id": names, "label": data.written}).to_csv(folder / "l.csv", index=False)
    return named_alike(open_data(folder / "images", labels_from=folder / "l.csv"), data)


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 2)).save(file, "PNG")
    return file.getvalue()


PNG = png()
Door = Callable[[Dataset, Path], Snapshot | ImageData]
SAMPLES: list[Door] = [
    of_list, of_pandas, of_plain_frame, of_pandas_index, of_polars, of_arrow, of_dataset, of_parquet, of_csv, of_labels_file,
]  # fmt: skip
MORE: list[Door] = [of_labels_by_id, of_probs, of_scores, of_scores_frame, of_scores_parquet, of_scores_json]
IMAGES: list[Door] = [of_image_csv, of_image_parquet, of_encoded, of_tar, of_labels_csv]
OWN_IDS = (of_tar, of_labels_csv)  # names of files


def through(door: Door, data: Dataset) -> tuple[list[int], list[str] | None, list[Any] | None] | str:
    """Labels, class names and ids as a door gives them; or that it refuses."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            opened = door(data, Path(folder))
            labels = [-1] * len(data.ids) if opened.labels is None else opened.labels.tolist()
            return labels, opened.class_names, None if door in OWN_IDS else list(opened.ids)
        except InputError:
            return "refused"


@st.composite
def with_missing(draw: st.DrawFn, values: st.SearchStrategy[Any], missing: list[Any]) -> list[Any]:
    return draw(
        st.lists(st.one_of(values, st.sampled_from(missing)), min_size=3, max_size=6).filter(lambda v: set(v) - set(MISSING))
    )


def dataset(labels: list[Any], class_names: list[str] | None = None) -> Dataset:
    return Dataset(labels, ["007", "=1+1", "b", "10", "ü", "x,y"][: len(labels)], class_names)


@given(with_missing(st.sampled_from(WORDS), MISSING))
def test_names(labels: list[Any]) -> None:
    results = {door.__name__: through(door, dataset(labels)) for door in (*SAMPLES, *IMAGES)}
    check_same(results)


@given(with_missing(st.integers(0, 12), [None]))
def test_numbers(labels: list[Any]) -> None:
    results = {door.__name__: through(door, dataset(labels)) for door in (*SAMPLES, *IMAGES)}
    check_same(results)
    assert results["of_list"][0] == [-1 if label is None else label for label in labels]


@given(with_missing(st.sampled_from(["3", "7", "10"]), MISSING), st.permutations(["3", "7", "10", "8"]))
def test_digits_that_are_names(labels: list[Any], class_names: list[str]) -> None:
    results = {door.__name__: through(door, dataset(labels, class_names)) for door in SAMPLES}
    check_same(results)
    assert results["of_list"][1] == class_names


@given(with_missing(st.sampled_from(["3", "7"]), MISSING), st.sampled_from(["9", "cow"]))
def test_a_name_that_no_class_has(labels: list[Any], other: str) -> None:
    kept = [label for label in labels if label not in MISSING]
    refused = {door.__name__: through(door, dataset([*kept, other][-6:], ["3", "7"])) for door in SAMPLES}
    assert set(refused.values()) == {"refused"}, refused


@pytest.mark.parametrize("door", [*SAMPLES, *MORE, *IMAGES])
def test_a_name_that_is_not_among_the_given_ones(door: Door) -> None:
    assert through(door, dataset(["cat", "dog", "cat"], ["cat", "cow"])) == "refused"


def test_integer_ids() -> None:
    data = Dataset(["dog", None, "cat"], [10, 7, 100], None)
    results = {door.__name__: through(door, data) for door in (*SAMPLES, *MORE)}
    check_same(results)
    assert results["of_list"] == ([1, -1, 0], ["cat", "dog"], [10, 7, 100])


def check_same(results: dict[str, Any]) -> None:
    labels, names, ids = results["of_list"]
    for door, found in results.items():
        assert found[:2] == (labels, names), door
        assert found[2] in (None, ids), door


@pytest.mark.parametrize("door", [*SAMPLES, *MORE, *IMAGES])
def test_fractions_are_refused(door: Door) -> None:
    assert through(door, dataset([0.0, 1.0, 1.5])) == "refused"

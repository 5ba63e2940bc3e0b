"""`open_data`: what it refuses, split, limit, labels_from, fingerprints, workers."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight.attacks.settings import AttackSettings
from hardsight.attacks.target import check_target
from hardsight.checking.check import default_output
from hardsight.data import ImageData, open_any, open_data
from hardsight.errors import FileError, HardsightError, InputError
from hardsight.files.kinds import holds_scores, kind_of
from hardsight.files.places import SAMPLE_ENDINGS
from hardsight.files.writing import check_output
from hardsight.snapshot import Snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for k in range(12):
        path = root / ("cat" if k < 6 else "dog") / f"{k:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2), (k, 0, 0)).save(path)
    return root


LABEL_FILES = {"short.txt": "1\n2\n", "other.csv": "id,label\nzebra.png,1\n", "x.docx": "hello"}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "not there": ("nowhere", {}, "existing folder or file"),
    "too long": ("x" * 5000, {}, "existing folder or file"),
    "with a zero": ("a\0b", {}, "existing folder or file"),
    "remote": ("ftp://example.org/x.tar", {}, "only local paths, s3://, gs://, hf:// and https:// are supported, not ftp://"),
    "a document": ("x.docx", {}, r"a data file must be \.csv"),
    "one picture": ("root/cat/00.png", {}, "pass its folder"),
    "limit 0": ("root", {"limit": 0}, "limit must be at least 1, got 0"),
    "limit -1": ("root", {"limit": -1}, "limit must be at least 1, got -1"),
    "limit True": ("root", {"limit": True}, "limit must be a whole number, got True"),
    "limit 2.5": ("root", {"limit": 2.5}, "limit must be a whole number, got 2.5"),
    "split": ("root", {"split": "gold"}, "'gold'.* train, val or test"),
    "too few labels": ("root", {"labels_from": "short.txt"}, "got 2 labels for 12 samples"),
    "other labels": ("root", {"labels_from": "other.csv"}, "none of its rows"),
    "no label file": ("root", {"labels_from": "coarse"}, "neither an existing file"),
    "no folders": ("digits", {"labels_from": "folder:1"}, "needs images in folders"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, options, message = REFUSED[case]
    monkeypatch.chdir(folder.parent)
    for name, content in LABEL_FILES.items():
        Path(name).write_text(content)
    with pytest.raises(HardsightError, match=message):
        open_data(spec, **options)


def test_a_path_named_digits_is_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.parent / "digits")
    monkeypatch.chdir(folder.parent)
    assert len(open_data(Path("digits"))) == 12 == len(open_data("./digits"))
    assert len(open_data("digits")) == 1797


def test_limit_is_spread_over_the_classes(folder: Path) -> None:
    data = open_data(folder, limit=4)
    assert data.ids == ["cat/00.png", "cat/03.png", "dog/06.png", "dog/09.png"]
    assert [data.image(row).getpixel((0, 0)) for row in range(4)] == [(0, 0, 0), (3, 0, 0), (6, 0, 0), (9, 0, 0)]
    assert len(open_data(folder, limit=100)) == 12


def test_split_marks_all_rows_where_there_is_none(folder: Path) -> None:
    assert set(open_data(folder, split="validation").columns["split"]) == {"val"}
    (folder / "x.csv").write_text("path,fold\ncat/00.png,train\ndog/06.png,dev\n")
    assert open_data(folder / "x.csv", split="fold").columns["split"] == ["train", "val"]  # a column as the split


def test_split_folders_share_class_indices(folder: Path) -> None:
    root = folder.parent
    folder.rename(root / "train")
    (root / "test" / "dog").mkdir(parents=True)
    Image.new("RGB", (2, 2)).save(root / "test" / "dog" / "x.png")
    test = open_data(root, split="test")
    assert test.class_names == ["cat", "dog"] and test.labels is not None and test.labels.tolist() == [1]
    shutil.copytree(root / "train", root / "domains" / "photo")
    shutil.copytree(root / "train", root / "domains" / "sketch")
    with pytest.raises(InputError, match="'photo' is a domain here"):
        open_data(root / "domains", split="photo")


def test_labels_from_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,label\ndog/06.png,wolf\ncat/00.png,lynx\n")
    data = open_data(folder, labels_from=tmp_path / "x.csv")
    assert data.class_names == ["lynx", "wolf"] and data.labels is not None
    assert data.labels.tolist() == [0] + [-1] * 5 + [1] + [-1] * 5
    (tmp_path / "x.csv").write_text("id,label\ndog/06.png,dog\ncat/00.png,dog\n")  # no cat is left, and classes stay
    same = open_data(folder, labels_from=tmp_path / "x.csv")
    assert same.class_names == ["cat", "dog"] and same.labels is not None and same.labels[[0, 6]].tolist() == [1, 1]
    (tmp_path / "x.csv").write_text("id,label,label_name\ndog/06.png,7,cat\ncat/00.png,0,dog\n")  # as clean --apply writes it
    same = open_data(folder, labels_from=tmp_path / "x.csv")
    assert same.class_names == ["cat", "dog"] and same.labels is not None and same.labels[[0, 6]].tolist() == [1, 0]
    (tmp_path / "x.csv").write_text("id,label,label_name\ndog/06.png,7,wolf\ncat/00.png,0,dog\n")  # of other classes
    other = open_data(folder, labels_from=tmp_path / "x.csv")
    assert other.class_names is None and other.labels is not None and other.labels[[0, 6]].tolist() == [0, 7]
    (tmp_path / "x.txt").write_text("\n".join(str(k) for k in range(12)))
    numbered = open_data(folder, labels_from=str(tmp_path / "x.txt"))
    assert numbered.labels is not None and numbered.labels.tolist() == list(range(12)) and numbered.class_names is None
    (tmp_path / "y.txt").write_text("cat/00.png 4\ndog/06.png 0\n")
    joined = open_data(folder, labels_from=tmp_path / "y.txt")
    assert joined.labels is not None and joined.labels[[0, 6]].tolist() == [4, 0]


def test_the_order_of_classes_is_noted_once(tmp_path: Path) -> None:
    for name in ("2", "10"):
        (tmp_path / f"n{name}").mkdir()
        Image.new("RGB", (2, 2)).save(tmp_path / f"n{name}" / "a.png")
    (tmp_path / "x.csv").write_text("id,label\nn2/a.png,n10\nn10/a.png,n2\n")
    data = open_data(tmp_path, labels_from=tmp_path / "x.csv")
    assert data.class_names == ["n2", "n10"] and sum("natural order" in note for note in data.notes) == 1


def test_fingerprint(folder: Path) -> None:
    before = open_data(folder).fingerprint()
    assert open_data(folder).take(range(11, -1, -1)).fingerprint()["sha256"] == before["sha256"]  # in any order
    assert before == open_data(folder).fingerprint() and before["kind"] == "folder" and before["count"] == 12
    assert before["sha256"] != open_data(folder, limit=6).fingerprint()["sha256"]
    os.utime(folder / "cat" / "00.png", ns=(1, 1))
    touched = open_data(folder).fingerprint()
    assert touched["sha256"] != before["sha256"] and touched["columns_sha256"] == before["columns_sha256"]
    relabeled = open_data(folder, labels_from="folder:-1", split="test").fingerprint()
    assert relabeled["sha256"] == touched["sha256"] and relabeled["columns_sha256"] != touched["columns_sha256"]
    (folder / "cat" / "00.png").unlink()
    assert open_data(folder).fingerprint()["sha256"] != touched["sha256"]
    prints = []
    for value in (0, 1):  # an array's is that of its file
        np.savez(folder / "x.npz", images=np.full((3, 2, 2), value, np.uint8))
        prints.append(open_data(folder / "x.npz").fingerprint()["sha256"])
    assert prints[0] != prints[1]


def first_pixel(job: tuple[ImageData, int]) -> object:
    data, row = job
    return data.image(row).getpixel((0, 0))


@pytest.mark.parametrize("method", sorted({"spawn", "fork"} & set(multiprocessing.get_all_start_methods())))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_read_the_same(folder: Path, tmp_path: Path, method: str) -> None:
    np.savez_compressed(tmp_path / "x.npz", images=np.arange(8, dtype=np.uint8).reshape(2, 2, 2))
    jobs = [(open_data(folder), 7), (open_data(tmp_path / "x.npz"), 1)]
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(first_pixel, jobs) == [(7, 0, 0), 4]


def test_what_an_input_is(tmp_path: Path) -> None:
    """One function decides for every command: by the arrays and columns that a file holds, not by its name alone."""
    features, pixels = np.eye(3, dtype=np.float32), np.zeros((2, 4, 4), np.uint8)
    np.savez(tmp_path / "features.npz", features=features)
    np.savez(tmp_path / "images.npz", images=pixels)
    np.save(tmp_path / "features.npy", features)
    np.save(tmp_path / "images.npy", pixels)
    (tmp_path / "images.csv").write_text("path,label\na.png,0\n")
    (tmp_path / "scores.csv").write_text("id,path,status,avh\n7,a.png,ok,0.5\n")
    pq.write_table(pa.table({"features": [[1.0, 2.0]]}), tmp_path / "features.parquet")
    pq.write_table(pa.table({"path": ["a.png"]}), tmp_path / "images.parquet")
    pq.write_table(pa.table({"id": [1], "avh": [0.5]}), tmp_path / "scores.parquet")
    (tmp_path / "scores.json").write_text('[{"id": 1, "avh": 0.5}]')
    for name in ("wide.csv", "wide.parquet"):  # features, though not which
        frame = pd.DataFrame({"id": ["a", "b"], "f0": [1.0, 2.0], "f1": [3.0, 4.0], "label": [0, 1]})
        frame.to_csv(tmp_path / name, index=False) if name.endswith("csv") else frame.to_parquet(tmp_path / name)
        assert kind_of(tmp_path / name) == "snapshot" and not holds_scores(tmp_path / name)
        assert len(Snapshot.open(tmp_path / name, features="f*")) == 2
        with pytest.raises(HardsightError, match="--features 'f\\*'"):
            open_any(tmp_path / name)
        (tmp_path / name).unlink()
    (tmp_path / "folder").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "folder" / "a.png")
    expected = {"features": Snapshot, "images": ImageData, "scores": pa.Table, "folder": ImageData}
    for path in tmp_path.iterdir():
        assert isinstance(open_any(path), expected[path.stem]), path
    assert isinstance(open_any("digits:test"), ImageData)
    scores = open_any(tmp_path / "scores.csv")
    assert scores.to_pydict() == {"id": [7], "path": ["a.png"], "status": ["ok"], "avh": [0.5]}  # type: ignore[union-attr]
    with pytest.raises(InputError, match="which does not exist"):
        open_any(tmp_path / "nothing")


@pytest.mark.parametrize("ending", SAMPLE_ENDINGS)
def test_a_format_of_samples_is_known_everywhere(tmp_path: Path, ending: str) -> None:
    path, marks = tmp_path / f"photo{ending}", tmp_path / "photo.review.parquet"
    assert default_output(f"photo{ending}") == "hardsight-photo"
    with pytest.raises(InputError, match=f"photo{ending} gives no gradients"):
        check_target(str(path), AttackSettings())
    path.touch()
    marks.touch()
    with pytest.raises(FileError, match="holds review marks"):
        check_output(marks)


def test_scores_of_every_ending(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "label": [0], "predicted": [1], "status": ["ok"]})
    for ending, separator in ((".csv", ","), (".tsv", "\t"), (".parquet", ""), (".pq", ""), (".json", "")):
        path = tmp_path / f"s{ending}"
        if separator:
            table.to_pandas().to_csv(path, sep=separator, index=False)
        else:
            path.write_text('[{"id": "a", "predicted": 1, "status": "ok"}]') if ending == ".json" else pq.write_table(table, path)
        assert kind_of(path) == "scores" and holds_scores(path)
        assert Snapshot.open(path).columns(["predicted"]).to_pydict() == {"predicted": [1]}

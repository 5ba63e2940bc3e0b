"""`open_data`: what it refuses, split, limit, labels_from, fingerprints, workers."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from hardsight.data import ImageData, open_any, open_data
from hardsight.errors import HardsightError, InputError
from hardsight.snapshot import Snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for k in range(12):
        path = root / ("cat" if k < 6 else "dog") / f"{k:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2), (k, 0, 0)).save(path)
    return root


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere", "existing folder or file"),
        ("x" * 5000, "existing folder or file"),
        ("a\0b", "existing folder or file"),
        ("https://example.org/x.tar", "only local paths, s3://, gs:// and hdfs:// are supported, not https://"),
    ],
)
def test_what_is_not_there(spec: str, message: str) -> None:
    with pytest.raises(HardsightError, match=message):
        open_data(spec)


def test_unknown_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.docx").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"a data file must be \.csv"):
        open_data(tmp_path / "x.docx")
    with pytest.raises(InputError, match="pass its folder"):
        open_data(folder / "cat" / "00.png")


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
    for bad in (0, -1, True, 2.5):
        with pytest.raises(InputError, match="limit must be 1 or more"):
            open_data(folder, limit=bad)  # type: ignore[arg-type]


def test_split_marks_all_rows_where_there_is_none(folder: Path) -> None:
    assert set(open_data(folder, split="validation").columns["split"]) == {"val"}
    with pytest.raises(InputError, match="'gold'.* train, val or test"):
        open_data(folder, split="gold")
    (folder / "x.csv").write_text("path,fold\ncat/00.png,train\ndog/06.png,dev\n")
    assert open_data(folder / "x.csv", split="fold").columns["split"] == ["train", "val"]  # a column as the split


def test_split_folders_share_class_indices(folder: Path) -> None:
    root = folder.parent
    folder.rename(root / "train")
    (root / "test" / "dog").mkdir(parents=True)
    Image.new("RGB", (2, 2)).save(root / "test" / "dog" / "x.png")
    test = open_data(root, split="test")
    assert test.class_names == ["cat", "dog"] and test.labels is not None and test.labels.tolist() == [1]


def test_domain_is_no_split(tmp_path: Path) -> None:
    for path in ("photo/cat", "photo/dog", "sketch/cat", "sketch/dog"):
        (tmp_path / path).mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(tmp_path / path / "1.png")
    with pytest.raises(InputError, match="'photo' is a domain here"):
        open_data(tmp_path, split="photo")


def test_labels_from_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,label\ndog/06.png,wolf\ncat/00.png,lynx\n")
    data = open_data(folder, labels_from=tmp_path / "x.csv")
    assert data.class_names == ["lynx", "wolf"] and data.labels is not None
    assert data.labels.tolist() == [0] + [-1] * 5 + [1] + [-1] * 5
    (tmp_path / "x.txt").write_text("\n".join(str(k) for k in range(12)))
    numbered = open_data(folder, labels_from=str(tmp_path / "x.txt"))
    assert numbered.labels is not None and numbered.labels.tolist() == list(range(12)) and numbered.class_names is None
    (tmp_path / "y.txt").write_text("cat/00.png 4\ndog/06.png 0\n")
    joined = open_data(folder, labels_from=tmp_path / "y.txt")
    assert joined.labels is not None and joined.labels[[0, 6]].tolist() == [4, 0]


def test_labels_from_errors(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("1\n2\n")
    with pytest.raises(InputError, match="12 here, got 2"):
        open_data(folder, labels_from=tmp_path / "short.txt")
    (tmp_path / "other.csv").write_text("id,label\nzebra.png,1\n")
    with pytest.raises(InputError, match="none of its rows"):
        open_data(folder, labels_from=tmp_path / "other.csv")
    with pytest.raises(InputError, match="neither an existing file"):
        open_data(folder, labels_from="coarse")
    with pytest.raises(InputError, match="needs images in folders"):
        open_data("digits", labels_from="folder:1")


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


def test_array_fingerprint_is_the_file(tmp_path: Path) -> None:
    images = np.zeros((3, 2, 2), np.uint8)
    np.savez(tmp_path / "x.npz", images=images)
    before = open_data(tmp_path / "x.npz").fingerprint()
    images[2, 1, 1] = 1
    np.savez(tmp_path / "x.npz", images=images)
    assert open_data(tmp_path / "x.npz").fingerprint()["sha256"] != before["sha256"]


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


def test_import_is_light() -> None:
    """Neither torch nor the table and learning libraries come along before they are needed."""
    code = "import sys, hardsight.data; print([m for m in ('torch', 'pyarrow', 'sklearn') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


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

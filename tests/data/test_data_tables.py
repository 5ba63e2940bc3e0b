"""List files, CSV and Parquet: labels of every kind, and no path that leads away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hardsight.data import BrokenImage, open_data
from hardsight.data.files import path_below
from hardsight.data.labels import names_by_label, read_labels
from hardsight.data.opening import check_files
from hardsight.errors import FileError, InputError
from hardsight.labels import Written


def save(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2)).save(path)


def listed(folder: Path, text: str, name: str = "list.txt") -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return open_data(folder / name)


def labels(data: Any) -> list[int]:
    assert data.labels is not None
    return data.labels.tolist()


def test_list(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "my cat.png", tmp_path / "dog" / "1.png")
    data = listed(tmp_path, "\ufeffcat/my cat.png 0\r\n\r\n./dog//1.png\t1\n")
    assert data.ids == ["cat/my cat.png", "dog/1.png"] == data.columns["path"]
    assert labels(data) == [0, 1] and data.class_names == ["cat", "dog"] and data.notes == ()
    assert data.roots == [tmp_path.resolve()] and data.image(0).size == (2, 2)


def test_list_counted_from_one_is_said(tmp_path: Path) -> None:
    data = listed(tmp_path, "a.png 1\nb.png 3\nc.png -1\n")
    assert labels(data) == [1, 3, -1] and "counted from 1" in data.notes[0]  # nothing says how many classes there are
    named = listed(tmp_path, "cat/a.png 1\ndog/b.png 2\n")
    assert labels(named) == [0, 1] and named.class_names == ["cat", "dog"] and "1 was subtracted" in named.notes[0]


def test_list_of_names_or_without_labels(tmp_path: Path) -> None:
    assert listed(tmp_path, "a b.png wolf\nc.png cat\n").class_names == ["cat", "wolf"]
    plain = listed(tmp_path, "a b.png\nc 1.png\n")
    assert plain.labels is None and plain.ids == ["a b.png", "c 1.png"]
    with pytest.raises(InputError, match=r"line 2: expected `path label`.*'readme'"):
        listed(tmp_path, "a.png 0\nreadme\n")
    assert len(listed(tmp_path, "")) == 0


def test_list_with_domains(tmp_path: Path) -> None:
    rows = [f"{d}/{c}/1.png {k}" for d in ("Art", "Clipart") for k, c in enumerate(("Alarm Clock", "Bed"))]
    data = listed(tmp_path, "\n".join(rows))
    assert data.columns["domain"] == ["Art", "Art", "Clipart", "Clipart"] and data.class_names == ["Alarm Clock", "Bed"]


def test_visda(tmp_path: Path) -> None:
    lists = {
        "train": ["aeroplane/1.png 0", "train/1.png 1"],
        "validation": ["aeroplane/2.png 0", "train/2.png 1"],
        "test": ["trunk0/1.png 1", "trunk0/2.png 0"],
    }
    for name, lines in lists.items():
        for line in lines:
            save(tmp_path / name / line.split()[0])
        (tmp_path / name / "image_list.txt").write_text("\n".join(lines))
    data = open_data(tmp_path)
    assert data.class_names == ["aeroplane", "train"]
    assert dict(zip(data.ids, labels(data), strict=True))["test/trunk0/1.png"] == 1
    test = open_data(tmp_path, split="test")
    assert test.ids == ["test/trunk0/1.png", "test/trunk0/2.png"] and labels(test) == [1, 0]
    assert open_data(tmp_path, split="validation").columns["split"] == ["val", "val"]
    assert open_data(tmp_path / "train").ids == ["aeroplane/1.png", "train/1.png"]
    assert all(data.image(row).size == (2, 2) for row in range(len(data)))


def test_a_missing_file_breaks_when_it_is_read(tmp_path: Path) -> None:
    save(tmp_path / "here.png")
    data = listed(tmp_path, "gone.png 0\nhere.png 1\n")
    with pytest.raises(BrokenImage) as caught:
        data.image(0)
    assert caught.value.reason == "missing" and data.image(1).size == (2, 2)
    check_files(data)
    with pytest.raises(FileError, match=r"none of the 2 files named exists below .* the first is gone\.png"):
        check_files(listed(tmp_path, "gone.png 0\nlost.png 1\n"))


EVIL = [
    "../secret.png",
    "cat/../../secret.png",
    "..\\secret.png",
    "/etc/passwd.png",
    "//server/share/x.png",
    "\\\\server\\share\\x.png",
    "file:///etc/passwd.png",
    "FILE:/etc/passwd.png",
    "http://127.0.0.1:9/x.png",
    "s3://bucket/x.png",
    "C:\\x.png",
    "c:/x.png",
    "data:image/png;base64,AAAA.png",
]


@pytest.mark.parametrize("evil", EVIL)
def test_paths_that_lead_away_are_refused_by_row(tmp_path: Path, evil: str) -> None:
    root = tmp_path / "root"
    save(tmp_path / "secret.png", root / "ok.png")
    (root / "x.txt").write_text(f"ok.png 0\n{evil} 1\n")
    (root / "x.csv").write_text(f'path,label\nok.png,0\n"{evil}",1\n')
    pq.write_table(pa.table({"path": ["ok.png", evil]}), root / "x.parquet")
    for name, row in (("x.txt", "line"), ("x.csv", "row"), ("x.parquet", "row")):
        with pytest.raises(InputError, match=f"{name}, {row} 2: a path must name a file below"):
            open_data(root / name)


def test_absolute_path_inside_the_root(tmp_path: Path) -> None:
    save(tmp_path / "real" / "a.png")
    (tmp_path / "link").symlink_to("real")
    assert listed(tmp_path / "real", f"{tmp_path}/real/a.png 0").ids == ["a.png"]
    assert listed(tmp_path / "link", f"{tmp_path}/link/a.png 0").ids == ["a.png"]


@given(st.text(st.sampled_from("a./\\:~ \0"), min_size=1, max_size=12))
def test_no_path_leaves_the_root(text: str) -> None:
    try:
        below = path_below("/data/root", text, "row 0")
    except InputError:
        return
    assert not below.startswith("/") and ".." not in below.split("/") and "\0" not in below


# --- CSV and Parquet


def csv(folder: Path, text: str, **options: Any) -> Any:
    (folder / "x.csv").write_text(text, encoding="utf-8", newline="")
    return open_data(folder / "x.csv", **options)


def test_csv(tmp_path: Path) -> None:
    save(tmp_path / "a.png", tmp_path / "new\nline.png")
    data = csv(tmp_path, 'path,label,id,split,site,age,code\na.png,0,x,Train,rome,7,007\n"new\nline.png",2,y,test,,,1\n')
    assert data.ids == ["x", "y"] and labels(data) == [0, 2] and data.class_names is None
    further = {"split": ["train", "test"], "site": ["rome", None], "age": [7, None], "code": ["007", "1"]}
    assert data.columns == {"path": ["a.png", "new\nline.png"], **further}
    assert data.image(1).size == (2, 2) and data.kind == "csv"


def test_csv_labels(tmp_path: Path) -> None:
    named = csv(tmp_path, "path,label\na.png,wolf\nb.png,\nc.png,cat\n")
    assert named.class_names == ["cat", "wolf"] and labels(named) == [1, -1, 0]
    assert csv(tmp_path, "path,label,class_name\na.png,1,wolf\nb.png,0,cat\n").class_names == ["cat", "wolf"]
    assert csv(tmp_path, "path,label\ncat/a.png,0\ndog/b.png,1\n").class_names == ["cat", "dog"]
    assert labels(csv(tmp_path, "path,label\na.png,1.0\nb.png,2.0\n")) == [1, 2]
    assert csv(tmp_path, "path\na.png\n").labels is None
    assert csv(tmp_path, "path,label\na.png,\n").labels is None
    assert len(csv(tmp_path, "path,label\n")) == 0
    assert listed(tmp_path, "path\tlabel\na, b.png\t0\n", "x.tsv").ids == ["a, b.png"]
    for bad in ("3.7", "-2", "2147483648", "9" * 30):
        with pytest.raises(InputError, match=r"row 2: labels must be"):
            csv(tmp_path, f"path,label\na.png,0\nb.png,{bad}\n")


def test_csv_column_as_label(tmp_path: Path) -> None:
    data = csv(tmp_path, "path,coarse,label\na.png,pet,0\nb.png,car,1\n", labels_from="coarse")
    assert data.class_names == ["car", "pet"] and labels(data) == [1, 0]
    assert csv(tmp_path, "path\nx/a.png\ny/b.png\n", labels_from="folder:1").class_names == ["x", "y"]
    with pytest.raises(InputError, match="'fine' is needed"):
        csv(tmp_path, "path,coarse\na.png,pet\n", labels_from="fine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na.png,0\n", "a column 'path' is needed, got 'file', 'label'. Rename 'file' to 'path'."),
        ("Path,label\na.png,0\n", "Rename 'Path' to 'path'"),
        ("path,Label\na.png,0\n", "column 'Label' is not 'label'"),
        ("path,label,label\na.png,0,1\n", "'label' appears more than once"),
        ("path,label\na.png\n", "row 1: expected 2 values"),
        ("path,label\n,0\n", "row 1: path must be text"),
        ("path,label\na.png,0\na.png,1\n", "Give each row its own `id`"),
        ("", "this one is empty"),
        ('path,label\n"a.png,0\n', "not a readable CSV"),
    ],
)
def test_csv_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((InputError, FileError), match=message):
        csv(tmp_path, text)


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"path": ["a.png", "b.png"], "label": [3.0, None], "id": [10, 20], "human": [0.5, 0.25]})
    pq.write_table(table, tmp_path / "x.parquet")
    data = open_data(tmp_path / "x.parquet")
    assert data.ids == ["10", "20"] and labels(data) == [3, -1] and data.columns["human"] == [0.5, 0.25]
    names = pa.array(["wolf", "cat"]).dictionary_encode()
    pq.write_table(pa.table({"path": ["a.png", "b.png"], "label": names}), tmp_path / "y.parquet")
    assert open_data(tmp_path / "y.parquet").class_names == ["cat", "wolf"]


@pytest.mark.parametrize(("numbers", "words"), [([0, 0], "ab"), ([0, 1], "aa"), ([0, 2], "ab"), ([-1, -1], "ab")])
def test_names_need_one_word_per_label(numbers: list[int], words: str) -> None:
    assert names_by_label(np.array(numbers), list(words)) is None


@given(st.lists(st.integers(-1, 9)))
def test_labels_read_back_whatever_their_type(values: list[int]) -> None:
    """As numbers, whole floats or text, the same labels come out."""
    kinds: list[list[Any]] = [values, [float(v) for v in values], Written(str(v) for v in values)]
    assert [read_labels(kind, str).numbers.tolist() for kind in kinds] == [values] * 3

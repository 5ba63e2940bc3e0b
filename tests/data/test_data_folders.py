"""What folders mean: class, domain/class, splits; and the same inside a tar."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import encoded, tar_of
from PIL import Image

from hardsight.data import BrokenImage, open_data
from hardsight.data.labels import class_index
from hardsight.data.layout import read_layout
from hardsight.errors import FileError, HardsightError, InputError
from hardsight.labels import natural_key


def tree(root: Path, *paths: str) -> Path:
    """Small images at these places."""
    for k, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2), (k, 0, 0)).save(root / path)
    return root


def labels_of(*paths: str, level: int | None = None) -> list[str | None]:
    """The class name of each path."""
    layout = read_layout(paths, level)
    if layout.labels is None or layout.class_names is None:
        return [None] * len(paths)
    return [layout.class_names[k] if k >= 0 else None for k in layout.labels]


def test_class_folders(tmp_path: Path) -> None:
    data = open_data(tree(tmp_path, "dog/a.png", "cat/b.png", "cat/deep/er/c.JPEG"))
    assert data.ids == ["cat/b.png", "cat/deep/er/c.JPEG", "dog/a.png"]
    assert data.class_names == ["cat", "dog"] and data.labels is not None and data.labels.tolist() == [0, 0, 1]
    assert data.columns == {"path": data.ids} and data.roots == [tmp_path.resolve()]
    assert data.labels.dtype == "int64" and len(data) == 3 and "2 classes" in repr(data)


def test_other_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "cat/a.png", "cat/._a.png", ".thumbs/cat/a.png", "__MACOSX/cat/b.png")
    for name in ("README.txt", "cat/2.HEIC", "cat/3.heic", "cat/4.avif"):
        (tmp_path / name).write_text("no image")
    data = open_data(tmp_path)
    assert data.ids == ["cat/a.png"]
    assert data.notes == ("3 pictures are not read (2 .heic, 1 .avif): convert them to JPEG or PNG.",)


@pytest.mark.parametrize(
    ("paths", "level", "classes"),
    [
        ("a.png b.png", None, [None, None]),
        ("a.png cat/b.png", None, [None, "cat"]),
        ("only/1.jpg", None, ["only"]),
        ("cat/v1/1.jpg cat/v2/1.jpg dog/v3/1.jpg", None, ["cat", "cat", "dog"]),  # classes with folders of their own
        ("n01/images/1.jpg n02/images/1.jpg", None, ["n01", "n02"]),  # tiny-imagenet
        ("cat/1.jpg dog/a/1.jpg cat/a/2.jpg", None, ["cat", "dog", "cat"]),
        ("a/x/1.jpg a/y/1.jpg a/z/1.jpg b/x/1.jpg b/y/1.jpg b/w/1.jpg", None, list("xyzxyw")),  # domains that share half
        ("train/1.jpg truck/1.jpg", None, ["train", "truck"]),  # VisDA's class of that name
        ("train/1.jpg test/1.jpg", None, ["train", "test"]),  # nothing below: they can only be classes
        ("bolt/train/1.jpg nut/test/1.jpg", None, ["bolt", "nut"]),
        ("a/x/1.jpg a/y/1.jpg b/x/1.jpg b/y/1.jpg", 1, list("aabb")),
        ("a/x/1.jpg a/y/1.jpg b/x/1.jpg b/y/1.jpg", -1, list("xyxy")),
        ("1.jpg a/2.jpg", 1, [None, "a"]),
    ],
)
def test_the_class_of_each_path(paths: str, level: int | None, classes: list[str | None]) -> None:
    assert labels_of(*paths.split(), level=level) == classes


def test_domains() -> None:
    layout = read_layout([f"PACS/{d}/{c}/1.jpg" for d in ("photo", "sketch") for c in ("dog", "cat")])
    assert layout.columns == {"domain": ["photo", "photo", "sketch", "sketch"]} and layout.class_names == ["cat", "dog"]
    assert "folder:1" in layout.notes[0]
    office31 = read_layout([f"office31/{d}/images/{c}/1.jpg" for d in ("amazon", "webcam") for c in ("mug", "pen")])
    assert office31.class_names == ["mug", "pen"] and office31.columns["domain"] == ["amazon", "amazon", "webcam", "webcam"]


def test_splits() -> None:
    layout = read_layout(["train/cat/1.jpg", "train/dog/1.jpg", "Validation/cat/1.jpg", "test/1.jpg"])
    assert layout.columns == {"split": ["train", "train", "val", "test"]}
    assert layout.labels is not None and layout.labels.tolist() == [0, 1, 0, -1]
    assert read_layout(["train/cat/1.jpg"]).columns == {"split": ["train"]}


def test_splits_below_domains_and_classes() -> None:
    paths = [f"{d}/{s}/{c}/1.jpg" for d in ("photo", "sketch") for s in ("train", "test") for c in ("cat", "dog")]
    layout = read_layout(paths)
    assert layout.columns["split"] == ["train", "train", "test", "test"] * 2
    assert layout.columns["domain"] == ["photo"] * 4 + ["sketch"] * 4
    assert layout.class_names == ["cat", "dog"]


def test_numbers_sort_as_numbers() -> None:
    """ImageNetV2 names its folders 0 to 999: in string order class 10 would come before class 2."""
    layout = read_layout([f"{k}/1.jpg" for k in range(1000)])
    assert layout.labels is not None and layout.labels.tolist() == list(range(1000))
    assert "natural order" in layout.notes[0]
    wnids = [f"n{k:08}" for k in (9, 10, 200)]
    assert class_index(wnids)[1] == sorted(wnids)


@given(
    st.lists(st.text(st.sampled_from("a9B0-10\u00b2"), max_size=6)),
    st.lists(st.lists(st.tuples(st.integers(10, 99), st.sampled_from(["a", "B", "-", "~", " \n"]))).map(str)),
)
def test_natural_order_is_total_and_plain_where_digits_come_in_one_length(names: list[str], even: list[str]) -> None:
    assert sorted(names, key=natural_key) == sorted(reversed(names), key=natural_key)
    assert sorted(even, key=natural_key) == sorted(even)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 99)), unique=True, min_size=1), st.randoms()
)
def test_layout_follows_its_rows(parts: list[tuple[str, str, int]], random: object) -> None:
    paths = [f"{a}/{b}/{k}.jpg" for a, b, k in parts]
    mixed = list(paths)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert dict(zip(paths, labels_of(*paths), strict=True)) == dict(zip(mixed, labels_of(*mixed), strict=True))


def test_linked_folders(tmp_path: Path) -> None:
    tree(tmp_path, "outside/1.png", "root/cat/1.png")
    (tmp_path / "root" / "also").symlink_to("cat")
    assert open_data(tmp_path / "root").ids == ["cat/1.png"]  # once, under its own name
    (tmp_path / "root" / "dog").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="links may not lead out"):
        open_data(tmp_path / "root")


# --- tar


PACS_LIKE = [f"{d}/{c}/{k}.png" for d in ("photo", "sketch") for c in ("cat", "dog") for k in range(2)]
RED = encoded(Image.new("RGB", (2, 2), "red"))


@pytest.mark.parametrize("prefix", ["", "./", "PACS/", "./PACS/"])
def test_tar_is_read_like_the_folder_in_it(tmp_path: Path, prefix: str) -> None:
    plain = open_data(tree(tmp_path / "plain", *PACS_LIKE))
    files = {prefix + name: (tmp_path / "plain" / name).read_bytes() for name in PACS_LIKE}
    packed = open_data(tar_of(tmp_path / "x.tar", files))
    assert packed.ids == plain.ids and packed.class_names == plain.class_names
    assert packed.labels is not None and plain.labels is not None and packed.labels.tolist() == plain.labels.tolist()
    assert packed.columns == {"domain": plain.columns["domain"]} and packed.roots == []
    again = pickle.loads(pickle.dumps(packed))
    for row in range(len(plain)):
        assert again.image(row).tobytes() == plain.image(row).tobytes()


def test_tar_errors(tmp_path: Path) -> None:
    tar_of(tmp_path / "up.tar", {"../cat/1.png": RED})
    tar_of(tmp_path / "none.tar", {"readme.md": b""})
    with tarfile.open(tmp_path / "link.tar", "w") as archive:
        info = tarfile.TarInfo("cat/1.png")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b not really")
    whole = tar_of(tmp_path / "whole.tar", {"cat/1.png": RED, "cat/2.png": b"oops"})
    (tmp_path / "cut.tar").write_bytes(whole.read_bytes()[:540])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "weights.bin").touch()
    for name, message in {
        "up.tar": "without `..`",
        "none.tar": "found none",
        "link.tar": "links inside a tar",
        "x.tar.gz": "decompress",
        "cut.tar": "cut.tar",
        "folder": "found none. It holds: weights.bin",
    }.items():
        with pytest.raises(HardsightError, match=message):
            open_data(tmp_path / name)
    with pytest.raises(BrokenImage, match="not_an_image|no image"):
        open_data(whole).image(1)
    with pytest.raises(InputError, match="N cannot be 0"):
        open_data(whole, labels_from="folder:0")


def test_a_tar_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "some.tar", {"cat/a.png": RED, "dog/b.png": RED})
    data = open_data(path)
    data.image(0)
    with open(path, "ab") as archive:
        archive.write(b"\0" * 512)
    with pytest.raises(FileError, match="changed while it was read"):
        data.image(1)

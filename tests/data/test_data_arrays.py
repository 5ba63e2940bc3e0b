"""Images as arrays: npz, npy, MNIST idx, CIFAR-10 binary, the built-in digits."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hardsight.data import digits, open_data
from hardsight.errors import FileError, HardsightError, InputError

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (6, 5, 4), dtype=np.uint8)
COLOR = RNG.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, -1])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("images", [GRAY, COLOR, np.asfortranarray(COLOR), GRAY[..., None]])
def test_npz(tmp_path: Path, save: object, images: np.ndarray) -> None:
    save(tmp_path / "x.npz", images=images, labels=LABELS, class_names=np.array(["a", "b", "c"]), site=np.arange(6))  # type: ignore[operator]
    data = open_data(tmp_path / "x.npz")
    assert data.ids == ["0", "1", "2", "3", "4", "5"] and data.class_names == ["a", "b", "c"]
    assert data.labels is not None and data.labels.tolist() == LABELS.tolist() and data.columns == {"site": [0, 1, 2, 3, 4, 5]}
    again = pickle.loads(pickle.dumps(data))
    for row in range(6):
        assert np.array_equal(np.asarray(again.image(row)), images[row].squeeze())
    assert data.image(0).mode == ("RGB" if images.shape[-1] == 3 else "L")


def test_ids_and_labels_beside_the_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=GRAY, ids=np.array(list("uvwxyz")))
    data = open_data(tmp_path / "x.npz", limit=3)
    assert data.ids == ["u", "w", "y"] and data.labels is None
    assert np.array_equal(np.asarray(data.image(2)), GRAY[4])
    np.savez(tmp_path / "empty.npz", images=GRAY[:0], labels=LABELS[:0])
    assert len(open_data(tmp_path / "empty.npz")) == 0
    np.save(tmp_path / "x.npy", COLOR)
    np.save(tmp_path / "y.npy", LABELS)
    labeled = open_data(tmp_path / "x.npy", labels_from=tmp_path / "y.npy")
    assert labeled.labels is not None and labeled.labels.tolist() == LABELS.tolist()
    assert np.array_equal(np.asarray(labeled.image(3)), COLOR[3])


@pytest.mark.parametrize("names", ["{}_images {}_labels", "x_{} y_{}"])
def test_npz_with_splits(tmp_path: Path, names: str) -> None:
    images, labels = names.split()
    arrays = {images.format("train"): GRAY[:4], labels.format("train"): LABELS[:4, None]}
    arrays |= {images.format("test"): GRAY[4:], labels.format("test"): LABELS[4:]}
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    data = open_data(tmp_path / "x.npz")
    assert data.ids == ["train/0", "train/1", "train/2", "train/3", "test/0", "test/1"]
    assert data.columns["split"] == ["train"] * 4 + ["test"] * 2
    test = open_data(tmp_path / "x.npz", split="test")
    assert test.ids == ["test/0", "test/1"] and np.array_equal(np.asarray(test.image(1)), GRAY[5])
    assert test.labels is not None and test.labels.tolist() == [1, -1]
    with pytest.raises(InputError, match=r"train \(4\), test \(2\); got 'val'"):
        open_data(tmp_path / "x.npz", split="val")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pixels": GRAY}, "must hold `images`.*it holds pixels"),
        ({"images": GRAY / 255}, r"\(255 \* images\)"),
        ({"images": COLOR.transpose(0, 3, 1, 2)}, "Channels come last"),
        ({"images": GRAY[0]}, r"got \(5, 4\)"),
        ({"images": GRAY, "labels": LABELS[:3]}, r"x\.npz:labels: "),
        ({"images": GRAY, "labels": LABELS + 0.5}, "whole numbers"),
        ({"images": GRAY, "ids": np.zeros(6)}, "ids: ids must be all strings"),
        ({"images": GRAY, "ids": np.zeros(6, int)}, "ids must be unique"),
        ({"train_images": GRAY, "test_images": GRAY, "test_labels": LABELS}, "either every split has labels or none"),
    ],
)
def test_npz_errors(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        open_data(tmp_path / "x.npz")


class Canary:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (self.path, "w")


def test_pickled_arrays_never_run(tmp_path: Path) -> None:
    """What else may be wrong with an .npz or .npy: tests/files/test_bad_files.py."""
    evil = np.array([Canary(str(tmp_path / "canary"))], dtype=object)
    np.savez(tmp_path / "x.npz", images=evil)
    np.save(tmp_path / "x.npy", evil)
    for name in ("x.npz", "x.npy"):
        with pytest.raises(FileError, match="Python objects"):
            open_data(tmp_path / name)
    assert not (tmp_path / "canary").exists()


# --- MNIST idx


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist(folder: Path, gz: bool, dash: str = "-") -> Path:
    for name, cut in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        for kind, array in (("images{}idx3-ubyte", GRAY[cut]), ("labels{}idx1-ubyte", np.abs(LABELS[cut]).astype(np.uint8))):
            path = folder / f"{name}-{kind.format(dash)}{'.gz' if gz else ''}"
            path.write_bytes(gzip.compress(idx(array)) if gz else idx(array))
    return folder


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("dash", ["-", "."])
def test_idx(tmp_path: Path, gz: bool, dash: str) -> None:
    data = open_data(mnist(tmp_path, gz, dash))
    assert data.kind == "idx" and data.ids == ["train/0", "train/1", "train/2", "train/3", "test/0", "test/1"]
    assert data.labels is not None and data.labels.tolist() == [0, 1, 2, 0, 1, 1]
    again = pickle.loads(pickle.dumps(data))
    assert all(np.array_equal(np.asarray(again.image(row)), GRAY[row]) for row in range(6))
    (tmp_path / "some.bin").write_bytes(idx(GRAY))  # known by its first bytes
    assert open_data(tmp_path / "some.bin").ids[:2] == ["0", "1"]
    one = open_data(tmp_path / f"t10k-images{dash}idx3-ubyte{'.gz' if gz else ''}")
    assert one.ids == ["test/0", "test/1"] and one.labels is not None and one.labels.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(GRAY)[:-1], "bytes, but 119 follow"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "declares"),
        (bytes([0, 0, 13, 3]) + b"\0" * 12, "got 00 00 0d 03"),
        (b"", "got nothing"),
        (idx(GRAY[:3]), "train-labels-idx1-ubyte: "),
        (gzip.compress(idx(GRAY))[:60], "train-images-idx3-ubyte"),
    ],
    ids=["cut", "declares", "type", "empty", "labels", "zipped"],  # gzip writes the time, and every process names the same tests
)
def test_idx_errors(content: bytes, message: str, tmp_path: Path) -> None:
    path = mnist(tmp_path, gz=False) / "train-images-idx3-ubyte"
    if content.startswith(b"\x1f\x8b"):
        path = path.rename(f"{path}.gz")
    path.write_bytes(content)
    with pytest.raises(HardsightError, match=message):
        open_data(tmp_path)


# --- CIFAR-10


def batch(labels: list[int], images: np.ndarray) -> bytes:
    """Records of one label byte and the three color planes."""
    return b"".join(bytes([k]) + image.transpose(2, 0, 1).tobytes() for k, image in zip(labels, images, strict=True))


def test_cifar(tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    (tmp_path / "data_batch_1.bin").write_bytes(batch([3, 0], images[:2]))
    (tmp_path / "data_batch_2.bin").write_bytes(batch([9, 1], images[2:4]))
    (tmp_path / "test_batch.bin").write_bytes(batch([5, 6], images[4:]))
    data = open_data(tmp_path)
    assert data.ids == ["train/0", "train/1", "train/2", "train/3", "test/0", "test/1"]
    assert data.labels is not None and data.labels.tolist() == [3, 0, 9, 1, 5, 6]
    assert data.class_names is not None and data.class_names[3] == "cat"
    assert all(np.array_equal(np.asarray(data.image(row)), images[row]) for row in range(6))
    assert open_data(tmp_path, split="test").ids == ["test/0", "test/1"]


def cifar100(folder: Path) -> tuple[list[int], list[int], np.ndarray]:
    """Five samples: coarse and fine labels, and the images."""
    images = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    coarse, fine = [4, 19, 0, 4, 7], [99, 3, 50, 98, 0]
    records = [bytes([k]) + batch([f], images[row : row + 1]) for row, (k, f) in enumerate(zip(coarse, fine, strict=True))]
    (folder / "train.bin").write_bytes(b"".join(records[:3]))
    (folder / "test.bin").write_bytes(b"".join(records[3:]))
    return coarse, fine, images


def test_cifar100(tmp_path: Path) -> None:
    coarse, fine, images = cifar100(tmp_path)
    plain = open_data(tmp_path)
    assert plain.columns["coarse_label"] == coarse and plain.class_names is None  # no names beside the files
    (tmp_path / "fine_label_names.txt").write_text("\n".join(f"fine{k}" for k in range(100)) + "\n")
    (tmp_path / "coarse_label_names.txt").write_text("\n".join(f"coarse{k}" for k in range(20)))
    data = open_data(tmp_path)
    assert data.ids == ["train/0", "train/1", "train/2", "test/0", "test/1"]
    assert data.labels is not None and data.labels.tolist() == fine
    assert data.class_names is not None and data.class_names[50] == "fine50" and len(data.class_names) == 100
    assert data.columns["coarse_label"] == [f"coarse{k}" for k in coarse]
    assert all(np.array_equal(np.asarray(data.image(row)), images[row]) for row in range(5))
    assert open_data(tmp_path, split="test").columns["coarse_label"] == ["coarse4", "coarse7"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("test_batch.bin", b"\0" * 3000, "whole records of 3073 bytes"),
        ("test_batch.bin", bytes([10]) + b"\0" * 3072, "labels are 0 to 9"),
        ("test.bin", b"\0" * 3073, "whole records of 3074 bytes"),
        ("test.bin", bytes([20]) + b"\0" * 3073, "coarse labels of CIFAR-100 are 0 to 19, got 20"),
        ("data_batch_1", b"\x80\x02}q\x00.", "pickles, which are never loaded. Use the binary version"),
        ("meta", b"\x80\x02}q\x00.", "pickles, which are never loaded. Use the binary version"),
    ],
)
def test_cifar_errors(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    if name == "test.bin":
        cifar100(tmp_path)
        (tmp_path / "fine_label_names.txt").write_text("\n".join(f"fine{k}" for k in range(100)))
    for also in {"meta": ("train", "test")}.get(name, ()):
        (tmp_path / also).write_bytes(content)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HardsightError, match=message):
        open_data(tmp_path)


def test_another_train_bin_is_not_cifar(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(b"tokens")
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "cat" / "1.png")
    assert open_data(tmp_path).ids == ["cat/1.png"]


# --- digits


def test_digits() -> None:
    whole, train, test = open_data("digits"), open_data("digits:train"), open_data("digits", split="test")
    assert len(whole) == 1797 == len(train) + len(test) and set(train.ids).isdisjoint(test.ids)
    assert whole.class_names == list("0123456789") and set(test.columns["split"]) == {"test"}
    assert test.labels is not None and np.bincount(test.labels).min() > 20
    row = whole.ids.index(test.ids[7])
    assert whole.image(row).tobytes() == pickle.loads(pickle.dumps(test)).image(7).tobytes()
    assert np.asarray(whole.image(0)).max() <= 255 and whole.fingerprint() == open_data("digits").fingerprint()
    assert open_data("digits:test").fingerprint() != train.fingerprint()
    with pytest.raises(InputError, match="already names a split"):
        open_data("digits:train", split="test")
    with pytest.raises(InputError, match="split must be one that the data has"):
        open_data("digits:gold")


def test_digits_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    bunch = datasets.load_digits()
    assert (digits._table() == np.column_stack([bunch.data, bunch.target])).all()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # where its file is elsewhere, it is asked itself
    assert (digits._table()[:, -1] == bunch.target).all()

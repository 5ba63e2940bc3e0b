"""`python -m hardsight_papers.data`: published files, as small stand-ins of the same format, become what recipes open."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import hardsight
from doc_blocks import ROOT, blocks
from hardsight.errors import FileError
from hardsight_papers import data, data_folder
from hardsight_papers.arrays import open_labeled
from hardsight_papers.avh.imagenet import read_votes, voted_rows
from hardsight_papers.data_folder import DataFolder, digest, wrong_checksum
from hardsight_papers.running import reproduce

RNG = np.random.default_rng(0)


def idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(head + array.tobytes()))


def published_digits(folder: Path) -> dict[str, np.ndarray]:
    written: dict[str, np.ndarray] = {}
    for split, name in (("train", "train"), ("test", "t10k")):
        images, labels = RNG.integers(0, 255, (12, 28, 28), np.uint8), RNG.integers(0, 10, 12, np.uint8)
        idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)
        written |= {f"{split}_images": images, f"{split}_labels": labels}
        lines = [
            " ".join(map(str, [label, *(image.reshape(-1)[:256] / 127.5 - 1)]))
            for label, image in zip(labels, images, strict=True)
        ]
        (folder / f"zip.{split}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return written


def published_cifar(folder: Path) -> np.ndarray:
    """(8, 3073) records of the binary version: a label and the planes of 32 x 32 pixels."""
    records = np.concatenate([np.arange(8, dtype=np.uint8)[:, None] % 10, RNG.integers(0, 255, (8, 3072), np.uint8)], axis=1)
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, rows in [(f"data_batch_{k}.bin", records[k : k + 1]) for k in range(1, 6)] + [("test_batch.bin", records[6:])]:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = rows.size
            archive.addfile(member, io.BytesIO(rows.tobytes()))
    return records


def published_imagenet(folder: Path) -> dict[str, str]:
    wnids = {f"ILSVRC2012_val_{k:08d}": ("n02", "n01")[k % 2] for k in range(1, 15)}
    with tarfile.open(folder / "ILSVRC2012_img_val.tar", "w") as archive:
        for name in wnids:
            file = io.BytesIO()
            Image.fromarray(RNG.integers(0, 255, (16, 16, 3), np.uint8)).save(file, "JPEG")
            member = tarfile.TarInfo(f"{name}.JPEG")
            member.size = file.tell()
            file.seek(0)
            archive.addfile(member, file)
    rows = [f"{name},{wnid} 1 2 3 4 " for name, wnid in wnids.items()]
    (folder / "LOC_val_solution.csv").write_text("\n".join(["ImageId,PredictionString", *rows]))
    info = [("ILSVRC2012_val_00000001.JPEG", "0"), ("ILSVRC2012_val_00000001.JPEG", "1"), ("ILSVRC2012_val_00000002.JPEG", "1")]
    answers = np.zeros((6, 3, 3))
    for question, (no, yes) in enumerate([(1, 4), (5, 0), (0, 5)]):
        answers[:no, question, 0] = answers[no : no + yes, question, 2] = 1
    np.savez(folder / "raters.npz", tensor=answers, info=np.array(info), ids=np.arange(6))
    return wnids


def test_published_files_become_what_recipes_open(tmp_path: Path) -> None:
    digits, records, wnids = published_digits(tmp_path), published_cifar(tmp_path), published_imagenet(tmp_path)
    counts = RNG.integers(0, 9, (2, 10))
    np.save(tmp_path / "cifar10h-counts.npy", counts)
    said = list(data.build(tmp_path))
    assert [line.split()[1].rstrip(":") for line in said if line.startswith("missing")] == [
        "imagenet_frequency.csv", "PACS", "pacs_effnetlite0.npz", "cifar10n_train.npz", "cifar10_resnet20.safetensors",
        "cifar10_resnet32.safetensors",
    ]  # fmt: skip
    assert all("http" in line or "docs/data.md" in line for line in said if line.startswith("missing"))
    with np.load(tmp_path / "mnist.npz") as made:
        assert all((made[name] == array).all() for name, array in digits.items())
    usps = open_labeled(tmp_path / "usps.npz", splits=True)
    assert (np.asarray(usps.image(0)) == digits["train_images"][0].reshape(-1)[:256].reshape(16, 16)).all()
    test, train = (open_labeled(tmp_path / f"cifar10_{name}.npz") for name in ("test", "train"))
    assert (len(test), len(train)) == (2, 5) and test.labels is not None and test.labels.tolist() == [6, 7]
    assert (np.asarray(test.image(0)) == records[6, 1:].reshape(3, 32, 32).transpose(1, 2, 0)).all()
    few = open_labeled(tmp_path / "imagenet_val5k")
    assert len(few) == 10 and len(open_labeled(tmp_path / "imagenet" / "val")) == len(wnids)
    votes = read_votes(tmp_path / "imagenet_votes_all.npz")
    assert "there    imagenet_votes_all.npz" in said  # made here, so it is not what our numbers were measured on
    frequency = votes.frequency[voted_rows(tmp_path, votes.ids, few.ids)]
    known = dict(zip(few.ids, frequency.tolist(), strict=True))
    assert known["0000/ILSVRC2012_val_00000001.JPEG"] == 0.8 and known["0001/ILSVRC2012_val_00000002.JPEG"] == 1.0
    assert DataFolder(tmp_path).find("cifar10_people") == tmp_path / "cifar10h-counts.npy"
    assert list(data.build(tmp_path)) == said  # again: nothing is made twice


def test_arrays_have_one_checksum_however_they_are_packed(tmp_path: Path) -> None:
    values = RNG.integers(0, 9, (4, 3))
    np.save(tmp_path / "a.npy", values.astype(np.uint8))
    np.save(tmp_path / "b.npy", values.astype(np.int64))
    np.save(tmp_path / "c.npy", values.T.astype(np.int64))
    np.savez(tmp_path / "a.npz", x=values, y=values)
    np.savez_compressed(tmp_path / "b.npz", y=values, x=values)
    a, b, c = (digest(tmp_path / f"{name}.npy") for name in "abc")
    assert a == b != c and digest(tmp_path / "a.npz") == digest(tmp_path / "b.npz")


def run_page(writes: str) -> None:
    """The Python block of data.md that writes a file, here."""
    page = ROOT / "papers" / "docs" / "data.md"
    (text,) = [block.text for block in blocks(page) if block.language == "python" and writes in block.text]
    exec(compile(text, str(page), "exec"), {})


def test_the_page_turns_published_checkpoints_into_the_weights_that_recipes_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with `module.` and counts of batches, as published; what comes out fills our network, whatever their order."""
    torch = pytest.importorskip("torch")
    from hardsight.models import networks, open_model

    monkeypatch.chdir(tmp_path)
    made = {20: networks.cifar_resnet20(), 32: networks.cifar_resnet32()}
    for network, name in zip(made.values(), ("resnet20-12fca82f.th", "resnet32-d509ac18.th"), strict=True):
        state = {f"module.{name}": values for name, values in reversed(network.state_dict().items())}
        torch.save({"state_dict": state, "best_prec1": 91.7}, tmp_path / name)
    run_page("cifar10_resnet")
    images = RNG.random((2, 3, 32, 32), np.float32)
    for depth, network in made.items():
        name = f"hardsight.models.networks:cifar_resnet{depth}"
        opened = open_model(name, weights=tmp_path / f"cifar10_resnet{depth}.safetensors", num_classes=10, device="cpu")
        with torch.no_grad():
            assert opened(images)[1] == pytest.approx(network.eval()(torch.as_tensor(images)).numpy(), abs=1e-4)


def test_the_page_turns_a_run_into_the_features_that_recipes_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for k in range(24):
        folder = tmp_path / "PACS" / "kfold" / ("cartoon", "photo", "sketch")[k % 3] / ("dog", "horse")[k // 3 % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 255, (8, 8, 3), np.uint8)).save(folder / f"pic_{k:03d}.jpg")
    (tmp_path / "their_own.py").write_text("from hardsight.models import DigitsCNN\nnetwork = lambda: DigitsCNN(2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = hardsight.extract("their_own:network", tmp_path / "PACS" / "kfold", tmp_path / "pacs-features", device="cpu")
    run_page("pacs_effnetlite0.npz")
    with np.load("pacs_effnetlite0.npz") as made:
        assert made["features"].dtype == np.float16 and made["domain_names"].tolist() == ["cartoon", "photo", "sketch"]
        assert made["ids"][0] == "cartoon/dog/pic_000.jpg" and made["class_names"].tolist() == ["dog", "horse"]
        assert [made["domain_names"][k] for k in made["domains"]] == [str(id).partition("/")[0] for id in run.ids]
    options: dict[str, Any] = {"epochs": 1, "hidden": 4, "losses": "softmax", "seeds": 1}
    done = hardsight.generalize(DataFolder(tmp_path).require("pacs_features", "Table 5"), tmp_path / "run", **options)
    assert {"cartoon", "photo", "sketch"} <= set(done.accuracy.column_names)


def test_the_page_turns_published_answers_into_what_correlate_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five people k % 6 say yes to the given label of image k, and all say no to the other one of image 0."""
    monkeypatch.chdir(tmp_path)
    names = [f"ILSVRC2012_val_{k:08d}.JPEG" for k in range(30)]
    labels, yes = np.arange(30) % 2, np.arange(30) % 6
    info = [*zip(names, labels.astype(str), strict=True), (names[0], "1")]
    answers = np.zeros((5, 31, 3))
    for question, count in enumerate([*yes, 0]):
        answers[count:, question, 0] = answers[:count, question, 2] = 1
    np.savez("raters.npz", tensor=answers, info=np.array(info))
    run_page("votes.parquet")
    ids = [f"n0{label}/{name}" for name, label in zip(names, labels, strict=True)]
    probs = np.eye(2)[labels] * RNG.uniform(0.1, 0.9, (30, 1)) + 0.05
    seen = hardsight.Snapshot(probs=probs / probs.sum(1, keepdims=True), labels=labels, ids=ids)
    found = hardsight.correlate(seen, "votes.parquet", replicates=20, permutations=20)
    assert found.agreement().target.values.tolist() == (yes / 5).tolist()
    torch = pytest.importorskip("torch")
    published = {name: np.arange(3) for name in ("clean_label", "random_label1", "random_label2", "random_label3")}
    torch.save(published, "CIFAR-10_human.pt")
    run_page("cifar10n_train.npz")
    with np.load("cifar10n_train.npz") as made:
        assert set(made.files) == {"clean", "random1", "random2", "random3"} and made["random3"].tolist() == [0, 1, 2]


def test_a_wrong_checksum_is_named_and_used_only_unchecked(tmp_path: Path, cli: Any) -> None:
    labels = np.arange(20) % 10
    np.savez(tmp_path / "cifar10n_train.npz", clean=labels, random1=labels, random2=labels, random3=labels)
    with pytest.raises(FileError, match=r"cifar10n_train.npz: its SHA-256 is .*--unchecked"):
        reproduce("avh/fig23", data=tmp_path)
    assert "CIFAR-10N" in reproduce("avh/fig23", data=tmp_path, unchecked=True).about
    refused = cli("reproduce", "avh/fig23", "--data", tmp_path)
    assert refused.code == 2 and "cifar10n_train.npz" in refused.err and len(refused.err.splitlines()) == 1
    assert any(line.startswith("other    cifar10n_train.npz") for line in data.build(tmp_path))


def test_what_was_measured_on_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "cifar10h-counts.npy", np.ones((3, 10), int))
    path = DataFolder(tmp_path).find("cifar10_people")
    assert path is not None and wrong_checksum("cifar10_people", path)
    monkeypatch.setitem(data_folder.MEASURED, "cifar10_people", digest(path))
    assert wrong_checksum("cifar10_people", path) == "" and DataFolder(tmp_path).check() is None


def test_the_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main([]) == 2 and data.main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere is not a directory" in capsys.readouterr().err
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x0d\x01aaaa"))
    (tmp_path / "t10k-images-idx3-ubyte.gz").touch()
    assert data.main([str(tmp_path)]) == 2 and "idx file of bytes" in capsys.readouterr().err

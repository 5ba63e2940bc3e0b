"""`hardsight extract`, end to end: every image layout, every kind of model, degradations, broken images, options."""

from __future__ import annotations

import csv
import io
import json
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hardsight
from hardsight.errors import FileError, InputError, RunError
from hardsight.extraction import inputs, parts
from hardsight.extraction.settings import ExtractSettings
from hardsight.files import samples
from hardsight.snapshot import Snapshot

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes, preprocessing):
        super().__init__()
        torch.manual_seed(0)
        self.preprocessing, channels = preprocessing, {"RGB": 3, "L": 1}[preprocessing["channels"]]
        self.body = nn.Sequential(nn.Conv2d(channels, 20, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(20, classes)

    def forward(self, images):
        return self.head(self.body(images).flatten(1))


def two():
    return Net(2, {"size": [16, 16], "mean": [0.5] * 3, "std": [0.25] * 3, "channels": "RGB"})


def three():
    return Net(3, {"size": [16, 16], "channels": "RGB"})


def fresh():
    net = two()
    nn.init.zeros_(net.head.weight), nn.init.zeros_(net.head.bias)
    return net


def squeezed():
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 20, 3, 2), nn.ReLU(), nn.Conv2d(20, 2, 1, bias=False)]
    return nn.Sequential(*body, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def gray():
    return Net(10, {"size": [8, 8], "channels": "L"})
"""
Cli = Callable[..., Any]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with tiny_nets.py, like a user's own code."""
    (tmp_path / "tiny_nets.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny_nets", raising=False)
    return tmp_path


def picture(seed: int, side: int = 20) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def class_folders(root: Path, per_class: int = 4, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    for k, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for number in range(per_class):
            picture(100 * k + number).save(root / name / f"{number}.png")
    return root


def rows(run: Path) -> list[dict[str, Any]]:
    return [row for part in sorted((run / "samples").glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def told(run: Path, file: str = "run.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / file).read_text())
    return found


def by_hand(factory: str, images: list[Image.Image]) -> np.ndarray:
    """The features, computed with plain torch."""
    import tiny_nets

    net = getattr(tiny_nets, factory)().eval()
    side = net.preprocessing["size"][0]
    mean, std = net.preprocessing.get("mean", [0.0] * 3), net.preprocessing.get("std", [1.0] * 3)
    batch = []
    for image in images:
        pixels = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR), np.float32) / 255
        batch.append(((pixels - mean) / std).transpose(2, 0, 1))
    with torch.no_grad():
        return np.asarray(net.body(torch.tensor(np.array(batch), dtype=torch.float32)).flatten(1))


def test_class_folders(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    done = cli("extract", "tiny_nets:two", "photos", "-o", "run", "--split", "test", "--batch-size", 3)
    assert done.code == 0, done.err
    assert "8 rows of 20 features\nwrote run\n" in done.out and "next: hardsight clean run" in done.out
    found = rows(here / "run")
    assert [row["id"] for row in found] == [f"{name}/{k}.png" for name in ("cat", "dog") for k in range(4)]
    assert [row["label"] for row in found] == [0] * 4 + [1] * 4
    assert {row["split"] for row in found} == {"test"} and found[5]["path"] == found[5]["base_id"] == "dog/1.png"
    assert {row["degradation"] for row in found} == {None} == {row["level"] for row in found}
    expected = by_hand("two", [Image.open(here / "photos" / row["id"]) for row in found])
    np.testing.assert_allclose([row["features"] for row in found], expected, atol=1e-6)
    snapshot = Snapshot.load(here / "run")
    assert snapshot.class_names == ["cat", "dog"] and snapshot.num_classes == 2
    assert cli("score", "run").code == 0


def test_what_was_done_is_written_down(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    changed = ["--size", 12, "--mean", "0.1,0.2,0.3", "--crop-pct", "0.75", "--interpolation", "bicubic", "--resize", "squash"]
    assert cli("extract", "tiny_nets:two", "photos", "-o", "run", *changed).code == 0
    start, end = told(here / "run", "start.json"), told(here / "run")
    given = {"size": [12, 12], "resize": "squash", "crop_pct": 0.75, "interpolation": "bicubic", "mean": [0.1, 0.2, 0.3]}
    assert start["arguments"]["preprocessing"] == {**given, "std": [0.25] * 3, "channels": "RGB", "exact_decode": False}
    assert {key: end[key] for key in start} == start
    assert start["arguments"]["layer"] == "head" and start["words"].startswith("hardsight extract tiny_nets:two photos")
    assert end["counts"] == {"images": 8, "rows": 8, "broken": 0, "decoded_again": 0}
    assert [part["name"] for part in end["parts"]] == ["samples/part-00000.parquet", "head.safetensors"]


def test_domains_in_a_tar(here: Path, cli: Cli) -> None:
    with tarfile.open(here / "pacs.tar", "w") as archive:
        for number, domain in enumerate(("photo", "sketch")):
            for k, name in enumerate(("dog", "horse", "house")):
                content = io.BytesIO()
                picture(10 * number + k).save(content, "JPEG")
                info = tarfile.TarInfo(f"PACS/{domain}/{name}/1.jpg")
                info.size = content.tell()
                archive.addfile(info, io.BytesIO(content.getvalue()))
    done = cli("extract", "tiny_nets:three", "pacs.tar", "-o", "run")
    assert done.code == 0 and "domain/class" in done.out
    found = rows(here / "run")
    assert [(row["id"], row["domain"], row["label"]) for row in found][3:5] == [
        ("sketch/dog/1.jpg", "sketch", 0),
        ("sketch/horse/1.jpg", "sketch", 1),
    ]


def test_npz_and_digits(here: Path, cli: Cli) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    np.savez(here / "images.npz", images=images, labels=np.arange(30) % 10, age=np.arange(30) / 2)
    assert cli("extract", "tiny_nets:gray", "images.npz", "-o", "run").code == 0
    found = rows(here / "run")
    assert [row["id"] for row in found] == [str(k) for k in range(30)] and found[3]["age"] == 1.5
    assert cli("extract", "tiny_nets:gray", "digits:test", "-o", "digits-run", "--limit", 50).code == 0
    assert len(rows(here / "digits-run")) == 50 and {row["split"] for row in rows(here / "digits-run")} == {"test"}


def test_lists_and_tables(here: Path, cli: Cli) -> None:
    class_folders(here / "my photos")
    (here / "list.txt").write_text("my photos/cat/0.png 1\nmy photos/dog/3.png 2\n")
    done = cli("extract", "tiny_nets:two", "list.txt", "-o", "run")
    assert done.code == 0, done.err
    assert [(row["id"], row["label"]) for row in rows(here / "run")] == [("my photos/cat/0.png", 0), ("my photos/dog/3.png", 1)]
    with (here / "table.csv").open("w", newline="") as file:
        lines = [["path", "label", "id", "camera", "level"], ["my photos/cat/1.png", "cat", "a", "7", "x"]]
        csv.writer(file).writerows([*lines, ["my photos/dog/1.png", "dog", "b", "", "y"]])
    done = cli("extract", "tiny_nets:two", "table.csv", "-o", "table-run")
    assert done.code == 0 and "skipping columns with reserved names: level" in done.out
    assert [(row["id"], row["camera"], row["level"]) for row in rows(here / "table-run")] == [("a", 7, None), ("b", None, None)]


def test_a_loader_and_a_list_of_samples(here: Path) -> None:
    import tiny_nets

    images = torch.rand(25, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(25) % 2
    net = tiny_nets.two()
    loader = DataLoader(TensorDataset(images, labels), batch_size=8)
    whole = hardsight.extract(net, loader).in_memory()
    with torch.no_grad():
        np.testing.assert_allclose(whole.values, net.eval().body(images).flatten(1), atol=1e-6)
    singles = [(image, int(label)) for image, label in zip(images, labels, strict=True)]
    for other in (singles, TensorDataset(images, labels), iter([(images.numpy(), labels.numpy())])):
        again = hardsight.extract(net, other).in_memory()
        np.testing.assert_allclose(again.values, whole.values, atol=1e-6)
        assert np.array_equal(again.labels, labels.numpy())
    assert len(hardsight.extract(net, loader, first=11)) == 11
    for settings, ids in ((ExtractSettings(first=3), ["4", "9", "14"]), (ExtractSettings(limit=3), ["4", "599", "1199"])):
        assert inputs._open_images("digits:test", settings).ids == ids


def test_a_loader_into_parts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "PART_NUMBERS", 20 * 7)  # seven rows in each part
    batches = [(torch.rand(4, 3, 16, 16), torch.tensor([0, 1, -1, 1])) for _ in range(5)]
    snapshot = hardsight.extract("tiny_nets:two", batches, here / "run", split="val")
    assert [part["rows"] for part in told(here / "run")["parts"]][:3] == [7, 7, 6]
    assert len(snapshot) == 20 and [row["id"] for row in rows(here / "run")] == list(range(20))
    assert rows(here / "run")[2]["label"] is None and {row["split"] for row in rows(here / "run")} == {"val"}
    in_memory = hardsight.extract("tiny_nets:two", batches)
    np.testing.assert_array_equal(snapshot.in_memory().values, in_memory.in_memory().values)
    with pytest.raises(RunError, match="complete run"):
        hardsight.extract("tiny_nets:two", batches, here / "run", split="val")


LOADER = [(torch.rand(1, 3, 16, 16), [0])]
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": ([], {}, "returned no images"),
    "a dict": ([{"pixel_values": 1}], {}, "number 0 is dict"),
    "a class too many": ([(torch.rand(2, 3, 16, 16), torch.tensor([0, 5]))], {}, "labels must be 0 to 1"),
    "one image, two labels": ([(torch.rand(3, 16, 16), torch.tensor([0, 1]))], {}, "images of shape"),
    "two sizes": ([(torch.rand(3, 16, 16), 0), (torch.rand(3, 8, 8), 0)], {}, "same size"),
    "a number": (7, {}, "got int"),
    "degradations": (LOADER, {"degradations": ["noise=0.1"]}, "degradations does not apply to a loader"),
    "layers": (LOADER, {"layers": "body"}, "layers does not apply to a loader"),
    "passes": (LOADER, {"passes": "flip"}, "passes does not apply to a loader"),
    "limit": (LOADER, {"limit": 11}, "limit does not apply to a loader"),
    "no output": ("digits", {}, "output='run'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(here: Path, case: str) -> None:
    loader, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        hardsight.extract("tiny_nets:two", loader, **options)


def test_a_scikit_learn_pipeline(here: Path) -> None:
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    images, labels = load_digits(return_X_y=True)
    pipeline = make_pipeline(PCA(20), LogisticRegression(max_iter=300)).fit(images[::2] / 16, labels[::2])
    snapshot = hardsight.extract(pipeline, "digits:test", here / "run")
    table = hardsight.score(snapshot)
    right = np.mean(table["label"].to_numpy() == table["predicted"].to_numpy())
    assert snapshot.source.width == 20 and right > 0.9
    by_rows = hardsight.extract(pipeline, [(images[4::5] / 16, labels[4::5])])
    np.testing.assert_allclose(by_rows.in_memory().values, snapshot.in_memory().values, atol=0.02)  # 8-bit pixels


def test_onnx_gives_the_same(here: Path, cli: Cli) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    import tiny_nets
    from test_models_onnx import graph, node

    class_folders(here / "photos")
    net = tiny_nets.two()  # written by hand: what torch itself exports is tested in test_models_onnx.py
    layers = [node("Conv", "x k c", "h", kernel_shape=[3, 3], strides=[2, 2]), node("Relu", "h", "r")]
    layers += [node("GlobalAveragePool", "r", "p"), node("Flatten", "p", "f")]
    arrays = {"k": net.body[0].weight, "c": net.body[0].bias, "w": net.head.weight, "b": net.head.bias}
    last, values = node("Gemm", "f w b", "y", transB=1), {name: array.detach().numpy() for name, array in arrays.items()}
    graph(here / "net.onnx", last, shape=(3, 16, 16), start=layers, **values)
    assert cli("extract", "tiny_nets:two", "photos", "-o", "torch-run").code == 0
    done = cli("extract", "net.onnx", "photos", "-o", "onnx-run", "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25")
    assert done.code == 0, done.err
    scores = [hardsight.score(Snapshot.load(here / run)) for run in ("torch-run", "onnx-run")]
    for name in ("avh", "confidence", "norm"):
        np.testing.assert_allclose(scores[0][name], scores[1][name], atol=1e-4)


def test_degradations(here: Path, cli: Cli) -> None:
    class_folders(here / "photos", per_class=2)
    words = ["--degrade", "contrast=0.3,1.0", "--degrade", "noise=0.2"]
    assert cli("extract", "tiny_nets:two", "photos", "-o", "run", *words).code == 0
    found = rows(here / "run")
    assert [row["id"] for row in found[:3]] == ["cat/0.png#contrast=0.3", "cat/0.png#contrast=1.0", "cat/0.png#noise=0.2"]
    assert [(row["base_id"], row["degradation"], row["level"], row["label"]) for row in found[9:]] == [
        ("dog/1.png", "contrast", 0.3, 1),
        ("dog/1.png", "contrast", 1.0, 1),
        ("dog/1.png", "noise", 0.2, 1),
    ]
    plain = by_hand("two", [Image.open(here / "photos/cat/0.png")])[0]
    np.testing.assert_allclose(found[1]["features"], plain, atol=1e-6)  # contrast 1.0 is the picture itself
    assert not np.allclose(found[0]["features"], plain, atol=1e-3) and not np.allclose(found[2]["features"], plain, atol=1e-3)
    assert cli("extract", "tiny_nets:two", "photos", "-o", "again", *words, "--workers", 1).code == 0
    assert (here / "again/samples/part-00000.parquet").read_bytes() == (here / "run/samples/part-00000.parquet").read_bytes()


def broken_folder(root: Path) -> Path:
    class_folders(root)
    whole = (root / "cat/1.png").read_bytes()
    (root / "cat/1.png").write_bytes(whole[: len(whole) // 2])
    (root / "dog/0.png").write_bytes(b"<svg onload='alert(1)'/>")
    (root / "dog/3.png").write_bytes(b"")
    return root


def test_broken_images_are_listed(here: Path, cli: Cli) -> None:
    broken_folder(here / "photos")
    done = cli("extract", "tiny_nets:two", "photos", "-o", "run", "--batch-size", 2)
    assert done.code == 0 and "3 of 8 images could not be read: see run/errors.parquet" in done.out
    errors = pq.read_table(here / "run/errors.parquet").to_pylist()
    assert [(row["id"], row["reason"]) for row in errors] == [
        ("cat/1.png", "truncated"),
        ("dog/0.png", "not_an_image"),
        ("dog/3.png", "empty"),
    ]
    assert "ends before the picture does" in errors[0]["message"]
    assert [row["id"] for row in rows(here / "run")] == ["cat/0.png", "cat/2.png", "cat/3.png", "dog/1.png", "dog/2.png"]
    assert told(here / "run")["counts"] == {"images": 8, "rows": 5, "broken": 3, "decoded_again": 0}
    expected = by_hand("two", [Image.open(here / "photos" / row["id"]) for row in rows(here / "run")])
    np.testing.assert_allclose([row["features"] for row in rows(here / "run")], expected, atol=1e-6)


@pytest.mark.parametrize("at", ["cat/1.png", "dog/3.png"])  # among the first images, which the model is checked on, and later
def test_strict_stops(here: Path, cli: Cli, at: str) -> None:
    class_folders(here / "photos")
    (here / "photos" / at).write_bytes(b"no image")
    done = cli("extract", "tiny_nets:two", "photos", "-o", "run", "--strict")
    assert done.code == 2 and at in done.err and "Omit --strict" in done.err and done.err.count("\n") == 1
    assert not (here / "run/run.json").exists()
    (here / "none/cat").mkdir(parents=True)
    (here / "none/cat/1.png").write_bytes(b"no image")
    with pytest.raises(FileError, match="none of the 1 images"):
        hardsight.extract("tiny_nets:two", here / "none", here / "other")


def test_a_part_of_broken_images_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "PART_NUMBERS", 20)  # one row in each part
    snapshot = hardsight.extract("tiny_nets:two", broken_folder(here / "photos"), here / "run")
    assert len(snapshot) == 5 and [part["rows"] for part in told(here / "run")["parts"]][:3] == [1, 0, 1]
    assert len(hardsight.score(snapshot)) == 5


def test_a_strip_does_not_become_gigapixels(here: Path) -> None:
    class_folders(here / "photos", per_class=1)
    Image.new("RGB", (100_000, 1), "red").save(here / "photos/cat/strip.png")
    Image.new("RGB", (1, 60_000), "red").save(here / "photos/dog/strip.png")
    snapshot = hardsight.extract("tiny_nets:two", here / "photos", here / "run", preprocessing={"size": (224, 224)})
    features = snapshot.in_memory().values
    np.testing.assert_allclose(features[1], features[3], rtol=1e-5)  # red all over, both


def test_other_classes_than_the_models(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    done = cli("extract", "tiny_nets:three", "photos", "-o", "run")
    assert done.code == 0 and "the data has 2 classes, the model 3: its head is left out" in done.out
    assert not (here / "run/head.safetensors").exists() and Snapshot.load(here / "run").head is None
    done = cli("extract", "tiny_nets:three", "photos", "-o", "kept", "--keep-head")
    assert done.code == 2 and "by name, but the model has none: give all 3 in its order with --class-names" in done.err
    (here / "names.txt").write_text("dog\nbird\ncat\n")
    done = cli("extract", "tiny_nets:three", "photos", "-o", "kept", "--keep-head", "--class-names", "names.txt")
    kept = Snapshot.load(here / "kept")
    assert done.code == 0 and kept.num_classes == 3 and kept.class_names == ["dog", "bird", "cat"]
    assert [row["label"] for row in rows(here / "kept")] == [2] * 4 + [0] * 4  # cat, then dog, as the model counts them
    class_folders(here / "many", per_class=1, classes=("a", "b", "c"))
    done = cli("extract", "tiny_nets:two", "many", "-o", "wrong", "--keep-head")
    assert done.code == 2 and "the data's 3 classes are matched to the model's 2 by name" in done.err
    done = cli("extract", "tiny_nets:three", "many", "-o", "wrong", "--class-names", "names.txt", "--limit", "2")
    assert done.code == 0 and Snapshot.load(here / "wrong").class_names == ["dog", "bird", "cat"]  # other words for a, b, c


def test_class_names_stay_without_the_head(here: Path, cli: Cli) -> None:
    """Names belong to the labels: whatever the head is, they come back with the run, and in every table of it."""
    class_folders(here / "photos", per_class=6)
    assert cli("extract", "tiny_nets:three", "photos", "-o", "run").code == 0
    snapshot = Snapshot.load(here / "run")
    assert snapshot.head is None and snapshot.class_names == ["cat", "dog"]
    assert hardsight.score(snapshot).class_names == ["cat", "dog"]
    assert hardsight.clean(here / "run").class_names == ["cat", "dog"]
    (here / "names.txt").write_text("wolf\ndog\ncat\n")
    assert cli("extract", "tiny_nets:two", "photos", "-o", "three", "--class-names", "names.txt").code == 0
    assert Snapshot.load(here / "three").class_names == ["wolf", "dog", "cat"]
    assert [row["label"] for row in rows(here / "three")] == [2] * 6 + [1] * 6
    (here / "names.txt").write_text("cat\nbird\n")
    done = cli("extract", "tiny_nets:two", "photos", "-o", "none", "--class-names", "names.txt")
    assert done.code == 2 and "class 'dog' is not one of cat, bird" in done.err
    loader = [(torch.rand(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))]
    for fit_head in (False, True):
        assert hardsight.extract("tiny_nets:two", loader, class_names=["x", "y"], fit_head=fit_head).class_names == ["x", "y"]
    hardsight.extract("tiny_nets:two", loader, here / "loaded", class_names=["x", "y"], fit_head=True)
    assert Snapshot.load(here / "loaded").class_names == ["x", "y"]


def test_numbers_of_other_classes_than_the_models(here: Path, cli: Cli) -> None:
    """The same rule for folders and numbers: the head is left out if the labels refer to other classes."""
    labels = [0, 3, 1, 2] * 3
    np.savez(here / "data.npz", images=np.stack([np.asarray(picture(row)) for row in range(12)]), labels=labels)
    (here / "flat").mkdir()
    for row in range(12):
        picture(row).save(here / f"flat/{row}.png")
    (here / "data.csv").write_text("path,label\n" + "".join(f"flat/{row}.png,{label}\n" for row, label in enumerate(labels)))
    assert cli("extract", "tiny_nets:two", "data.csv", "-o", "listed").code == 0 and Snapshot.load(here / "listed").head is None
    done = cli("extract", "tiny_nets:two", "data.npz", "-o", "run")
    assert done.code == 0 and "the data has 4 classes, the model 2: its head is left out" in done.out, done.err
    assert Snapshot.load(here / "run").head is None and [row["label"] for row in rows(here / "run")] == labels
    for name in ("label", "features"):
        assert [row[name] for row in rows(here / "listed")] == [row[name] for row in rows(here / "run")]
    assert len(hardsight.score(here / "run")) == 12
    done = cli("extract", "tiny_nets:two", "data.npz", "-o", "kept", "--keep-head")
    assert done.code == 2 and "labels must be 0 to 1" in done.err and not (here / "kept").exists()
    done = cli("extract", "tiny_nets:gray", "data.npz", "-o", "ten")  # numbers that the model has
    assert done.code == 0 and Snapshot.load(here / "ten").num_classes == 10


def test_numbers_counted_from_one(here: Path) -> None:
    np.savez(here / "data.npz", images=np.stack([np.asarray(picture(row)) for row in range(4)]), labels=[1, 2, 2, 1])
    said: list[str] = []
    snapshot = hardsight.extract("tiny_nets:two", here / "data.npz", here / "run", say=said.append)
    assert snapshot.num_classes == 2 and snapshot.labels.tolist() == [0, 1, 1, 0]
    assert "1 was subtracted" in said[1]


def test_a_head_of_zeros_has_confidences_and_no_angles(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    assert cli("extract", "tiny_nets:fresh", "photos", "-o", "run").code == 0
    assert (here / "run/head.safetensors").exists()
    done = cli("score", "run")
    assert done.code == 2 and done.err.count("\n") == 1 and not (here / "run/scores.parquet").exists()
    assert "run: angles need class vectors with a direction, but class 0 is at the origin" in done.err
    table = hardsight.score(here / "run", scores="confidence,loss")
    assert table.column("confidence").to_pylist() == pytest.approx([0.5] * 8)


def test_a_head_that_is_not_linear_is_fitted_instead(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    done = cli("extract", "tiny_nets:squeezed", "photos", "-o", "run")
    assert done.code == 2 and "pass --head-layer 2 --fit-head" in done.err and not (here / "run").exists()
    done = cli("extract", "tiny_nets:squeezed", "photos", "-o", "run", "--head-layer", "2", "--fit-head")
    assert done.code == 0 and done.err == "" and "leaving the model's head out; score will fit one" in done.out
    assert not (here / "run/head.safetensors").exists()
    assert len(hardsight.score(here / "run")) == 8
    done = cli("extract", "tiny_nets:two", "photos", "-o", "other", "--keep-head", "--fit-head")
    assert done.code == 2 and "contradict each other" in done.err
    with pytest.raises(InputError, match="fit_head needs labels"):
        hardsight.extract("tiny_nets:two", here / "photos/cat", here / "other", fit_head=True)
    loader = [(torch.rand(4, 3, 16, 16), torch.tensor([0, 1, 5, 1]))]  # a class that the model does not know
    assert hardsight.extract("tiny_nets:two", loader, fit_head=True).head is None
    assert hardsight.extract("tiny_nets:two", loader, here / "other", fit_head=True).head is None


def test_labels_follow_the_models_class_names(here: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    model = LogisticRegression().fit(rng.random((30, 3 * 20 * 20)), np.array(["ant", "cat", "dog"] * 10))
    class_folders(here / "photos")
    said: list[str] = []
    snapshot = hardsight.extract(model, here / "photos", here / "run", say=said.append)
    assert snapshot.in_memory().labels.tolist() == [1] * 4 + [2] * 4 and snapshot.class_names == ["ant", "cat", "dog"]
    assert said == ["labels follow the model's own class names: cat is class 1"]


def test_pictures_of_different_sizes_need_one(here: Path, cli: Cli) -> None:
    class_folders(here / "photos")
    picture(1, side=30).save(here / "photos/dog/9.png")
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(InputError, match="same size.*use --size"):
        hardsight.extract(net, here / "photos", here / "run")
    assert len(hardsight.extract(net, here / "photos", here / "other", preprocessing={"size": (16, 16)})) == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--batch-size", "0"], "batch_size must be a positive number or auto"),
        (["--mean", "a,b"], "mean must be comma-separated numbers"),
        (["--head-layer", "body.7"], "body.7"),
        (["--split", "blue"], "no splits and no column"),
    ],
)
def test_wrong_options(here: Path, cli: Cli, words: list[str], message: str) -> None:
    class_folders(here / "photos")
    done = cli("extract", "tiny_nets:two", "photos", "-o", "run", *words)
    assert done.code == 2 and message in done.err and not (here / "run").exists()


def test_a_disk_without_room_is_named_before_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))  # type: ignore[attr-defined]
    said: list[str] = []
    hardsight.extract("tiny_nets:two", class_folders(here / "photos"), here / "run", say=said.append)
    assert said == [f"the features need 1 MB, but {here / 'run'} has only 1 MB free"]


def test_progress_counts_every_image(here: Path) -> None:
    seen: list[tuple[int, int]] = []
    count = lambda *numbers: seen.append(numbers)
    hardsight.extract("tiny_nets:two", class_folders(here / "photos"), here / "run", batch_size=3, progress=count)
    assert seen == [(3, 8), (6, 8), (8, 8)]


def test_the_largest_batch_that_fits() -> None:
    def attempt(size: int) -> None:
        if size > 100:
            raise RuntimeError("CUDA out of memory")

    assert parts.largest_that_fits(attempt) == 64
    with pytest.raises(RuntimeError, match="other"):
        parts.largest_that_fits(lambda size: (_ for _ in ()).throw(RuntimeError("other")))


def test_exact_decoding_gives_the_bytes_of_whole_pictures(here: Path) -> None:
    """Of a large JPEG the features differ a little, of a PNG not at all; the run says which it was."""
    (here / "data").mkdir()
    for ending in ("jpg", "png"):
        picture(0, 40).resize((400, 300)).save(here / "data" / f"picture.{ending}")
    with Image.open(here / "data" / "picture.jpg") as opened:
        opened.convert("RGB").save(here / "data" / "whole.png")  # what a whole decoding of the JPEG gives
    features = {}
    for exact in (False, True):
        run = here / f"run{exact}"
        features[exact] = np.asarray(hardsight.extract("tiny_nets:two", "data", run, exact_decode=exact).features)
        assert told(run, "start.json")["arguments"]["preprocessing"]["exact_decode"] is exact
    jpeg, png, whole = range(3)
    np.testing.assert_array_equal(features[True][jpeg], features[True][whole])
    np.testing.assert_array_equal(features[False][png], features[True][png])
    assert 0 < np.abs(features[False][jpeg] - features[True][jpeg]).max() < 0.1 * np.abs(features[True][jpeg]).max()


# ---- near ties ----

TIED = 2  # the row of the picture that nearly has another prediction


@pytest.fixture
def large(here: Path) -> Path:
    """Five JPEGs, each brighter than the one before, and larger than a network of 16 px needs."""
    for k in range(5):
        (here / "data" / "ab"[k % 2]).mkdir(parents=True, exist_ok=True)
        shown = picture(k, 40).resize((400, 300)).point([round(0.2 * (k + 1) * value) for value in range(256)] * 3)
        shown.save(here / "data" / "ab"[k % 2] / f"{k}.jpg")
    return here / "data"


def tied(data: Path, run: Path, gap: float | None, **options: Any) -> list[np.ndarray]:
    """The features of all that a run stores; the logits of one scaled picture differ by the gap, of all others by more."""
    import tiny_nets

    net = tiny_nets.two()
    net.head.weight.data *= 30
    net.head.bias.data = torch.tensor([1000.0, 0.0])
    if gap is not None:
        seen = hardsight.extract(net, data, run.with_name(f"{run.name}-before"))  # of the pictures as they are
        logits = torch.tensor(np.asarray(seen.features)) @ net.head.weight.detach().T  # (5, 2)
        net.head.bias.data = torch.tensor([0.0, float(logits[TIED, 0] - logits[TIED, 1]) - gap])
    hardsight.extract(net, data, run, **{"batch_size": 4, **options})
    return [
        np.array(sum((pq.read_table(part)["features"].to_pylist() for part in sorted(folder.glob("*.parquet"))), []))
        for folder in (run / "samples", run / "passes/flip/samples", run / "layers/00-body.0")
        if folder.exists()
    ]


@pytest.mark.parametrize("options", [{}, {"passes": "flip", "layers": "body.0"}, {"fit_head": True}, {"batch_size": 1}])
def test_a_near_tie_takes_the_features_of_the_whole_picture(here: Path, large: Path, options: dict[str, Any]) -> None:
    """In every pass and layer, and also where the head is left out; the others keep those of the scaled picture."""
    scaled, whole = (tied(large, here / f"exact-{exact}", None, exact_decode=exact, **options) for exact in (False, True))
    near, far = tied(large, here / "near", 0.01, **options), tied(large, here / "far", 0.1, **options)
    assert len(scaled) == (3 if "passes" in options else 1)
    for values, of_scaled, of_whole, as_before in zip(near, scaled, whole, far, strict=True):
        assert np.abs(of_scaled - of_whole).max(axis=1).min() > 1e-4
        expected = np.where(np.arange(5)[:, None] == TIED, of_whole, of_scaled)
        np.testing.assert_allclose(values, expected, atol=1e-6)
        np.testing.assert_allclose(as_before, of_scaled, atol=1e-6)
    again = [told(here / run)["counts"]["decoded_again"] for run in ("near", "far", "exact-False", "exact-True")]
    assert again == [1, 0, 0, 0]


def test_degraded_copies_that_nearly_tie_take_those_of_the_whole_picture(here: Path, large: Path) -> None:
    """Each copy for itself: the second copy of a picture does here, the first does not."""
    options: dict[str, Any] = {"degradations": ["contrast=0.5,1.0"], "batch_size": 3}
    scaled, whole = (tied(large, here / f"exact-{exact}", None, exact_decode=exact, **options)[0] for exact in (False, True))
    near = tied(large, here / "near", 0.01, **options)[0]
    expected = np.where(np.arange(10)[:, None] == 2 * TIED + 1, whole, scaled)
    np.testing.assert_allclose(near, expected, atol=1e-6)
    assert told(here / "near")["counts"]["decoded_again"] == 1


def test_without_a_head_there_are_no_ties(here: Path, large: Path) -> None:
    import tiny_nets

    from hardsight.models.embedder import Embedder
    from hardsight.models.model import BuiltNetwork
    from hardsight.models.preprocessing import Preprocessing

    net = tiny_nets.fresh()
    built = BuiltNetwork(net, Preprocessing(**net.preprocessing))
    pooled = lambda images: net.body(images).flatten(1)
    plain = hardsight.extract(Embedder(built, pooled, "tiny"), large, here / "plain")
    told_apart = hardsight.extract(
        Embedder(built, pooled, "tiny", head=hardsight.Head("linear", np.ones((2, 20)))), large, here / "b"
    )
    assert told(here / "plain")["counts"]["decoded_again"] == 0 and told(here / "b")["counts"]["decoded_again"] == 5
    assert np.abs(np.asarray(plain.features) - np.asarray(told_apart.features)).max(axis=1).min() > 1e-4


def test_a_run_with_near_ties_resumes_with_the_same_bytes(here: Path, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tiny_nets

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(samples, "PART_NUMBERS", 2 * 20)
    for run, progress in ((here / "run", stop), (here / "run", None), (here / "again", None)):
        with pytest.raises(KeyboardInterrupt) if progress else nullcontext():
            hardsight.extract(tiny_nets.fresh(), large, run, batch_size=2, progress=progress)
    parts = [sorted((here / run / "samples").glob("*.parquet")) for run in ("run", "again")]
    assert len(parts[0]) == 3 and [part.read_bytes() for part in parts[0]] == [part.read_bytes() for part in parts[1]]
    assert told(here / "run")["counts"] == told(here / "again")["counts"]
    assert told(here / "run")["counts"]["decoded_again"] == 5

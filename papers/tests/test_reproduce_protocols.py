"""`hardsight reproduce --scale paper` on stand-ins: the same folders, tiny images and smaller numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_data import published_imagenet
from test_protocols import imagenet, images, pacs, visda

from doc_blocks import ROOT
from hardsight.errors import FileError, InputError

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight.models import networks
from hardsight_papers import data
from hardsight_papers.avh import adaptation, curves, full_imagenet, generalization, trainings
from hardsight_papers.lgm import benchmarks, digit_networks
from hardsight_papers.running import reproduce

pytestmark = pytest.mark.slow
PAGE = (ROOT / "papers" / "docs" / "reproduce.md").read_text("utf-8")
TABLE = "hardsight reproduce avh/tableN --scale paper --data datasets/ -o tableN"  # the documented command


@pytest.fixture(autouse=True)
def in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(networks, "CNN10_GROUPS", ((7, 4, 1), (3, 4, 3), (3, 8, 3), (3, 8, 3)))
    monkeypatch.setattr(networks, "cifar_resnet20", partial(networks.CifarResNet, 1))
    released_weights(tmp_path / "torch", monkeypatch)
    opened = {"plain": ("torchvision:mobilenet_v2", {"pretrained": "V1", "size": 32}),
              "shortcuts": ("torchvision:mobilenet_v2", {"pretrained": "V2", "size": 32})}  # fmt: skip
    monkeypatch.setattr(full_imagenet, "NETWORKS", opened)
    monkeypatch.setattr(full_imagenet, "ON_GPU", {"device": "cpu", "workers": 1})
    plain, shortcuts = ("plain", "cifar_resnet20", False, {"lr": 0.01}), ("shortcuts", "cifar_resnet20", True, {"lr": 0.1})
    monkeypatch.setattr(trainings, "IMAGENET_NETWORKS", (plain, shortcuts))
    smaller: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            trainings.IMAGENET,
            {"epochs": 6, "schedule_options": {"milestones": (2, 4)}, "batch_size": 8, "size": 8, "device": "cpu"},
        ),
        (
            adaptation.VISDA_SOURCE,
            {"pretrained": False, "head_hidden": 8, "epochs": 1, "batch_size": 8, "size": 8, "device": "cpu"},
        ),
        (adaptation.VISDA, {"rounds": 1, "portion": "0.5", "source_portion": "0.5", "batch_size": 8, "seeds": 1}),
        (generalization.CNN10_IMAGENET, {"epochs": 1, "batch_size": 8, "model_options": {"size": 16}, "device": "cpu"}),
        (generalization.CNN10, {"model_options": {"size": 16}, "scales": "10"}),
        (generalization.ON_PACS, {"epochs": 1, "batch_size": 8, "seeds": 1}),
    ]
    for settings, changes in smaller:
        for name, value in changes.items():
            monkeypatch.setitem(settings, name, value)
    monkeypatch.setattr(adaptation, "VISDA_NETWORK", "cifar_resnet20")
    monkeypatch.setattr(generalization, "ALEXNET", ("cifar_resnet20", {"losses": "softmax"}))


def released_weights(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of random weights where torchvision keeps what it has downloaded."""
    import torch

    from hardsight.models import import_torchvision

    models = import_torchvision().models
    (home / "hub" / "checkpoints").mkdir(parents=True)
    for seed, version in enumerate(models.get_model_weights("mobilenet_v2")):
        torch.manual_seed(seed)
        torch.save(models.mobilenet_v2().state_dict(), home / "hub" / "checkpoints" / Path(version.url).name)
    monkeypatch.setenv("TORCH_HOME", str(home))


def test_curves_by_peoples_frequency(tmp_path: Path) -> None:
    imagenet()
    paths = sorted((tmp_path / "imagenet" / "val").rglob("*.JPEG"))
    rows = [f"{path.relative_to(tmp_path / 'imagenet').as_posix()},{k / 2},10" for k, path in enumerate(paths)]
    (tmp_path / "imagenet_frequency.csv").write_text("\n".join(["id,frequency,answers", *rows]))
    outcome = reproduce("avh/fig4", tmp_path / "run", scale="paper", data=tmp_path)
    assert "ImageNet, 6 epochs" in outcome.about and len(outcome.figures) == 2
    assert {row[1] for row in outcome.tables[0].rows} == {"0 to 0.2", "0.4 to 0.6", "0.8 to 1"} or len(
        outcome.tables[0].rows
    ) == 6
    assert len(reproduce("avh/fig11", scale="paper", data=tmp_path).tables[0].rows) == 10


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """ImageNet with six validation images per class, and a human frequency for all but one of them."""
    imagenet()
    for folder in (tmp_path / "imagenet" / "val").iterdir():
        images(folder / "more", 5, ".JPEG")
        for path in (folder / "more").iterdir():
            path.rename(folder / f"{folder.name}_{path.name}")
        (folder / "more").rmdir()
    paths = sorted((tmp_path / "imagenet" / "val").rglob("*.JPEG"))[1:]
    rows = [f"{path.relative_to(tmp_path / 'imagenet').as_posix()},{k / 16},16" for k, path in enumerate(paths)]
    (tmp_path / "imagenet_frequency.csv").write_text("\n".join(["id,frequency,answers", *rows]))
    return tmp_path


def table(number: int, folder: Path, cli: Any) -> str:
    """The page that the documented command writes from a folder of published files."""
    assert TABLE in PAGE
    words = TABLE.replace("tableN", f"table{number}").replace("datasets/", str(folder)).split()[1:]
    done = cli(*words)
    assert done.code == 0, done.err
    return Path(f"table{number}/report.html").read_text("utf-8")


def test_tables_of_people_from_published_files(tmp_path: Path, cli: Any) -> None:
    """ImageNet's own archive and the study's frequencies by wnid: of ten people or more, joined before a network is opened."""
    wnids = published_imagenet(tmp_path)
    frequency = {f"{name}.JPEG": {wnid: k / 16} for k, (name, wnid) in enumerate(wnids.items())}
    people = {f"{name}.JPEG": {wnid: 16 if k else 3} for k, (name, wnid) in enumerate(wnids.items())}
    document = {"image_fraction_selected": frequency, "image_num_assignments": people}
    (tmp_path / "imagenet_frequency.json").write_text(json.dumps(document))
    assert data.main([str(tmp_path)]) == 0
    for number in (1, 2, 6, 7, 8, 9):
        assert f"avh/table{number}" in table(number, tmp_path, cli)
    assert f"{len(wnids) - 1} images" in reproduce("avh/table1", scale="paper", data=tmp_path).about
    imagenet_train = tmp_path / "imagenet" / "train" / "n01"
    images(imagenet_train, 2, ".JPEG")
    (tmp_path / "imagenet_frequency.json").write_text(json.dumps({"other.JPEG": 0.5}))
    with pytest.raises(InputError, match="no human id matches a sample"):
        reproduce("avh/fig4", scale="paper", data=tmp_path)  # before any training


def test_people_on_the_validation_images(judged: Path) -> None:
    outcome = reproduce("avh/table1", scale="paper", data=judged)
    assert outcome.about.startswith("ImageNet validation, 17 images (plain, shortcuts).") and "votes" not in outcome.about
    assert outcome.tables[1].rows[0][:3] == ["number of samples", None, 17]
    assert {row[0] for row in reproduce("avh/table9", scale="paper", data=judged).tables[1].rows} == {"shortcuts"}
    assert list(reproduce("avh/fig16", scale="paper", data=judged).figures) == ["ImageNet validation, 17 images"]
    assert reproduce("avh/fig18", scale="paper", data=judged).about == "ImageNet validation, five levels of contrast."
    assert reproduce("slides/disagreement", scale="paper", data=judged).claims[0].verdict != "not comparable"


@pytest.mark.parametrize("id", ["avh/table2", "avh/fig5", "avh/fig17", "lgm/table6", "lgm/table3"])
def test_the_full_protocol_is_not_run_on_digits(id: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"at scale paper needs|the full protocol needs"):
        reproduce(id, scale="paper")


def test_folders_of_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        for label in "0123":
            images(tmp_path / "cifar100" / part / label, 2, ".png", size=(32, 32))
    for settings in (benchmarks.CIFAR100, curves.CIFAR):
        for name, value in {"epochs": 3, "schedule_options": {"milestones": (1, 2)}, "batch_size": 8}.items():
            monkeypatch.setitem(settings, name, value)
    monkeypatch.setattr(benchmarks, "SEEDS", 2)
    monkeypatch.setattr(benchmarks, "NETWORKS", dict.fromkeys(benchmarks.NETWORKS, "cifar_resnet20"))
    monkeypatch.setattr(curves, "CIFAR_NETWORKS", (("cifar_resnet20", "cifar_resnet20", True, {"lr": 0.1}),))
    assert reproduce("lgm/table3", scale="paper", data=tmp_path).claims[0].verdict != "not comparable"
    assert "cifar100, 3 epochs" in reproduce("avh/fig14", scale="paper", data=tmp_path).about


def test_crops_of_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imagenet()
    for name, value in {"epochs": 1, "batch_size": 8, "size": 8}.items():
        monkeypatch.setitem(benchmarks.IMAGENET, name, value)
    monkeypatch.setattr(benchmarks, "NETWORKS", {"imagenet": "cifar_resnet20"})
    outcome = reproduce("lgm/table4", scale="paper", data=tmp_path)
    assert outcome.about.startswith("imagenet, cifar_resnet20, 1 epochs") and outcome.claims[0].verdict != "not comparable"
    assert all(0 <= value <= 100 for row in outcome.tables[0].rows for value in row[1:5])  # type: ignore[operator]


def test_losses_on_a_folder_of_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        for label in "0123456789":
            images(tmp_path / "mnist" / part / label, 2, ".png", size=(28, 28))
    monkeypatch.setitem(digit_networks.PAPER, "epochs", 1)
    outcome = reproduce("lgm/table6", scale="paper", data=tmp_path)
    assert outcome.about.startswith("MNIST, 20 training and 20 test images; mnist_cnn with 100 features, 1 epochs")
    assert reproduce("lgm/calibration", scale="paper", data=tmp_path).tables


def test_tables_of_adaptation(tmp_path: Path, cli: Any) -> None:
    visda()
    page = table(3, tmp_path, cli)
    assert "VisDA-17" in page and all(f">{method}<" in page for method in adaptation.ON_IMAGES.split(","))
    assert "CBST+AVH" in table(4, tmp_path, cli)


def test_table_of_generalization(tmp_path: Path, cli: Any) -> None:
    pacs()
    page = table(5, tmp_path, cli)
    assert all(f">{name}<" in page for name in (*generalization.LOSSES.split(","), "AlexNet"))

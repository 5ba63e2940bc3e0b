"""`hardsight reproduce --scale paper` on stand-ins: the same folders, tiny images and smaller numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from test_protocols import imagenet, pacs, visda

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight.models import cifar_resnet, cnn10  # noqa: E402
from hardsight.paper.avh import adaptation, generalization, trainings  # noqa: E402
from hardsight.paper.running import reproduce  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cnn10, "GROUPS", ((7, 4, 1), (3, 4, 3), (3, 8, 3), (3, 8, 3)))
    monkeypatch.setattr(cifar_resnet, "cifar_resnet20", partial(cifar_resnet.CifarResNet, 1))
    networks = {"plain": ("cifar_resnet20", 0.01, False), "shortcuts": ("cifar_resnet20", 0.1, True)}
    monkeypatch.setattr(trainings, "IMAGENET_NETWORKS", networks)
    smaller: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (trainings.IMAGENET, {"epochs": 6, "milestones": (2, 4), "batch_size": 8, "size": 8, "device": "cpu"}),
        (
            adaptation.VISDA_SOURCE,
            {"pretrained": False, "head_hidden": 8, "epochs": 1, "batch_size": 8, "size": 8, "device": "cpu"},
        ),
        (adaptation.VISDA, {"rounds": 1, "portion": "0.5", "source_portion": "0.5", "batch_size": 8, "seeds": 1}),
        (generalization.CNN10_IMAGENET, {"epochs": 1, "batch_size": 8, "model_options": {"size": 16}, "device": "cpu"}),
        (generalization.CNN10, {"epochs": 1, "batch_size": 8, "model_options": {"size": 16}, "scales": "10", "seeds": 1}),
    ]
    for settings, changes in smaller:
        for name, value in changes.items():
            monkeypatch.setitem(settings, name, value)
    monkeypatch.setattr(adaptation, "VISDA_NETWORK", "cifar_resnet20")


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


def test_adaptation(tmp_path: Path) -> None:
    visda()
    outcome = reproduce("avh/table3", scale="paper", data=tmp_path)
    assert [row[0] for row in outcome.tables[1].rows][:1] == ["source"] and "VisDA-17" in outcome.about


def test_generalization(tmp_path: Path) -> None:
    pacs()
    outcome = reproduce("avh/table5", scale="paper", data=tmp_path)
    assert [row[0] for row in outcome.tables[1].rows] == ["softmax", "avh"]

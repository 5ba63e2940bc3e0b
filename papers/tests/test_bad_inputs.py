"""What a user may get wrong with published data: one line each, before anything is scored or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardsight import Snapshot

WNIDS = ["n01440764", "n01443537", "n01484850"]
IMAGE = "ILSVRC2012_val_00000001.JPEG"


def study(frequency: float = 0.5, wnid: str = WNIDS[0], people: int = 10) -> str:
    fields = {"image_fraction_selected": frequency, "image_num_assignments": people}
    return json.dumps({name: {IMAGE: {wnid: value}} for name, value in fields.items()})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of 30 images, of which no score may be computed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("hardsight.human.correlate.with_scores", lambda *arguments: pytest.fail("scored"))
    labels, ids = np.arange(30) % 3, [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, 31)]
    features = np.eye(3, 8)[labels] + np.random.default_rng(0).normal(size=(30, 8))
    Snapshot(features, head=np.eye(3, 8), labels=labels, ids=ids, class_names=WNIDS).save(tmp_path / "run.npz")
    np.savez("features.npz", features=features, labels=labels)
    np.savez("images.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4) % 2)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("human", "options", "said"),
    [
        (study(frequency=1.2), [], ["between 0 and 1", IMAGE, "1.2"]),
        (study(wnid="n99999999"), [], ["n99999999", "3 classes"]),
        (f'{{"{IMAGE}": 0.5, "{IMAGE}": 0.7}}', [], [IMAGE, "0.5", "0.7"]),
        (study(people=7), ["--min-answers", "10"], ["--min-answers 10", "7"]),
    ],
)
def test_answers_of_people(human: str, options: list[str], said: list[str], cli: Any) -> None:
    Path("people.json").write_text(human)
    refused(cli("correlate", "run.npz", "--human", "people.json", "--allow-missing", *options), said)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("extract torchvision:mobilenet_v2 images.npz --pretrained V9 -o out", ["V9", "IMAGENET1K_V1"]),
        ("adapt images.npz images.npz --model lenet --methods subspace -o out", ["subspace", "features"]),
        ("adapt features.npz features.npz --methods cbst --flip-labels -o out", ["flip_labels", "images"]),
    ],
)
def test_weights_and_methods(words: str, said: list[str], cli: Any) -> None:
    pytest.importorskip("torch")
    refused(cli(*words.split()), said)
    assert not Path("out").exists()


def refused(done: Any, said: list[str]) -> None:
    assert done.code == 2 and len(done.err.strip().splitlines()) == 1 and all(word in done.err for word in said), done.err

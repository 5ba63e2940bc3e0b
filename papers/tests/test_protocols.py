"""The command lines of papers/docs/protocols.md on stand-ins: the same folders and options, tiny images and smaller numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from doc_blocks import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from hardsight.models import networks

PAGE = (ROOT / "papers" / "docs" / "protocols.md").read_text("utf-8")
SMALLER: dict[str, dict[str, str | None]] = {
    "--model": {"torchvision:resnet50": "cifar_resnet20", "torchvision:resnet101": "cifar_resnet20"},
    "--model-options": {"size=224": "size=16"},
    "--size": {"224": "8"},
    "--pretrained": {"V1": None},  # nothing is downloaded
    "--epochs": {"90": "1", "30": "1", "3": "1", "1": "1"},
    "--batch-size": {"256": "8", "32": "8", "40": "8", "16": "8"},
    "--head-hidden": {"512": "8"},
    "--rounds": {"20": "1"},
    "--portion": {"0.2:0.05:0.5": "0.5"},
    "--source-portion": {"0.065:0.0085:0.165": "0.5"},
    "--top-k": {"5": "2"},
    "--scales": {"5,10,20": "10"},
    "--seeds": {"3": "1"},
}


def commands(title: str) -> Iterator[list[str]]:
    """The command lines of a section, with smaller numbers: a number that SMALLER does not know is an error."""
    section = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None
    for line in re.findall(r"^hardsight (.*)$", section[1].replace("\\\n", " "), re.MULTILINE):
        words, smaller = shlex.split(line), []
        while words:
            word = words.pop(0)
            if word not in SMALLER or (word == "--model" and words[0] not in SMALLER[word]):  # cnn10, and a run just trained
                smaller.append(word)
                continue
            value = SMALLER[word][words.pop(0)]
            smaller += [] if value is None else [word, value]
        yield smaller


def images(folder: Path, count: int, suffix: str, size: tuple[int, int] = (20, 24)) -> None:
    rng = np.random.default_rng(len(str(folder)))
    folder.mkdir(parents=True)
    for number in range(count):
        Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)).save(folder / f"{folder.name}_{number}{suffix}")


def imagenet() -> None:
    for part, count in (("train", 3), ("val", 1)):
        for wnid in ("n01440764", "n01443537", "n01484850"):
            images(Path("imagenet") / part / wnid, count, ".JPEG")


def visda() -> None:
    for part, suffix in (("train", ".png"), ("validation", ".jpg")):
        root = Path("visda") / part
        lines = []
        for number, name in enumerate(("aeroplane", "bicycle")):
            images(root / name, 6, suffix)
            lines += [f"{name}/{path.name} {number}" for path in sorted((root / name).iterdir())]
        (root / "image_list.txt").write_text("\n".join(lines) + "\n")


def pacs() -> None:
    imagenet()
    for domain in ("art_painting", "photo", "sketch"):  # three are enough to leave one out
        lines = []
        for label, name in enumerate(("dog", "elephant"), 1):
            images(Path("PACS/kfold") / domain / name, 4, ".png")
            lines += [f"{domain}/{name}/{path.name} {label}" for path in sorted((Path("PACS/kfold") / domain / name).iterdir())]
        Path("PACS/splits").mkdir(exist_ok=True)
        for part, some in (("train", slice(0, None, 2)), ("crossval", slice(1, None, 2)), ("test", slice(None))):
            Path(f"PACS/splits/{domain}_{part}_kfold.txt").write_text("\n".join(lines[some]) + "\n")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("title", "stand_in", "result"),
    [
        ("ImageNet, 90 epochs", imagenet, ("resnet50-val.parquet", "id", {"n01440764/n01440764_0.JPEG"})),
        (
            "VisDA-17: CBST, CRST and CBST\\+AVH",
            visda,
            ("visda-adapted/accuracy.parquet", "method", {"source", "mmd", "dann", "mcd", "adr", "cbst", "crst", "cbst+avh"}),
        ),
        (
            "PACS: CNN-10, leaving one domain out",
            pacs,
            ("pacs-cnn10/accuracy.parquet", "loss", {"softmax", "mldg", "metareg", "feature-critic", "drm", "avh"}),
        ),
    ],
    ids=["imagenet", "visda", "pacs"],
)
def test_protocol(
    title: str,
    stand_in: Callable[[], None],
    result: tuple[str, str, set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(networks, "CNN10_GROUPS", ((7, 4, 1), (3, 4, 3), (3, 8, 3), (3, 8, 3)))
    monkeypatch.setattr(networks, "cifar_resnet20", partial(networks.CifarResNet, 1))  # 8 layers
    stand_in()
    for words in commands(title):
        done = cli(*words)
        assert done.code == 0, (words, done.err)
    table, column, values = result
    assert values <= set(pq.read_table(table)[column].to_pylist())

"""Scale paper, section 4: released AlexNet, VGG-19, ResNet-50 and DenseNet-121 on ImageNet's validation images.

The human frequencies are in imagenet_frequency.json (those of ImageNetV2's study; papers/docs/data.md) or in
imagenet_frequency.csv (`id, frequency, answers`). Images are matched by file name, before any network is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot
from hardsight.data import ImageData
from hardsight.files import People, match, read_people
from hardsight_papers.arrays import open_labeled
from hardsight_papers.avh.panels import Panel, by_level, scored
from hardsight_papers.context import Context

ON_GPU: dict[str, Any] = {"device": "auto", "workers": None}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {  # the weights of 2020: torchvision has replaced its default since
    "AlexNet": ("torchvision:alexnet", {"pretrained": "V1"}),
    "VGG-19": ("torchvision:vgg19", {"pretrained": "V1"}),
    "ResNet-50": ("torchvision:resnet50", {"pretrained": "V1"}),
    "DenseNet-121": ("torchvision:densenet121", {"pretrained": "V1"}),
}
FEWEST = 10  # answers, as the study asks for, where their number is known


def judged_images(context: Context) -> tuple[ImageData, People]:
    """The validation images and what people said about them; an error if no image of the one is in the other."""
    data = open_labeled(context.data.require("imagenet", "the full protocol") / "val")
    assert data.labels is not None
    people = read_people(context.data.require("imagenet_frequency", "the full protocol"), data.class_names)
    samples, rows = match(people, np.array(data.ids, dtype=object), allow_missing=True)
    known = people.take(rows).about_labels(data.labels[samples])
    return data, known if known.answers is None else known.asked(FEWEST)


def with_people(context: Context) -> Panel:
    """The validation images whose human selection frequency is known."""
    _, people = judged_images(context)
    tables = {network: scored(context, snapshot) for network, snapshot in snapshots(context).items()}
    first = next(iter(tables.values()))
    samples, rows = match(people, np.array(first["id"].to_pylist(), dtype=object), allow_missing=True)
    people = people.take(rows)
    frequency = people.selection_frequency(first["label"].to_numpy()[samples])
    known = np.isfinite(frequency)
    kept = {network: table.take(samples[known]) for network, table in tables.items()}
    answers = None if people.answers is None else people.answers[known]
    return Panel(f"ImageNet validation, {known.sum():,} images", kept, frequency[known], True, answers)


def degraded(context: Context, degradation: str) -> Panel:
    """All validation images at five levels."""
    words = f"ImageNet validation, five levels of {degradation.partition('=')[0]}"
    return by_level(context, words, snapshots(context, degradations=(degradation,)))


def snapshots(context: Context, **settings: Any) -> dict[str, Snapshot]:
    """What each network sees of the validation images."""
    images = context.data.require("imagenet", "the full protocol") / "val"
    return {
        name: context.extract(network, images, **options, **ON_GPU, **settings) for name, (network, options) in NETWORKS.items()
    }

"""The trainings behind the curves: plain networks and networks with shortcuts, three stages of the learning rate.

small   AlexNet for CIFAR (plain) and ResNet-20 (shortcuts) on CIFAR-10 images with people's answers, or on digits
paper   AlexNet, VGG-19, ResNet-50 and DenseNet-121 on ImageNet, 90 epochs (section 3.2; papers/docs/protocols.md)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight.dynamics import Groups, by_degradation, by_human
from hardsight_papers.arrays import even_rows
from hardsight_papers.avh.panels import CONTRAST, NOISE, cifar_with_people
from hardsight_papers.context import Context

STAGES: dict[str, Any] = {
    "epochs": 12, "batch_size": 64, "schedule": "step", "schedule_options": {"milestones": (4, 8), "gamma": 0.1},
    "snapshot": False,
}  # fmt: skip
ON_DIGITS = {**STAGES, "epochs": 24, "schedule_options": {"milestones": (8, 16), "gamma": 0.1}, "batch_size": 32}
WATCHED, TRAINED_ON = 2000, 3000  # of CIFAR-10's test images: those of which people's answers are known
# The paper's rate for plain networks, 0.01, is too low for so few steps: AlexNet ends with 27 % of its training images right, at
# 0.03 with 42 %, and at 0.1 with 45 %.
SMALL_NETWORKS: tuple[tuple[str, str, bool, dict[str, Any]], ...] = (
    ("AlexNet for CIFAR", "cifar_alexnet", False, {"lr": 0.1}),
    ("ResNet-20 at 16 pixels", "cifar_resnet20", True, {"lr": 0.1, "size": 16}),
)
IMAGENET: dict[str, Any] = {
    "epochs": 90, "batch_size": 256, "weight_decay": 1e-4, "optimizer_options": {"momentum": 0.9, "decay_all": True},
    "schedule": "step", "schedule_options": {"milestones": (30, 60), "gamma": 0.1}, "size": 224,
    "preprocessing": {"resize": "shortest", "crop_pct": 0.875, "scaling": "imagenet"},
    "augment": "resized-crop=0.08:1,flip", "precision": "bfloat16", "snapshot": False, "device": "auto", "workers": None,
}  # fmt: skip
IMAGENET_NETWORKS = {
    "AlexNet": ("torchvision:alexnet", 0.01, False),
    "VGG-19": ("torchvision:vgg19", 0.01, False),
    "ResNet-50": ("torchvision:resnet50", 0.1, True),
    "DenseNet-121": ("torchvision:densenet121", 0.1, True),
}


@dataclass(frozen=True)
class WatchedTraining:
    """A finished training: where its dynamics are, and what is known of the watched samples."""

    network: str
    shortcuts: bool
    run: Path
    split: str  # the watched set
    drops: tuple[int, ...]  # epochs after which the learning rate falls
    groups: Callable[[], Groups]  # levels of hardness, the hardest first
    about: str


def by_frequency(context: Context) -> list[WatchedTraining]:
    """Trainings whose watched images people have judged; without such data, digits by level of noise."""
    if context.scale == "paper":
        return on_imagenet(context)
    if context.data.has("cifar10", "cifar10_people"):
        return on_cifar(context)
    return on_digits(context, "noise")


def on_imagenet(context: Context, degradation: str | None = None) -> list[WatchedTraining]:
    """The paper's four networks, from scratch."""
    imagenet = context.data.require("imagenet", "the full protocol")
    frequency = context.data.find("imagenet_frequency")
    if degradation is None:
        frequency = context.data.require("imagenet_frequency", "the full protocol")
    levels = {None: (), "noise": (NOISE,), "contrast": (CONTRAST,)}[degradation]
    trainings = []
    for name, (network, rate, shortcuts) in IMAGENET_NETWORKS.items():
        trained = context.train(imagenet, network, lr=rate, degradations=levels, **IMAGENET)
        run = trained.run
        groups = partial(by_level, run, degradation) if degradation else partial(by_human, run, frequency, "val")
        about = f"{name} on ImageNet, {IMAGENET['epochs']} epochs"
        trainings.append(WatchedTraining(name, shortcuts, run, "val", _drops(IMAGENET), groups, about))
    return trainings


def on_cifar(context: Context) -> list[WatchedTraining]:
    """CIFAR-10's test images: the half that people doubt most is watched with as many others, and some of the rest train."""
    from hardsight.stats import selection_frequency

    data, counts = cifar_with_people(context)
    assert data.labels is not None
    frequency = selection_frequency(counts, data.labels)
    order = np.argsort(frequency, kind="stable")
    rest = np.sort(order[WATCHED // 2 :])
    others = rest[even_rows(len(rest), WATCHED // 2)]
    train = np.setdiff1d(rest, others)
    train = train[even_rows(len(train), TRAINED_ON)]
    watched = np.sort(np.concatenate([order[: WATCHED // 2], others]))
    human = {"id": [data.ids[row] for row in watched], "frequency": frequency[watched].tolist()}
    about = f"{TRAINED_ON:,} CIFAR-10 images; {WATCHED:,} others are watched, half of them those that people doubt most"
    trainings = []
    for name, network, shortcuts, options in SMALL_NETWORKS:
        trained = context.train(data.take(train), network, watch={"test": data.take(watched)}, **STAGES, **options)
        run, groups = trained.run, partial(by_human, trained.run, human, "test")
        trainings.append(WatchedTraining(name, shortcuts, run, "test", _drops(STAGES), groups, about))
    return trainings


def on_digits(context: Context, degradation: str) -> list[WatchedTraining]:
    """Digits, the held-out ones at five levels of noise and five of contrast."""
    from hardsight.data import open_data

    train, test = open_data("digits:train"), open_data("digits:test")
    test = test.take(even_rows(len(test), 150))
    networks = [
        ("Small CNN", "DigitsCNN", False, {"lr": 0.05}),
        ("ResNet-20 at 8 pixels", "cifar_resnet20", True, {"lr": 0.1, "size": 8}),
    ]
    trainings = []
    for name, network, shortcuts, options in networks:
        trained = context.train(train, network, watch={"test": test}, degradations=(CONTRAST, NOISE), **ON_DIGITS, **options)
        run, groups = trained.run, partial(by_level, trained.run, degradation)
        about = f"1,438 digits; 150 others are watched at five levels of {degradation}, which stand in for people"
        trainings.append(WatchedTraining(name, shortcuts, run, "test", _drops(ON_DIGITS), groups, about))
    return trainings


def by_level(run: Path, degradation: str) -> Groups:
    """The watched samples by the level of one degradation, the hardest first."""
    return of_levels(by_degradation(run), degradation)


def of_levels(groups: Groups, degradation: str) -> Groups:
    """Only the levels of one degradation, the hardest first."""
    names = [name for name in groups.names if name.startswith(f"{degradation}=")]
    names.sort(key=lambda name: float(name.partition("=")[2]), reverse=degradation == "noise")
    code = np.array([*(names.index(name) if name in names else -1 for name in groups.names), -1])  # of group -1, too
    return Groups(degradation, names, lambda table: code[groups.of(table)], ordered=True)


def _drops(settings: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(epoch) for epoch in settings["schedule_options"]["milestones"])


def subset(data: ImageData, count: int) -> ImageData:
    """An even subsample."""
    return data if len(data) <= count else data.take(even_rows(len(data), count))

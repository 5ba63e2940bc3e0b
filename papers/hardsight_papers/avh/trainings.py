"""The trainings behind the curves: plain networks and networks with shortcuts, three stages of the learning rate.

small   a small CNN (plain) and ResNet-20 (shortcuts) on MNIST, or on digits: what they learn in minutes
cpu     ResNet-20 at 16 pixels on all of CIFAR-10's training images, watched on the test images with people's answers
paper   AlexNet, VGG-19, ResNet-50 and DenseNet-121 on ImageNet, 90 epochs (section 3.2; papers/docs/protocols.md)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight.dynamics import Groups, by_degradation, by_human
from hardsight.stats import selection_frequency
from hardsight_papers.arrays import even_rows, open_labeled
from hardsight_papers.avh.panels import CONTRAST, NOISE, cifar_with_people
from hardsight_papers.context import Context

Network = tuple[str, str, bool, dict[str, Any]]  # its name in tables, the network, whether it has shortcuts, options of train
STAGES: dict[str, Any] = {
    "epochs": 12, "batch_size": 64, "schedule": "step", "schedule_options": {"milestones": (4, 8), "gamma": 0.1},
    "snapshot": False,
}  # fmt: skip
ON_DIGITS = {**STAGES, "epochs": 24, "schedule_options": {"milestones": (8, 16), "gamma": 0.1}, "batch_size": 32}
TRAINED_ON = 5000  # of MNIST, at scale small
ON_CIFAR: dict[str, Any] = {  # stages as long as the paper's are to its 90 epochs; no augmentation: it must learn its images
    **STAGES, "epochs": 30, "batch_size": 128, "weight_decay": 1e-4, "schedule_options": {"milestones": (10, 20), "gamma": 0.1},
}  # fmt: skip
CIFAR_NETWORKS: tuple[Network, ...] = (("ResNet-20 at 16 pixels", "cifar_resnet20", True, {"lr": 0.1, "size": 16}),)
IMAGENET: dict[str, Any] = {
    "epochs": 90, "batch_size": 256, "weight_decay": 1e-4, "optimizer_options": {"momentum": 0.9, "decay_all": True},
    "schedule": "step", "schedule_options": {"milestones": (30, 60), "gamma": 0.1}, "size": 224,
    "preprocessing": {"resize": "shortest", "crop_pct": 0.875, "scaling": "imagenet"},
    "augment": "resized-crop=0.08:1,flip", "precision": "bfloat16", "snapshot": False, "device": "auto", "workers": None,
}  # fmt: skip
IMAGENET_NETWORKS: tuple[Network, ...] = (
    ("AlexNet", "torchvision:alexnet", False, {"lr": 0.01}),
    ("VGG-19", "torchvision:vgg19", False, {"lr": 0.01}),
    ("ResNet-50", "torchvision:resnet50", True, {"lr": 0.1}),
    ("DenseNet-121", "torchvision:densenet121", True, {"lr": 0.1}),
)
MNIST_NETWORKS: tuple[Network, ...] = (
    ("LeNet", "lenet", False, {"lr": 0.05}),
    ("ResNet-20 at 14 pixels", "cifar_resnet20", True, {"lr": 0.1, "size": 14}),
)
DIGITS_NETWORKS: tuple[Network, ...] = (
    ("Small CNN", "DigitsCNN", False, {"lr": 0.05}),
    ("ResNet-20 at 8 pixels", "cifar_resnet20", True, {"lr": 0.1, "size": 8}),
)


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
    learned: float  # share of its training images that are right at the end


def by_frequency(context: Context) -> list[WatchedTraining]:
    """Trainings whose watched images people have judged; without such data, digits by level of noise."""
    if context.scale == "paper":
        return on_imagenet(context)
    if context.scale == "cpu":
        return on_cifar(context)
    return on_digits(context, "noise")


def on_imagenet(context: Context, degradation: str | None = None) -> list[WatchedTraining]:
    """The paper's four networks, from scratch."""
    imagenet = context.data.require("imagenet", "the full protocol")
    frequency = context.data.find("imagenet_frequency")
    if degradation is None:
        from hardsight_papers.avh.full_imagenet import judged_images  # which imports this room's panels

        judged_images(context)  # or fail now, not after four trainings
        frequency = context.data.require("imagenet_frequency", "the full protocol")
    levels = {None: (), "noise": (NOISE,), "contrast": (CONTRAST,)}[degradation]
    settings = {**IMAGENET, "degradations": levels}

    def groups(run: Path) -> Groups:
        return by_level(run, degradation) if degradation else by_human(run, frequency, "val")

    return train_each(context, imagenet, IMAGENET_NETWORKS, settings, "val", groups, f"ImageNet, {IMAGENET['epochs']} epochs")


def on_cifar(context: Context) -> list[WatchedTraining]:
    """All of CIFAR-10's training images; the test images, of which people's answers are known, are watched."""
    train = open_labeled(context.data.require("cifar10_train", "scale cpu"))
    data, counts = cifar_with_people(context)
    assert data.labels is not None
    human = {"id": data.ids, "frequency": selection_frequency(counts, data.labels).tolist()}
    about = f"{len(train):,} CIFAR-10 images; the {len(data):,} test images are watched, by people's answers"
    groups = partial(by_human, human=human, split="test")
    return train_each(context, train, CIFAR_NETWORKS, {**ON_CIFAR, "watch": {"test": data}}, "test", groups, about)


def on_digits(context: Context, degradation: str) -> list[WatchedTraining]:
    """MNIST, or digits without it, the held-out ones at five levels of noise and five of contrast."""
    written = context.handwriting(train=TRAINED_ON, test=150)
    networks, settings = (MNIST_NETWORKS, STAGES) if written.name == "MNIST" else (DIGITS_NETWORKS, ON_DIGITS)
    settings = {**settings, "watch": {"test": written.test}, "degradations": (CONTRAST, NOISE)}
    about = f"{len(written.train):,} images of {written.name}; {len(written.test)} others are watched at five levels of "
    about += f"{degradation}, which stand in for people"
    groups = partial(by_level, degradation=degradation)
    return train_each(context, written.train, networks, settings, "test", groups, about)


def train_each(
    context: Context, data: Any, networks: Sequence[Network], settings: Mapping[str, Any], split: str,
    groups: Callable[[Path], Groups], about: str,
) -> list[WatchedTraining]:  # fmt: skip
    """Every network, trained with the same settings and watched on one split."""
    trainings = []
    for name, network, shortcuts, options in networks:
        trained = context.train(data, network, **settings, **options)
        run, learned = trained.run, float(trained.history[-1]["train"]["accuracy"])
        drops = tuple(int(epoch) for epoch in settings["schedule_options"]["milestones"])
        trainings.append(WatchedTraining(name, shortcuts, run, split, drops, partial(groups, run), about, learned))
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


def subset(data: ImageData, count: int) -> ImageData:
    """An even subsample."""
    return data if len(data) <= count else data.take(even_rows(len(data), count))

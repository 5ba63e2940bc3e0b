"""Scale paper: AlexNet, VGG-19, ResNet-50 and DenseNet-121, trained from scratch, on ImageNet's validation images.

The human frequencies are in imagenet_frequency.csv: `id, frequency, answers`, with ids such as val/n01440764/....JPEG.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight import Snapshot
from hardsight.files import match, read_people
from hardsight_papers.avh.panels import Panel, by_level, scored
from hardsight_papers.avh.trainings import on_imagenet
from hardsight_papers.context import Context

ON_GPU: dict[str, Any] = {"device": "auto", "workers": None}


def with_people(context: Context) -> Panel:
    """The validation images whose human selection frequency is known."""
    people = read_people(context.data.require("imagenet_frequency", "the full protocol"))
    tables = {network: scored(context, snapshot) for network, snapshot in snapshots(context).items()}
    first = next(iter(tables.values()))
    samples, rows = match(people, np.array(first["id"].to_pylist()), allow_missing=True)
    people = people.take(rows)
    frequency = people.selection_frequency(first["label"].to_numpy()[samples])
    kept = {network: table.take(samples) for network, table in tables.items()}
    return Panel(f"ImageNet validation, {len(samples):,} images", kept, frequency, True, people.answers)


def degraded(context: Context, degradation: str) -> Panel:
    """All validation images at five levels."""
    words = f"ImageNet validation, five levels of {degradation.partition('=')[0]}"
    return by_level(context, words, snapshots(context, degradations=(degradation,)))


def snapshots(context: Context, **settings: Any) -> dict[str, Snapshot]:
    """What each network sees of the validation images."""
    imagenet = context.data.require("imagenet", "the full protocol")
    return {
        training.network: context.extract(training.run, imagenet, split="val", **ON_GPU, **settings)
        for training in on_imagenet(context)
    }

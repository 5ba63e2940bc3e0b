"""The models of a comparison, where other commands find them.

    DOMAIN/LOSS/seed=0/model/             `hardsight extract DOMAIN/LOSS/seed=0 DATA` opens it
    DOMAIN/LOSS/seed=0/head.safetensors   its head: of DRM the common one, which has no vote
    DOMAIN/LOSS/seed=0/heads/             of DRM, the head of each training domain: `hardsight score ... --head` takes one

It is the model of the epoch that counts, trained on all domains but DOMAIN. One that was trained on standardized features
takes features as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hardsight.domains.generalization.student import Student, objectives
from hardsight.domains.scaling import Standard, on_raw_features
from hardsight.files.heads import save_head
from hardsight.models.preprocessing import Preprocessing
from hardsight.training.inputs import Inputs
from hardsight.training.results import write_model


@dataclass(frozen=True, eq=False)
class Prepared:
    """All samples as a network takes them.

    Attributes:
        inputs: the samples.
        standard: what was done to features.
        preprocessing: of images.
        class_names: one per class.
    """

    inputs: Inputs
    standard: Standard | None
    preprocessing: Preprocessing | None
    class_names: list[str]


def keep_student(folder: Path, student: Student, prepared: Prepared, domains: Sequence[str]) -> None:
    """Write a trained student; `domains` are those it was trained on, in the order of its heads."""
    network = student.with_head(student.common.head, prepared.preprocessing, prepared.class_names)
    write_model(folder, network if prepared.standard is None else on_raw_features(network, prepared.standard))
    for domain, objective in zip(domains, objectives(student.own), strict=False):  # without DRM there are none
        (folder / "heads").mkdir(exist_ok=True)
        save_head(folder / "heads" / f"{domain}.safetensors", objective.head, prepared.class_names)

"""What is scored, and what some scores need next to it: a reference to fit to, other models, images.

Read before this: score.py. Next: job.py, which computes scores from these inputs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardsight.errors import InputError
from hardsight.files.epochs import has_dynamics
from hardsight.scoring.comparable import same_head
from hardsight.snapshot import Snapshot

SAME = 1e-4  # relative tolerance: heads saved in another precision count as the same


@dataclass(frozen=True)
class ScoringInputs:
    """A snapshot to score, and the additional inputs of some scores."""

    snapshot: Snapshot
    reference: Snapshot | None = field(default=None, kw_only=True)
    models: tuple[Snapshot, ...] = field(default=(), kw_only=True)
    images: Any = field(default=None, kw_only=True)

    @property
    def headless(self) -> bool:
        """Whether there are features but no head."""
        return self.snapshot.head is None and self.snapshot.source.evidence == "features"

    @functools.cached_property
    def run(self) -> Path | None:
        """The run directory of the snapshot, if it has one."""
        return self.snapshot.run

    @functools.cached_property
    def run_with_dynamics(self) -> Path | None:
        """The run directory, if it has dynamics of the samples."""
        return self.run if has_dynamics(self.run) else None


def open_reference(snapshot: Snapshot, source: Any) -> Snapshot | None:
    """The reference at a path, or a snapshot, of the same model; None for none."""
    if source is None:
        return None
    reference = _opened(source, "reference")
    check_reference(snapshot, reference)
    return reference


def open_models(snapshot: Snapshot, sources: Any) -> tuple[Snapshot, ...]:
    """Snapshots of other models, from paths or snapshots, over the same classes."""
    others = tuple(_opened(source, "models").numbered_as(snapshot) for source in listed(sources))
    for other in others:
        _check_classes(snapshot, other)
    return others


def _opened(source: Any, name: str) -> Snapshot:
    if isinstance(source, Snapshot):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Snapshot.load(source)
    raise InputError(f"{name} must be a snapshot or the path of one, got {type(source).__name__}.")


def listed(models: Any) -> Sequence[Any]:
    """Snapshots or paths, also from comma-separated text."""
    if models is None:
        return ()
    if isinstance(models, str):
        return [path.strip() for path in models.split(",") if path.strip()]
    return [models] if isinstance(models, (Snapshot, os.PathLike)) else list(models)


def check_reference(snapshot: Snapshot, reference: Snapshot) -> None:
    """Require features of the same model: a score fitted to another model's features would be meaningless."""
    name = reference.name or "the reference"
    if reference.source.evidence != "features":
        raise InputError(f"{name}: a reference needs features, but this one holds {reference.source.evidence}.")
    if snapshot.source.evidence != "features":
        return
    widths = reference.source.width, snapshot.source.width
    if widths[0] != widths[1]:
        raise InputError(f"{name} is of another model: its features have {widths[0]} dimensions, these have {widths[1]}.")
    if reference.head is None or snapshot.head is None:
        return
    theirs, ours = reference.head, snapshot.head
    if theirs.num_classes != ours.num_classes:
        raise InputError(f"{name} is of another model: its head has {theirs.num_classes} classes, this one {ours.num_classes}.")
    if not same_head(theirs, ours, SAME):
        raise InputError(f"{name} is of another model: its head is different. Extract both with one model.")


def _check_classes(snapshot: Snapshot, other: Snapshot) -> None:
    """Require probabilities over the same classes, by which models are compared."""
    name = other.name or "the other model"
    if other.source.evidence == "features" and other.head is None:
        raise InputError(f"{name} has no head: models are compared by their probabilities.")
    if snapshot.num_classes is not None and other.num_classes != snapshot.num_classes:
        raise InputError(f"{name} has {other.num_classes} classes, this model {snapshot.num_classes}: they cannot be compared.")

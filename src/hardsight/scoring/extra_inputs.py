"""Additional inputs of some scores: a reference to fit to, other models joined by id, and the layers of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import FileError, InputError
from hardsight.files.heads import ARRAYS
from hardsight.files.places import Place
from hardsight.files.run import read_manifest
from hardsight.files.samples import Batch, SampleFiles
from hardsight.head import Head
from hardsight.scores.depth import depth_of, neighbors_vote
from hardsight.scores.ensembles import model_agreement
from hardsight.scores.sweep import Sweep
from hardsight.snapshot import Snapshot
from hardsight.threads import blocks

LAYERS = "layers"  # the folder of `hardsight extract --layers`: layers/00-NAME/part-00000.parquet, ...
PROBABILITIES = 2**20  # per model in memory at a time
SAME = 1e-4  # relative tolerance: heads saved in another precision count as the same


@dataclass(frozen=True)
class Beside:
    """Additional inputs, opened and checked against the snapshot."""

    reference: Snapshot | None = None
    models: tuple[Snapshot, ...] = ()
    images: Any = None

    @classmethod
    def opened(cls, snapshot: Snapshot, reference: Any = None, models: Any = None, images: Any = None) -> Beside:
        """A reference and other models from paths or snapshots; mismatched ones are rejected."""
        known = None if reference is None else _opened(reference, "reference")
        others = tuple(_opened(model, "models") for model in listed(models))
        if known is not None:
            check_reference(snapshot, known)
        for other in others:
            _check_classes(snapshot, other)
        return cls(known, others, images)


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
    if not _same(theirs, ours):
        raise InputError(f"{name} is of another model: its head is different. Extract both with one model.")


def _same(head: Head, other: Head) -> bool:
    if head.kind != other.kind or (head.scale or 1.0) != (other.scale or 1.0):
        return False
    for name in ARRAYS:
        a, b = getattr(head, name), getattr(other, name)
        if (a is None) != (b is None) or (a is not None and tuple(a.shape) != tuple(b.shape)):
            return False
        if a is not None:
            x, y = to_numpy(a), to_numpy(b)
            if not np.allclose(x, y, rtol=SAME, atol=SAME * float(np.abs(x).max(initial=0))):
                return False
    return True


def _check_classes(snapshot: Snapshot, other: Snapshot) -> None:
    """Require probabilities over the same classes, by which models are compared."""
    name = other.name or "the other model"
    if other.source.evidence == "features" and other.head is None:
        raise InputError(f"{name} has no head: models are compared by their probabilities.")
    if snapshot.num_classes is not None and other.num_classes != snapshot.num_classes:
        raise InputError(f"{name} has {other.num_classes} classes, this model {snapshot.num_classes}: they cannot be compared.")


def layers_of(run: Place | None) -> dict[str, list[Place]]:
    """The files of each stored layer of a run, first layer first."""
    if run is None or not (run / LAYERS).is_dir():
        return {}
    names = [str(part["name"]) for part in read_manifest(run)["parts"]]
    layers: dict[str, list[Place]] = {}
    for name in sorted(name for name in names if name.startswith(f"{LAYERS}/")):
        layers.setdefault(name.split("/")[1], []).append(run / name)
    return layers


class Depths:
    """The vote of the nearest neighbors at each layer, for some rows of a run."""

    def __init__(self, layers: dict[str, list[Place]], labels: np.ndarray, rows: range, k: int) -> None:
        """Args: the files of each layer, the (n,) labels of the rows, the rows, and the number of neighbors that vote."""
        self.rows = rows
        self.votes = np.stack([neighbors_vote(_features(name, files, rows), labels, k) for name, files in layers.items()])

    def of(self, batch: Batch, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) prediction depth of each row."""
        start = batch.start - self.rows.start
        return depth_of(self.votes[:, start : start + len(batch)], rows.predicted)


def _features(name: str, files: list[Place], rows: range) -> np.ndarray:
    source = SampleFiles(files)
    if len(source) < rows.stop:
        raise FileError(f"{files[0]}: the layer {name} has {len(source)} rows, but {rows.stop} are needed.")
    parts = [to_numpy(batch.values) for batch in source.read(rows.start, rows.stop, max(1, len(rows)), None)]
    return np.concatenate(parts) if parts else np.zeros((0, source.width), np.float32)


class SeveralModels:
    """Snapshots of several models, whose rows may be in different orders."""

    def __init__(self, own: Snapshot, others: tuple[Snapshot, ...], rows: range) -> None:
        """Args: the snapshot, the others, and the requested rows: each model must have some of them."""
        self.own, self.others = own, others
        self.ids = [other.columns(["id"]).column("id").combine_chunks() for other in others]
        wanted = own.columns(["id"]).column("id").slice(rows.start, len(rows)).combine_chunks()
        for number, other in enumerate(others):
            name, kinds = other.name or "the other model", (self.ids[number].type, own.source.id_type)
            if kinds[0] != kinds[1]:
                raise InputError(f"{name}: its ids are {kinds[0]}, those of this model {kinds[1]}.")
            if len(wanted) and (self._places(wanted, number) < 0).all():
                raise InputError(f"{name} has none of the ids of {own.name or 'this snapshot'}.")

    def agreement(self, batch: Batch, x: Any, rows: Sweep) -> np.ndarray:
        """(b,) agreement on each row; NaN if one of the models lacks it."""
        result = np.full(len(batch), np.nan)
        ids = pa.array(batch.ids, type=self.own.source.id_type)
        rows_of_others = [self._places(ids, number) for number in range(len(self.others))]  # (b,) each
        scored = np.flatnonzero(rows.ok & np.all([chosen >= 0 for chosen in rows_of_others], axis=0))
        for part in blocks(len(scored), max(1, PROBABILITIES // (self.own.num_classes or 1))):
            chosen = scored[part]
            tables = [_probabilities(self.own, to_numpy(x)[chosen])]
            tables += [
                _probabilities(other, _rows(other, rows_of_other[chosen]))
                for other, rows_of_other in zip(self.others, rows_of_others, strict=True)
            ]
            result[chosen] = model_agreement(tables)
        return result

    def _places(self, ids: pa.Array, number: int) -> np.ndarray:
        """(b,) row of each id in another model's snapshot, -1 if it is missing."""
        return pc.fill_null(pc.index_in(ids, value_set=self.ids[number]), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _rows(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Some rows of a snapshot's values; consecutive rows are read together."""
    if len(rows) and (np.diff(rows) == 1).all():
        return to_numpy(snapshot.in_memory(int(rows[0]), int(rows[-1]) + 1).values)
    return to_numpy(snapshot.take(rows).in_memory().values)


def _probabilities(snapshot: Snapshot, values: np.ndarray) -> np.ndarray:
    """(b, c) float64 probabilities from whatever a snapshot holds; NaN for rows that are not finite."""
    from scipy.special import softmax  # not needed to open a table

    values = values.astype(np.float64)
    if snapshot.source.evidence == "probs":
        return values
    finite = np.isfinite(values).all(1, keepdims=True)
    values = np.where(finite, values, 0.0)
    if snapshot.source.evidence == "features":
        assert snapshot.head is not None
        values = snapshot.head.logits(values)
    return np.where(finite, softmax(values, axis=1), np.nan)

"""Logits and probabilities of a snapshot's rows, in memory: what calibration, ensembles and superclasses start from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from hardsight.agreement.models import ScoredModel
from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.files.npy import open_npy
from hardsight.scores.registry import probs_to_logits
from hardsight.snapshot import Snapshot
from hardsight.stats.uncertainty import pass_scores


def all_logits(snapshot: Snapshot | None, purpose: str) -> np.ndarray:
    """(n, c) float32 logits of every row; NaN where a row has no features."""
    if snapshot is None:
        raise InputError(f"{purpose} needs logits: give a run or a snapshot, not a table of scores.")
    if snapshot.source.evidence == "features" and snapshot.head is None:
        raise InputError(f"{purpose} needs a head: {snapshot.name or 'the snapshot'} has features alone.")
    parts = []
    for batch in snapshot.batches():
        if snapshot.source.evidence == "features":
            assert snapshot.head is not None
            values = to_numpy(snapshot.head.logits(batch.values))
        else:
            values = to_numpy(probs_to_logits(batch.values) if snapshot.source.evidence == "probs" else batch.values)
        parts.append(values.astype(np.float32))
    return np.concatenate(parts) if parts else np.zeros((0, snapshot.num_classes or 0), np.float32)


def with_passes(model: ScoredModel, passes: Any) -> ScoredModel:
    """The model's table with the uncertainty of several passes (MC-dropout, an ensemble) over its samples.

    Args:
        model: the model whose samples they are.
        passes: (passes, n, c) probabilities, the .npy file of them, or a list of at least two snapshots or their paths.
    """
    if isinstance(passes, (list, tuple)) and len(passes) == 1 and str(passes[0]).lower().endswith(".npy"):
        passes = passes[0]
    if isinstance(passes, (str, os.PathLike)):
        passes = np.asarray(open_npy(Path(passes)))
    if isinstance(passes, (list, tuple)) and not any(isinstance(member, np.ndarray) for member in passes):
        passes = _stacked(passes, model)
    probs = np.asarray(to_numpy(passes))
    if probs.ndim == 3 and probs.shape[1] != len(model.table):
        raise InputError(f"passes are over {probs.shape[1]} samples, {model.name} has {len(model.table)}.")
    table = model.table
    for name, column in pass_scores(probs).items():
        table = table.append_column(name, [column])
    return ScoredModel(model.name, table, model.snapshot, model.class_names)


def _stacked(passes: Sequence[Any], model: ScoredModel) -> np.ndarray:
    """(passes, n, c) probabilities of snapshots of the model's samples."""
    probs = []
    for source in passes:
        snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source)
        probs.append(softmax(all_logits(snapshot, "a pass"), axis=1))
        ids = np.concatenate([np.asarray(batch.ids) for batch in snapshot.batches()])
        if len(ids) != len(model.table) or ids.tolist() != model.ids.tolist():
            raise InputError(f"{snapshot.name or 'a pass'}: its ids are not those of {model.name}, in the same order.")
        if probs[0].shape != probs[-1].shape:
            raise InputError(
                f"{snapshot.name or 'a pass'}: {probs[-1].shape[1]} classes, where the first has {probs[0].shape[1]}."
            )
    return np.stack(probs)


def ensemble(models: Sequence[ScoredModel]) -> ScoredModel | None:
    """Several models of the same samples as one: mean prediction and disagreement. None where they do not fit together."""
    snapshots = [model.snapshot for model in models if model.snapshot is not None and model.has_logits]
    if len(models) < 2 or len(snapshots) < len(models):
        return None
    if any(len(model.table) != len(models[0].table) or model.ids.tolist() != models[0].ids.tolist() for model in models[1:]):
        return None
    if len({snapshot.num_classes for snapshot in snapshots}) > 1 or any(len(s) != len(models[0].table) for s in snapshots):
        return None
    probs = np.stack([softmax(all_logits(snapshot, "an ensemble"), axis=1) for snapshot in snapshots])  # (models, n, c)
    if not np.isfinite(probs).all():
        return None
    mean = probs.mean(0)  # (n, c)
    first = models[0].table
    kept = [name for name in ("id", "label", "base_id", "degradation", "level") if name in first.column_names]
    table = first.select(kept).append_column("predicted", [mean.argmax(1)])
    labels = models[0].labels
    own = np.where(labels >= 0, mean[np.arange(len(mean)), np.maximum(labels, 0)], np.nan)
    table = table.append_column("confidence", [own])
    for name, column in pass_scores(probs).items():
        table = table.append_column(name, [column])
    return ScoredModel("ensemble", table, None, models[0].class_names)

"""Logits and probabilities of a snapshot's rows in memory, for calibration, ensembles and superclasses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from hardsight.checks import to_numpy
from hardsight.errors import FileError, InputError
from hardsight.files.npy import open_npy
from hardsight.human.models import ScoredModel
from hardsight.scores.probabilities import probs_to_logits
from hardsight.snapshot import Snapshot
from hardsight.stats.uncertainty import Passes, pass_scores


def all_logits(snapshot: Snapshot | None, purpose: str) -> np.ndarray:
    """(n, c) float32 logits of every row; NaN for rows without features."""
    if snapshot is None:
        raise InputError(f"{purpose} needs logits: pass a run or a snapshot, not a table of scores.")
    if snapshot.source.evidence == "features" and snapshot.head is None:
        raise InputError(f"{purpose} needs a head: {snapshot.name or 'the snapshot'} has only features.")
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
    """The model's table with the uncertainty from several passes (MC dropout, an ensemble) over its samples.

    Args:
        model: the model whose samples they are.
        passes: (passes, n, c) probabilities, the .npy file of them, a list of at least two snapshots or their paths, or
            a directory of snapshots, such as run/passes of `extract --passes`: its dropout draws, or all if there are none.
    """
    if isinstance(passes, (list, tuple)) and len(passes) == 1 and isinstance(passes[0], (str, os.PathLike)):
        passes = passes[0]
    if isinstance(passes, (str, os.PathLike)):
        path = Path(passes)
        passes = _below(path) if path.suffix.lower() != ".npy" else np.asarray(open_npy(path))
    if isinstance(passes, (list, tuple)) and not any(isinstance(member, np.ndarray) for member in passes):
        scores = _of_snapshots(passes, model)
    else:
        probs = np.asarray(to_numpy(passes))
        if probs.ndim == 3 and probs.shape[1] != len(model.table):
            raise InputError(f"passes are over {probs.shape[1]} samples, {model.name} has {len(model.table)}.")
        scores = pass_scores(probs)
    table = model.table
    for name, column in scores.items():
        table = table.append_column(name, [column])
    return ScoredModel(model.name, table, model.snapshot, model.class_names)


def _below(path: Path) -> list[Path]:
    """The snapshots in a directory, by name; a snapshot's own path gives just that one.

    Dropout draws are samples of one posterior. The mirrored view that may lie beside them is not, and is left out.
    """
    if not path.is_dir() or (path / "start.json").exists() or (path / "samples").exists():
        return [path]
    runs = sorted(each for each in path.iterdir() if (each / "run.json").is_file())
    if not runs:
        raise FileError(f"{path} holds no snapshots: pass the passes/ of a run of extract --passes, or several --passes.")
    return [each for each in runs if each.name.startswith("dropout-")] or runs


def _of_snapshots(passes: Sequence[Any], model: ScoredModel) -> dict[str, np.ndarray]:
    """Scores from snapshots of the model's samples, one in memory at a time; they may also hold other samples."""
    seen = Passes()
    wanted = [str(name) for name in model.ids]
    for source in passes:
        snapshot = source if isinstance(source, Snapshot) else Snapshot.load(source)
        probs = softmax(all_logits(snapshot, "a pass"), axis=1)  # (n, c)
        ids = [str(name) for name in snapshot.columns(["id"]).column(0).to_pylist()]
        if ids != wanted:
            row_of = {name: row for row, name in enumerate(ids)}
            absent = next((name for name in wanted if name not in row_of), None)
            if absent is not None:
                raise InputError(f"{snapshot.name or 'a pass'}: its ids are not those of {model.name}: it has no {absent!r}.")
            probs = probs[[row_of[name] for name in wanted]]
        if seen.count and probs.shape != seen.mean.shape:
            raise InputError(f"{snapshot.name or 'a pass'}: {probs.shape[1]} classes, where the first has {seen.mean.shape[1]}.")
        seen.add(probs)
    return seen.scores()


def ensemble(models: Sequence[ScoredModel]) -> tuple[ScoredModel | None, str]:
    """Several models of the same samples as an ensemble: mean prediction and disagreement. Or None, and why there is none."""
    try:
        orders = [_order_of(model, models[0]) for model in models]
    except InputError as error:
        return None, f"no ensemble: {error}"
    probs = np.stack(  # (models, n, c), each in the order of the first
        [softmax(all_logits(model.snapshot, "an ensemble"), axis=1)[order] for model, order in zip(models, orders, strict=True)]
    )
    odd = [model.name for model, own in zip(models, probs, strict=True) if not np.isfinite(own).all()]
    if odd:
        return None, f"no ensemble: {odd[0]} has samples without finite logits."
    return _together(models[0], probs), ""


def _order_of(model: ScoredModel, first: ScoredModel) -> np.ndarray:
    """(n,) the model's row for each sample of the first model, by id; an error if they do not match."""
    if not model.has_logits:
        raise InputError(f"{model.name} has no logits; pass runs or snapshots, not tables of scores.")
    if model.num_classes != first.num_classes:
        raise InputError(f"{model.name} has {model.num_classes} classes, {first.name} has {first.num_classes}.")
    row_of = {name: row for row, name in enumerate(model.ids.tolist())}
    wanted = first.ids.tolist()
    absent = [name for name in wanted if name not in row_of]
    if absent or len(row_of) != len(wanted):
        alone = absent or list(row_of.keys() - set(wanted))
        has, lacks = (first, model) if absent else (model, first)
        raise InputError(
            f"{len(alone)} of the {len(has.table)} samples of {has.name} are not in {lacks.name}, whose ids look like "
            f"{lacks.ids.tolist()[0]!r}; the first is {min(alone)!r}."
        )
    return np.array([row_of[name] for name in wanted])


def _together(model: ScoredModel, probs: np.ndarray) -> ScoredModel:
    """The ensemble of (models, n, c) probabilities of the samples of a model."""
    mean = probs.mean(0)  # (n, c)
    first = model.table
    kept = [name for name in ("id", "label", "base_id", "degradation", "level") if name in first.column_names]
    table = first.select(kept).append_column("predicted", [mean.argmax(1)])
    labels = model.labels
    own = np.where(labels >= 0, mean[np.arange(len(mean)), np.maximum(labels, 0)], np.nan)
    table = table.append_column("confidence", [own])
    for name, column in pass_scores(probs).items():
        table = table.append_column(name, [column])
    return ScoredModel("ensemble", table, None, model.class_names)

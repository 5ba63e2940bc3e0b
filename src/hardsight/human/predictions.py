"""Logits and probabilities of a model's samples in memory, for calibration and superclasses; several passes and ensembles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from hardsight.checks import to_numpy
from hardsight.errors import FileError, InputError
from hardsight.files.npy import open_npy
from hardsight.human.models import has_logits, num_classes_of
from hardsight.scores.probabilities import probs_to_logits
from hardsight.snapshot import Snapshot
from hardsight.snapshot.sources import SCORES_ALONE
from hardsight.stats.uncertainty import Passes, pass_scores


def all_logits(model: Snapshot, purpose: str) -> np.ndarray:
    """(n, c) float32 logits of every row; NaN for rows without features."""
    evidence, head = model.source.evidence, model.head
    if evidence == SCORES_ALONE:
        raise InputError(f"{purpose} needs logits: pass a run or a snapshot, not a table of scores.")
    if evidence == "features" and head is None:
        raise InputError(f"{purpose} needs a head: {model.where} has only features.")
    parts = [np.zeros((0, model.num_classes or 0), np.float32)]
    for batch in model.batches():
        values = batch.values if head is None else head.logits(batch.values)
        parts.append(to_numpy(probs_to_logits(values) if evidence == "probs" else values).astype(np.float32))
    return np.concatenate(parts)


def rows_by_id(other: Snapshot, model: Snapshot) -> np.ndarray:
    """(n,) the other's row for each sample of the model; an error if it lacks one."""
    ids = [str(name) for name in other.ids.tolist()]
    row_of = {name: row for row, name in enumerate(ids)}
    wanted = [str(name) for name in model.ids.tolist()]
    absent = [name for name in wanted if name not in row_of]
    if absent:
        raise InputError(
            f"{len(absent)} of the {len(wanted)} samples of {model.where} are not in {other.where}, whose ids look like "
            f"{ids[0]!r}; the first is {min(absent)!r}."
        )
    return np.array([row_of[name] for name in wanted])


def with_passes(model: Snapshot, passes: Any) -> Snapshot:
    """The model with the uncertainty from several passes (MC dropout, an ensemble) over its samples as further columns.

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
        if probs.ndim == 3 and probs.shape[1] != len(model):
            raise InputError(f"passes are over {probs.shape[1]} samples, {model.name} has {len(model)}.")
        scores = pass_scores(probs)
    return model.with_columns({name: pa.array(column) for name, column in scores.items()})


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


def _of_snapshots(passes: Sequence[Any], model: Snapshot) -> dict[str, np.ndarray]:
    """Scores from snapshots of the model's samples, one in memory at a time; they may also hold other samples."""
    seen = Passes()
    for source in passes:
        snapshot = Snapshot.open(source)
        probs = softmax(all_logits(snapshot, "a pass"), axis=1)[rows_by_id(snapshot, model)]  # (n, c)
        if seen.count and probs.shape != seen.mean.shape:
            raise InputError(f"{snapshot.where}: {probs.shape[1]} classes, where the first has {seen.mean.shape[1]}.")
        seen.add(probs)
    return seen.scores()


def ensemble(models: Sequence[Snapshot]) -> tuple[Snapshot | None, str]:
    """Several models of the same samples as an ensemble: mean prediction and disagreement. Or None, and why there is none."""
    first = models[0]
    try:
        probs = np.stack([_probs_of_the_same(model, first) for model in models])  # (models, n, c)
    except InputError as error:
        return None, f"no ensemble: {error}"
    mean, labels = probs.mean(0), first.labels  # (n, c), (n,)
    own = np.where(labels >= 0, mean[np.arange(len(mean)), np.maximum(labels, 0)], np.nan)
    table = first.columns([name for name in ("id", "label", "base_id", "degradation", "level") if name in first.column_names])
    columns = {"predicted": mean.argmax(1), "confidence": own, **pass_scores(probs)}
    for name, column in columns.items():
        table = table.append_column(name, [column])
    return Snapshot.open(table, class_names=first.class_names, allow_duplicates=True).with_columns({}, "ensemble"), ""


def _probs_of_the_same(model: Snapshot, first: Snapshot) -> np.ndarray:
    """(n, c) the model's probabilities in the order of the first model's samples; an error if the samples differ."""
    if not has_logits(model):
        raise InputError(f"{model.name} has no logits; pass runs or snapshots, not tables of scores.")
    if num_classes_of(model) != num_classes_of(first):
        raise InputError(f"{model.name} has {num_classes_of(model)} classes, {first.name} has {num_classes_of(first)}.")
    rows = rows_by_id(model, first)
    rows_by_id(first, model)  # no sample is only in this one
    probs = softmax(all_logits(model, "an ensemble"), axis=1)[rows]
    if not np.isfinite(probs).all():
        raise InputError(f"{model.name} has samples without finite logits.")
    return np.asarray(probs)

"""Details of one sample: its angles to the classes, its neighbors in feature space, its degraded versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardsight.checks import to_numpy
from hardsight.errors import InputError
from hardsight.explorer.columns import rows_of
from hardsight.explorer.display import Display
from hardsight.subsets.eligible import directions

NEAREST_CLASSES, NEIGHBORS, MOST_VERSIONS = 8, 12, 60
MOST_COSINES = 1000  # classes whose whole matrix is shown


def nearest_classes(display: Display, rows: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """The nearest classes of each row by angle, plus its label and its predicted class wherever they rank."""
    if display.snapshot is None or display.snapshot.head is None:
        return {}
    nearest: dict[int, list[dict[str, Any]]] = {}
    labels, predicted = display.labels, display.predicted
    for row, feature in features_of(display, rows).items():
        try:
            theta = display.snapshot.head.angles(feature[None])[0]  # (c,)
        except InputError:  # a feature of zeros has no direction
            continue
        if np.isfinite(theta).all():
            nearest[row] = _by_angle(theta, int(labels[row]), int(predicted[row]))
    return nearest


def _by_angle(theta: np.ndarray, label: int, predicted: int) -> list[dict[str, Any]]:
    shown = [*np.argsort(theta, kind="stable")[:NEAREST_CLASSES].tolist(), label, predicted]
    chosen = sorted({index for index in shown if index >= 0}, key=lambda index: theta[index])
    return [
        {"class": index, "degrees": float(np.degrees(theta[index])), "given": index == label, "predicted": index == predicted}
        for index in chosen
    ]


def top_classes(display: Display, row: int) -> list[int]:
    """The most likely classes by the model, its prediction first; none without a head, logits or probabilities."""
    snapshot = display.snapshot
    if snapshot is None or (snapshot.source.evidence == "features" and snapshot.head is None):
        return []
    values = _values_of(display, [row]).get(row)
    if values is None:
        return []
    try:
        likely = values if snapshot.head is None else to_numpy(snapshot.head.logits(values[None]))[0]  # (c,)
    except InputError:  # a feature of zeros has no direction
        return []
    return np.argsort(-likely, kind="stable")[:NEAREST_CLASSES].tolist() if np.isfinite(likely).all() else []


def neighbors(display: Display, row: int) -> list[dict[str, Any]]:
    """The samples with the most similar features by cosine, read a batch at a time."""
    feature = features_of(display, [row]).get(row)
    if feature is None or display.snapshot is None:
        return []
    unit = directions(feature[None])[0]  # (d,)
    display_rows = _display_rows(display)
    best_rows, best = np.zeros(0, np.int64), np.zeros(0)
    for batch in display.snapshot.batches():
        cosine = directions(to_numpy(batch.values)) @ unit  # (b,)
        rows = display_rows[batch.start : batch.start + len(batch)]
        cosine = np.where(np.isfinite(cosine) & (rows != row) & (rows >= 0), cosine, -np.inf)
        few = np.argpartition(-cosine, min(NEIGHBORS, len(cosine) - 1))[:NEIGHBORS]
        best_rows, best = np.concatenate([best_rows, rows[few]]), np.concatenate([best, cosine[few]])
        order = np.argsort(-best, kind="stable")[:NEIGHBORS]
        best_rows, best = best_rows[order], best[order]
    return [{"row": int(near), "cosine": float(value)} for near, value in zip(best_rows, best, strict=True) if np.isfinite(value)]


def versions(display: Display, row: int) -> list[dict[str, Any]]:
    """The degraded versions of the same image, by kind and level."""
    how, level = display.columns.get("degradation"), display.columns.get("level")
    if display.base_ids is None or how is None or level is None or how.names is None:
        return []
    base = display.base_ids[row].as_py()
    rows = np.flatnonzero(pc.fill_null(pc.equal(display.base_ids, pa.scalar(base)), False).to_numpy(zero_copy_only=False))
    if base is None or len(rows) < 2:
        return []
    versions = [
        {"row": other, "degradation": how.value(other), "level": _finite(level.values[other]), "here": other == row}
        for other in rows[:MOST_VERSIONS].tolist()
    ]
    return sorted(versions, key=lambda version: (version["degradation"] or "", version["level"] or 0.0))


def originals(display: Display, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Row -> the id of the sample that it duplicates, and that sample's row or None; other rows are left out."""
    if display.suspects is None:
        return {}
    ids = {row: id for row in rows if (id := display.suspects.duplicate_of[row].as_py()) is not None}
    places = rows_of(pa.array(list(ids.values()), pa.string()), display.ids).tolist()
    return {row: {"id": id, "row": None if place < 0 else place} for (row, id), place in zip(ids.items(), places, strict=True)}


def cosines(display: Display) -> np.ndarray | None:
    """(c, c) cosines between the class vectors; None without a head, or with more than `MOST_COSINES` classes."""
    if display.snapshot is None or display.snapshot.head is None:
        return None
    weight = to_numpy(display.snapshot.head.directions)
    if len(weight) > MOST_COSINES:
        return None
    unit = directions(weight)
    return np.clip(unit @ unit.T, -1, 1).astype(np.float32)


def features_of(display: Display, rows: Sequence[int]) -> dict[int, np.ndarray]:
    """(d,) features of the given rows, by row."""
    return _values_of(display, rows) if display.snapshot is not None and display.snapshot.source.evidence == "features" else {}


def _values_of(display: Display, rows: Sequence[int]) -> dict[int, np.ndarray]:
    """(d,) features, or (c,) logits or probabilities, of the given rows; each piece of the files is read once."""
    assert display.snapshot is not None
    row_of = {row if display.snapshot_rows is None else int(display.snapshot_rows[row]): row for row in rows}
    wanted = sorted(index for index in row_of if index >= 0)
    values: dict[int, np.ndarray] = {}
    for piece in display.snapshot.pieces():
        inside = [index for index in wanted if piece.start <= index < piece.stop]
        for batch in display.snapshot.batches(inside[0], inside[-1] + 1) if inside else ():
            for index in inside:
                if batch.start <= index < batch.start + len(batch):
                    values[row_of[index]] = np.asarray(to_numpy(batch.values[index - batch.start]), np.float64)
    return values


def _display_rows(display: Display) -> np.ndarray:
    """(rows of the snapshot,) the display's row of each, -1 for none."""
    if display.snapshot_rows is None or display.snapshot is None:
        return np.arange(len(display))
    rows = np.full(len(display.snapshot), -1, np.int64)
    there = display.snapshot_rows >= 0
    rows[display.snapshot_rows[there]] = np.flatnonzero(there)
    return rows


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None

"""The path of an attacked sample in angle and norm, as Figure 22 of the AVH paper draws it.

Gradient ascent on the loss of the given class, in small steps. The paper sees one sample first shrink its norm and then turn
away from its class; `describe_paths` counts how many do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.checks import to_numpy
from hardsight.head import Head

SCHEMA = pa.schema(
    [("id", pa.string()), ("label", pa.int64()), ("step", pa.int64()), ("epsilon", pa.float64()), ("predicted", pa.int64()),
     ("own_angle", pa.float64()), ("other_angle", pa.float64()), ("avh", pa.float64()), ("norm", pa.float64())]
)  # fmt: skip


def path_table(ids: list[str], labels: np.ndarray, features: np.ndarray, head: Head, epsilon: float) -> pa.Table:
    """One row per sample and step.

    `other_angle` is the angle to the class that the sample ends in, or to the nearest other one if it stays in its own.

    Args:
        ids, labels: of n samples.
        features: (n, steps + 1, d), the clean ones first.
        epsilon: how far a pixel may have moved at the end.
    """
    n, count, d = features.shape
    flat = features.reshape(-1, d).astype(np.float64)
    angles = to_numpy(head.angles(flat)).reshape(n, count, -1)  # (n, steps + 1, c)
    predicted = to_numpy(head.logits(flat)).reshape(n, count, -1).argmax(2)  # (n, steps + 1)
    norm = np.linalg.norm(to_numpy(head.around_origin(flat)), axis=1).reshape(n, count)
    end = angles[:, -1].copy()  # (n, c)
    end[np.arange(n), labels] = np.inf
    other = np.where(predicted[:, -1] != labels, predicted[:, -1], end.argmin(1))  # (n,)
    steps = np.arange(count)
    own_angle = angles[np.arange(n)[:, None], steps, labels[:, None]]
    columns: dict[str, Any] = {
        "id": np.repeat(ids, count),
        "label": np.repeat(labels, count),
        "step": np.tile(steps, n),
        "epsilon": np.tile(epsilon * steps / max(1, count - 1), n),
        "predicted": predicted.ravel(),
        "own_angle": own_angle.ravel(),
        "other_angle": angles[np.arange(n)[:, None], steps, other[:, None]].ravel(),
        "avh": (own_angle / angles.sum(2)).ravel(),
        "norm": norm.ravel(),
    }
    return pa.table({name: pa.array(column) for name, column in columns.items()}).cast(SCHEMA)


def paths(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of trajectories.parquet as (samples, steps + 1) arrays."""
    count = int(table.column("step").to_numpy().max()) + 1
    return {name: table.column(name).to_numpy(zero_copy_only=False).reshape(-1, count) for name in table.column_names}


def describe_paths(table: pa.Table) -> dict[str, Any]:
    """What the paths have in common, over the samples that change class.

    Returns:
        followed, switched: numbers of samples.
        norm_at_switch: median norm where the prediction changes, as a share of the clean one.
        least_norm: median of the least norm on the path, as a share of the clean one.
        own_angle, own_angle_at_switch, own_angle_at_end: medians in degrees.
        shrunk_at_switch: share of samples whose norm is below the clean one where the prediction changes.
        shrink_first: share whose norm has done half of its fall before the angle to the own class has done half of its rise.
    """
    if len(table) == 0:
        return {"followed": 0, "switched": 0}
    path = paths(table)
    away = path["predicted"] != path["label"]  # (n, steps + 1)
    switched = np.flatnonzero(away.any(1) & ~away[:, 0])
    summary: dict[str, Any] = {"followed": len(away), "switched": len(switched)}
    if len(switched) == 0:
        return summary
    norm, angle = path["norm"][switched], np.degrees(path["own_angle"][switched])  # (m, steps + 1)
    switch = away[switched].argmax(1)  # (m,) the step of the switch
    rows = np.arange(len(switch))
    fall, rise = norm[:, :1] - norm.min(1, keepdims=True), angle.max(1, keepdims=True) - angle[:, :1]
    half_fall = (norm <= norm[:, :1] - fall / 2).argmax(1)
    half_rise = (angle >= angle[:, :1] + rise / 2).argmax(1)
    return summary | {
        "norm_at_switch": float(np.median(norm[rows, switch] / norm[:, 0])),
        "least_norm": float(np.median(norm.min(1) / norm[:, 0])),
        "own_angle": float(np.median(angle[:, 0])),
        "own_angle_at_switch": float(np.median(angle[rows, switch])),
        "own_angle_at_end": float(np.median(angle[:, -1])),
        "shrunk_at_switch": float((norm[rows, switch] < norm[:, 0]).mean()),
        "shrink_first": float(((half_fall < half_rise) & (fall[:, 0] > 0)).mean()),
    }

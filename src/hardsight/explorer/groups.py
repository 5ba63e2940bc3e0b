"""A selection in groups: by a column's own names, or by fifths of its numbers; and their curves over the epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight.explorer.agreement import HUMAN
from hardsight.explorer.columns import Column, signed
from hardsight.explorer.epochs import Epochs

MOST_CURVES = 12  # groups drawn at once


def groups_of(column: Column, chosen: np.ndarray, most: int = MOST_CURVES) -> tuple[list[str], np.ndarray]:
    """Names and (n,) codes, -1 for none: the column's own largest groups, or five of equal size for numbers.

    Human frequencies lie so near to 1 that they are cut at fifths instead.
    """
    if column.names is not None:
        code = np.where(chosen, signed(column), -1)
        counts = np.bincount(code[code >= 0], minlength=len(column.names))
        largest = np.sort(np.argsort(-counts, kind="stable")[:most])
        group_of = np.full(len(column.names) + 1, -1)
        group_of[largest] = np.arange(len(largest))
        return [column.names[at] for at in largest], group_of[code]
    there = chosen & np.isfinite(column.values)
    values = column.values[there]
    if not len(values):
        return ["selection"], np.full(len(chosen), -1)
    fifths = np.array([0.2, 0.4, 0.6, 0.8])
    cuts = fifths if column.name == HUMAN else np.unique(np.quantile(values, fifths))  # the paper's bins of human frequency
    code = np.where(there, np.searchsorted(cuts, column.values, side="right"), -1)
    ends = [float(values.min()), *cuts.tolist(), float(values.max())]
    return [f"{low:.3g} to {high:.3g}" for low, high in zip(ends[:-1], ends[1:], strict=True)], code


def listed(epochs: Epochs, measure: str, names: list[str], groups: np.ndarray) -> dict[str, Any]:
    """Curves of groups as the page draws them."""
    curves = epochs.curves(measure, groups, len(names))
    described = [
        {
            "name": name,
            "mean": _list(curves["mean"][at]),
            "std": _list(curves["std"][at]),
            "count": int(curves["count"][at].max(initial=0)),
        }
        for at, name in enumerate(names)
        if curves["count"][at].any()
    ]
    return {"epochs": epochs.numbers, "groups": described}


def _list(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]

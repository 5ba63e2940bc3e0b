"""One row per epoch and split: means over its samples, and the metrics of the split as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.dynamics.collapse import NAMES
from hardsight.dynamics.curves import read_curves
from hardsight.files.epochs import moments, read_measures

MEANS = ("norm", "avh", "own_angle", "confidence", "correct", "loss")
COSINES = ("uniformity", "tolerance", "positive_cosine", "negative_cosine")
MEASURES = (*NAMES, *COSINES)
HISTOGRAMS = ("positive_cosines", "negative_cosines")
MOST_LINES = 8  # epochs of a printed table


def read_epochs(run: str | Path, splits: Sequence[str | None]) -> pa.Table:
    """The epochs of a run, split after split.

    Columns: split, epoch, samples, means over the samples (`accuracy` for `correct`), `measured` (how many samples the rest is
    computed on), nc1 to nc4, uniformity, tolerance, mean cosines of pairs, and cosine histograms as lists of counts.
    """
    parts = [_of_split(run, split) for split in splits]
    return pa.concat_tables(parts)


def _of_split(run: str | Path, split: str | None) -> pa.Table:
    curves = read_curves(run, split=split, columns=MEANS)
    by_epoch = {moment.epoch: read_measures(path).get(split, {}) for moment, path in moments(run)}
    measured = [by_epoch[epoch] for epoch in curves.times]
    columns: dict[str, Any] = {
        "split": pa.array([split] * len(measured), pa.string()),
        "epoch": pa.array(curves.times, pa.int64()),
        "samples": pa.array(curves.count[0] if len(measured) else [], pa.int64()),
    }
    for name in MEANS:
        column = curves.mean[name][0] if len(measured) else np.zeros(0)
        columns["accuracy" if name == "correct" else name] = pa.array(column, pa.float64(), from_pandas=True)
    columns["measured"] = pa.array([numbers.get("measured") for numbers in measured], pa.int64())
    columns |= {name: pa.array([numbers.get(name) for numbers in measured], pa.float64()) for name in MEASURES}
    columns |= {name: pa.array([numbers.get(name) for numbers in measured], pa.list_(pa.int64())) for name in HISTOGRAMS}
    return pa.table(columns)


def collapse_lines(table: pa.Table) -> list[str]:
    """The metrics of some epochs of one split as lines of a small table; empty if nothing was recorded."""
    rows = [row for row in table.to_pylist() if row["measured"]]
    if not rows:
        return []
    chosen = sorted({round(at) for at in np.linspace(0, len(rows) - 1, min(MOST_LINES, len(rows)))})
    header = ("epoch", "NC1", "NC2", "NC3", "NC4", "uniformity", "tolerance", "cos same", "cos other")
    names = ("nc1", "nc2", "nc3", "nc4", *COSINES)
    lines = [f"  collapse and cosines, of {rows[-1]['measured']:,} samples:", _line(header)]
    return lines + [_line([str(rows[at]["epoch"]), *(_number(rows[at][name]) for name in names)]) for at in chosen]


def _line(cells: Sequence[str]) -> str:
    return "    " + "".join(f"{cell:>{6 if at == 0 else 11}}" for at, cell in enumerate(cells))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"

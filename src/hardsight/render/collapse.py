"""Neural collapse over the epochs, and the cosines of pairs at the first and at the last of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.render.dynamics import COLORS

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

CURVES = {"nc1": "NC1", "nc2": "NC2", "nc3": "NC3", "nc4": "NC4 (to 1)"}


def collapse_figure(table: pa.Table, *, title: str = "") -> Figure:
    """Three panels: NC1 to NC4; uniformity and tolerance; the histograms of the first and the last epoch.

    Args:
        table: rows of one split of `hardsight.dynamics.read_epochs`, those that were measured.
        title: one line on top.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(12.6, 3.3), layout="constrained", dpi=130)
    figure.suptitle(title, fontsize=10)
    left, middle, right = figure.subplots(1, 3)
    epoch = table.column("epoch").to_numpy()
    for axes, names in ((left, CURVES), (middle, {"uniformity": "uniformity", "tolerance": "tolerance"})):
        for color, (name, words) in zip(COLORS, names.items(), strict=False):
            values = np.array(table.column(name).to_pylist(), dtype=np.float64)
            axes.plot(epoch, values, color=color, label=words, marker="o", markersize=3, linewidth=1.2)
        axes.set_xlabel("epoch", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize=8, frameon=False)
    left.set_yscale("symlog", linthresh=0.1)
    rows = table.to_pylist()
    for row, style in ((rows[0], ":"), (rows[-1], "-")):
        _histograms(right, row, style)
    right.set_xlabel("cosine of a pair", fontsize=9)
    right.set_yticks([])
    right.legend(fontsize=8, frameon=False)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure


def _histograms(axes: Any, row: dict[str, Any], style: str) -> None:
    for color, name, words in ((COLORS[0], "positive_cosines", "same class"), (COLORS[1], "negative_cosines", "other class")):
        counts = np.array(row[name] or [], dtype=np.float64)
        if counts.sum() > 0:
            edges = np.linspace(-1, 1, len(counts) + 1)
            label = f"{words}, epoch {row['epoch']}"
            axes.stairs(counts / counts.sum(), edges, color=color, linestyle=style, label=label, linewidth=1.2)

"""Accuracy with its interval: groups of samples side by side, and what a subset costs by its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hardsight.render.style import BLUE, COLORS, MARKERS, VERMILION, finished, new_figure, plain
from hardsight.screen import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETTER, WORSE, NEITHER, TOO_FEW = BLUE, VERMILION, "#777777", "#c4c4c4"
LONGEST_NAME = 34
INCH_PER_GROUP = 0.27


@dataclass(frozen=True)
class GroupPanel:
    """One measure of every group: (k,) values and the ends of their intervals, NaN where there is none."""

    title: str
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    overall: float  # of all samples: the line


def groups_with_intervals(names: Sequence[str], counts: np.ndarray, panels: Sequence[GroupPanel], verdicts: np.ndarray) -> Figure:
    """One line per group, from the top; one panel per measure. The larger a group, the larger its point.

    Args:
        names: (k,) of the groups.
        counts: (k,) samples of each.
        panels: the measures, from left to right.
        verdicts: (k,) 1 for worse than the rest, -1 for better, 0 for neither, NaN for too few samples: pale and hollow.
    """
    k = len(names)
    figure = new_figure(10, 1.1 + INCH_PER_GROUP * k)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    place = np.arange(k)
    colors = [
        TOO_FEW if np.isnan(verdict) else WORSE if verdict == 1 else BETTER if verdict == -1 else NEITHER for verdict in verdicts
    ]
    sizes = 8 + 28 * np.sqrt(counts / counts.max())
    for axes, panel in zip(every, panels, strict=True):
        axes.axvline(panel.overall, color="#999999", linewidth=1, linestyle=":")
        axes.hlines(place, panel.low, panel.high, colors=colors, linewidth=1.6)
        faces = ["white" if np.isnan(verdict) else color for verdict, color in zip(verdicts, colors, strict=True)]
        axes.scatter(panel.value, place, s=sizes, c=faces, edgecolors=colors, zorder=3)
        axes.set_title(panel.title, fontsize=9)
        axes.locator_params(axis="x", nbins=4)  # more of small numbers would touch each other
        axes.tick_params(labelsize=8)
    shown = [f"{printable(name, LONGEST_NAME)}  (n = {count:,})" for name, count in zip(names, counts, strict=True)]
    every[0].set_yticks(place, [plain(name) for name in shown])
    every[0].set_ylim(k - 0.4, -0.6)
    return finished(figure)


def cost_figure(table: pa.Table, words: str) -> Figure:
    """Accuracy with its interval over the budget.

    Args:
        table: subset, budget, accuracy, accuracy_low, accuracy_high; the subset `all` is drawn as a line across.
        words: what the accuracy is of.
    """
    from matplotlib.ticker import NullLocator

    figure = new_figure(7.6, 4.2)
    axes = figure.add_subplot()
    column = {name: table.column(name).to_numpy() for name in table.column_names}
    subsets = [name for name in dict.fromkeys(column["subset"].tolist()) if name != "all"]
    for name, color, marker in zip(subsets, COLORS, MARKERS, strict=False):
        mine = column["subset"] == name
        x, y = column["budget"][mine], 100 * column["accuracy"][mine]
        ends = np.abs(np.stack([y - 100 * column["accuracy_low"][mine], 100 * column["accuracy_high"][mine] - y]))
        axes.errorbar(x, y, yerr=ends, color=color, marker=marker, capsize=3, label=name)
    for accuracy, budget in zip(column["accuracy"], column["budget"], strict=True):
        if budget == column["budget"].max():
            axes.axhline(100 * accuracy, color="#7f7f7f", linestyle="--", label=f"all {budget} samples")
    axes.set_xscale("log")
    axes.set_xticks(np.unique(column["budget"][column["subset"] != "all"]), minor=False)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("samples")
    axes.set_ylabel(f"{words} (%)")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return finished(figure, "bars: 95 % intervals")

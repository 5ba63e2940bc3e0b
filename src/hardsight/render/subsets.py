"""What a subset costs: accuracy over the number of samples, a line per way to choose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hardsight.render.style import COLORS, MARKERS, new_figure, state

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    state(figure, "bars: 95 % intervals")
    return figure

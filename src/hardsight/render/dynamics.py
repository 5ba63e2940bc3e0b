"""Curves over the epochs, as in Figures 4 and 9 to 15 of the AVH paper, and neural collapse over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.render.style import COLORS, MARKERS, finished, new_figure
from hardsight.screen import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.dynamics.curves import Curves

MOST_BANDS = 6
FEW = 10  # samples below which a group's mean says little: its line is thin and pale, without a band
WORDS = {
    "norm": "norm of the feature",
    "avh": "AVH",
    "own_angle": "angle to the given class (degrees)",
    "nearest_angle": "angle to the nearest other class (degrees)",
    "confidence": "confidence",
    "correct": "accuracy (%)",
    "loss": "loss",
    "logit_margin": "logit margin",
    "el2n": "EL2N",
}
SCALE = {"correct": 100.0, "own_angle": 180 / np.pi, "nearest_angle": 180 / np.pi}
LIMITS = {
    "norm": (0, np.inf),
    "avh": (0, np.inf),
    "confidence": (0, 1),
    "correct": (0, 100),
    "own_angle": (0, 180),
    "loss": (0, np.inf),
}
COLLAPSE = {"nc1": "NC1", "nc2": "NC2", "nc3": "NC3", "nc4": "NC4 (to 1)"}


def curves_figure(
    curves: Curves, columns: Sequence[str] = ("norm", "avh", "correct"), *, title: str = "", marks: Sequence[Any] = ()
) -> Figure:
    """A panel per column, a line per group with its standard deviation as a band.

    Args:
        curves: from `hardsight.dynamics.curves.read_curves`.
        columns: what to draw, left to right; four are drawn two by two. Accuracy has no band, as in the paper: each sample
            is right or wrong. More than six groups have none either: it would be one gray cloud.
        title: one line on top.
        marks: (group, epoch or step) pairs: a dotted line in the group's color there, in every panel.
    """
    present = curves.present()
    if len(present) > len(COLORS):
        raise InputError(f"{len(present)} groups by {curves.groups.name} are too many to tell apart; draw at most {len(COLORS)}.")
    colors = _colors(len(present), curves.groups.ordered)
    legend = len(curves.groups) > 1
    high, wide = (2, 2) if len(columns) == 4 else (1, len(columns))
    figure = new_figure(4.2 * wide + (2.0 if legend else 0), 2.9 * high + 0.3, dpi=130)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[call-arg, union-attr]
    panels = np.ravel(figure.subplots(high, wide))
    few = {group for group in present if curves.count[group].max() < FEW}
    has_band = set(present) - few if len(present) <= MOST_BANDS else set()
    for panel, name in zip(panels, columns, strict=True):
        _draw_groups(panel, name, curves, colors, few=few, has_band=set() if name == "correct" else has_band)
        for group, time in marks:
            panel.axvline(time, color=colors[present.index(group)], linestyle=":", linewidth=1.4)
        panel.set(xlabel=curves.unit, ylabel=WORDS[name])
        _limit(panel, name)
        panel.locator_params(axis="x", integer=True, nbins=6)
        panel.grid(color="#e5e5e5", linewidth=0.6)
        panel.set_axisbelow(True)
    if legend:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=curves.groups.name, loc="outside right center", frameon=False, fontsize=8.5)
    bands = ["bands: ± one standard deviation over samples"] if has_band and set(columns) != {"correct"} else []
    pale = [f"pale: fewer than {FEW} samples"] if few else []
    figure.suptitle("\n".join(filter(None, [title, *bands, *pale])), fontsize=10)
    return finished(figure)


def _draw_groups(panel: Any, name: str, curves: Curves, colors: list[Any], *, few: set[int], has_band: set[int]) -> None:
    """A line for each group, pale where it has few samples, and a band."""
    present, scale, often = curves.present(), SCALE.get(name, 1.0), max(1, len(curves.moments) // 12)
    for index, group in enumerate(present):
        mean, std = scale * curves.mean[name][group], scale * curves.std[name][group]
        width, opacity = (0.8, 0.4) if group in few else (1.6, 1.0)
        panel.plot(
            curves.times, mean, color=colors[index], marker=MARKERS[index], markersize=4, linewidth=width, alpha=opacity,
            markevery=(index * often // len(present), often), label=_label(curves, group), zorder=3,
        )  # fmt: skip
        if group in has_band:
            pale = 0.14 if len(present) < 3 else 0.09
            panel.fill_between(curves.times, mean - std, mean + std, color=colors[index], alpha=pale, linewidth=0)


def _label(curves: Curves, group: int) -> str:
    return f"{printable(curves.groups.names[group], 24)} (n = {int(curves.count[group].max()):,})"


def _limit(panel: Any, name: str) -> None:
    """No room below zero where there is nothing, and none above what can be; a curve that hardly moves still fills it."""
    low, high = LIMITS.get(name, (-np.inf, np.inf))
    bottom, top = panel.get_ylim()
    panel.set_ylim(max(bottom, low), min(top, 1.02 * high))


def _colors(count: int, ordered: bool) -> list[Any]:
    """Levels of one thing as steps from dark to light, other groups as different colors."""
    if not ordered or count < 3:
        return list(COLORS[:count])
    from matplotlib import colormaps

    return [colormaps["viridis"](shade) for shade in np.linspace(0.0, 0.85, count)]


# Neural collapse


def collapse_figure(table: pa.Table, *, title: str = "") -> Figure:
    """Three panels: NC1 to NC4; uniformity and tolerance; the histograms of the first and the last epoch.

    Args:
        table: rows of one split of `hardsight.dynamics.read_epochs`, those that were measured.
        title: one line on top.
    """
    figure = new_figure(12.6, 3.3, dpi=130)
    figure.suptitle(title, fontsize=10)
    left, middle, right = figure.subplots(1, 3)
    epoch = table.column("epoch").to_numpy()
    for axes, names in ((left, COLLAPSE), (middle, {"uniformity": "uniformity", "tolerance": "tolerance"})):
        for color, (name, words) in zip(COLORS, names.items(), strict=False):
            values = np.array(table.column(name).to_pylist(), dtype=np.float64)
            axes.plot(epoch, values, color=color, label=words, marker="o", markersize=3, linewidth=1.2)
        axes.set_xlabel("epoch", fontsize=9)
        axes.locator_params(axis="x", integer=True)
        axes.legend(fontsize=8, frameon=False)
    left.set_yscale("symlog", linthresh=0.1)
    rows = table.to_pylist()
    for row, style in ((rows[0], ":"), (rows[-1], "-")):
        _histograms(right, row, style)
    right.set_xlabel("cosine of a pair", fontsize=9)
    right.set_yticks([])
    right.legend(fontsize=8, frameon=False)
    for axes in (left, middle, right):
        axes.tick_params(labelsize=8)
    return finished(figure)


def _histograms(axes: Any, row: dict[str, Any], style: str) -> None:
    for color, name, words in ((COLORS[0], "positive_cosines", "same class"), (COLORS[1], "negative_cosines", "other class")):
        counts = np.array(row[name] or [], dtype=np.float64)
        if counts.sum() > 0:
            edges = np.linspace(-1, 1, len(counts) + 1)
            label = f"{words}, epoch {row['epoch']}"
            axes.stairs(counts / counts.sum(), edges, color=color, linestyle=style, label=label, linewidth=1.2)

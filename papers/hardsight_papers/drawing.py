"""Figures over seeds: one dot per seed, and curves with their interval over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.render import COLORS, MARKERS
from hardsight.stats import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = Any  # for annotations of recipes, without importing matplotlib


def panels(count: int, *, width: float = 4.3, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    """An empty figure with so many plots side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained", dpi=120)
    axes = np.atleast_1d(figure.subplots(1, count)).tolist()
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(labelsize=8)
    return figure, axes


def seed_dots(
    axes: Axes, values: Mapping[str, np.ndarray], label: str, title: str = "", *, colors_of: Sequence[str] | None = None
) -> None:
    """A row per name: a faint dot per seed, and the mean with its 95 % interval.

    Panels with different names share `colors_of`, all of their names, so that each name has one color.
    """
    names = list(values if colors_of is None else colors_of)
    for row, (name, each) in enumerate(values.items()):
        mean, color = mean_interval(np.asarray(each, np.float64)), COLORS[names.index(name) % len(COLORS)]
        axes.plot(each, np.full(len(each), row), "o", color=color, alpha=0.3, markersize=4, markeredgewidth=0)
        ends = [[mean.value - mean.low], [mean.high - mean.value]] if np.isfinite(mean.low) else None
        axes.errorbar(mean.value, row, xerr=ends, fmt="D", color=color, markersize=5, capsize=3)
    axes.set_yticks(range(len(values)), list(values))
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_xlabel(label, fontsize=9)
    axes.set_title(title, fontsize=9)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_axisbelow(True)


def seed_dots_figure(
    values: Mapping[str, Mapping[str, np.ndarray]], label: str, *, width: float = 4.3, height: float = 3.3
) -> Figure:
    """A plot per title with the `seed_dots` of its names."""
    figure, axes = panels(len(values), width=width, height=height)
    for each, (title, by_name) in zip(axes, values.items(), strict=True):
        seed_dots(each, by_name, label, title)
    return figure


def seed_curves(
    axes: Axes, x: Sequence[float] | np.ndarray, curves: Mapping[str, np.ndarray], ticks: bool = False, **labels: Any
) -> None:
    """A line per name through the means of (len(x), seeds) values, in the band of their 95 % intervals.

    With `ticks` every x is labeled, instead of the powers of ten of a logarithmic axis.
    """
    for row, (name, values) in enumerate(curves.items()):
        means = [mean_interval(np.asarray(each, np.float64)) for each in values]
        color, marker = COLORS[row % len(COLORS)], MARKERS[row % len(MARKERS)]
        axes.plot(x, [mean.value for mean in means], marker=marker, markersize=4, color=color, linewidth=1.3, label=name)
        if np.isfinite(means[0].low):
            axes.fill_between(
                x, [mean.low for mean in means], [mean.high for mean in means], color=color, alpha=0.15, linewidth=0
            )
    axes.set(**labels)
    if ticks:
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    axes.title.set_fontsize(9)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8)

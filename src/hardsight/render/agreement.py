"""Scores against people: 2-D histograms, quadrants of disagreement with their images, reliability, models and epochs.

The colors of counts are the darker part of viridis: the same order for color-blind eyes and in gray, and a single sample
stands out from the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.render.domains import thumbnails
from hardsight.render.style import BLUE, COLORS, VERMILION, finished, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BINS = 40
FEW = 20  # samples below which a bin says little


def count_colors() -> Colormap:
    """From one sample, three times as dark as the paper by WCAG's contrast, to the most."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.6, 0.0, 256)), "samples")


def score_histograms(
    columns: Sequence[tuple[str, np.ndarray, str]],
    values: np.ndarray | Sequence[np.ndarray],
    *,
    target: str,
    title: str,
    across: int = 4,
) -> Figure:
    """One 2-D histogram per score against the target; the darker, the more samples, on a logarithmic scale.

    The line is the score's median in ten equal parts of the target's range, or at each of its levels.

    Args:
        columns: words for the score's axis, its (n,) values and what to write above it.
        values: (n,) the target; or one such array for each panel.
        target: words for its axis.
        title: one line on top.
        across: panels in a row, at most.
    """
    from matplotlib.colors import LogNorm

    rows = [len(part) for part in np.array_split(np.arange(len(columns)), -(-len(columns) // across))]  # the longer ones first
    figure = new_figure(1.1 + 3.5 * rows[0], 0.5 + 3.2 * len(rows))
    words = f"{title}; the line is the median"
    figure.suptitle(plain(words if rows[0] > 2 else words.replace("; ", ";\n")), fontsize=11 if rows[0] > 1 else 9)
    axes = _filled(figure, rows)
    targets = [values] * len(columns) if isinstance(values, np.ndarray) else list(values)
    grids = [
        np.histogram2d(own, column, bins=[_edges(own), _span(column)])
        for (_, column, _), own in zip(columns, targets, strict=True)
    ]
    most = max(float(grid.max()) for grid, _, _ in grids)
    drawn: Any = None
    for panel, (name, column, words), own, (grid, x, y) in zip(axes, columns, targets, grids, strict=False):
        levels = len(x) - 1
        x_edges = np.arange(levels + 1) if _is_levels(own) else x
        drawn = panel.pcolormesh(
            x_edges, y, np.ma.masked_equal(grid.T, 0), cmap=count_colors(), norm=LogNorm(1, max(most, 2)), rasterized=True
        )
        if _is_levels(own):
            panel.set_xticks(np.arange(levels) + 0.5, [f"{level:g}" for level in np.unique(own)])
        line = _medians(own, column)
        panel.plot(*line, color="white", linewidth=3.5)
        panel.plot(*line, color=VERMILION, linewidth=1.8, marker="o", markersize=3.5, label="median")
        panel.set_title(plain(words), fontsize=9)
        panel.set_xlabel(plain(target), fontsize=8)
        panel.set_ylabel(plain(name), fontsize=8)
    figure.colorbar(drawn, ax=axes, label="samples", shrink=0.8)
    return finished(figure)


def _filled(figure: Figure, rows: Sequence[int]) -> list[Axes]:
    """Panels in rows of these lengths, each row as wide as the figure: no cell is left empty."""
    width = math.lcm(*rows)
    grid = figure.add_gridspec(len(rows), width)
    return [
        figure.add_subplot(grid[row, at * width // count : (at + 1) * width // count])
        for row, count in enumerate(rows)
        for at in range(count)
    ]


def _medians(values: np.ndarray, column: np.ndarray) -> tuple[list[float], list[float]]:
    """Where and how high the line of medians goes; parts with fewer than five samples are left out."""
    if _is_levels(values):
        levels = np.unique(values)
        return [at + 0.5 for at in range(len(levels))], [float(np.median(column[values == level])) for level in levels]
    edges = np.linspace(values.min(), values.max(), 11)
    part = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 9)
    known = [at for at in range(10) if (part == at).sum() >= 5]
    return [float(edges[at] + edges[at + 1]) / 2 for at in known], [float(np.median(column[part == at])) for at in known]


def _is_levels(values: np.ndarray) -> bool:
    """A few distinct values, such as levels of degradation, are columns and not a scale."""
    return len(np.unique(values)) <= 10


def _edges(values: np.ndarray) -> np.ndarray:
    if not _is_levels(values):
        return _span(values)
    levels = np.unique(values)
    middle = (levels[1:] + levels[:-1]) / 2
    return np.concatenate([[levels[0] - 1], middle, [levels[-1] + 1]])


def _span(values: np.ndarray) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def quadrants(
    corners: Mapping[str, Sequence[tuple[Any, str]]], counts: Mapping[str, int], *, title: str, rule: str = ""
) -> Figure:
    """Images of the samples on which people and the model disagree most, and how many samples each quadrant has.

    Args:
        corners: words of a quadrant -> (image, caption) of its clearest samples; an image may be None. One without any is
            only counted.
        counts: words of a quadrant -> how many samples are in it, for all four.
        title: one line on top.
        rule: what easy and hard mean here, below it.
    """
    total = max(1, sum(counts.values()))
    counted = {words: f"{words}: {count} of {total} samples ({100 * count / total:.1f} %)" for words, count in counts.items()}
    empty = [counted[words] for words, shown in corners.items() if not shown]
    groups = {counted[words]: shown for words, shown in corners.items() if shown}
    return thumbnails(groups, "\n".join(line for line in (title, rule, *empty) if line))


def reliability_diagram(curves: Mapping[str, Any], *, title: str) -> Figure:
    """Accuracy against confidence, before and after a temperature; the diagonal is a model that is right about itself.

    Bins of few samples are hollow and without a line.

    Args:
        curves: what to call it -> a `stats.Reliability`.
        title: one line on top.
    """

    figure = new_figure(5.6, 5.2)
    axes, below = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    figure.suptitle(plain(title), fontsize=11)
    axes.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="calibrated")
    styles = ((BLUE, "o", "-"), (VERMILION, "s", "--"))
    for (name, curve), (color, marker, line) in zip(curves.items(), styles, strict=False):
        known = curve.count > 0
        label = f"{name}: ECE {curve.ece:.3f}"
        few = known & (curve.count < FEW)
        enough = known & ~few
        axes.plot(curve.confidence[enough], curve.accuracy[enough], color=color, marker=marker, linestyle=line, label=label)
        axes.plot(curve.confidence[few], curve.accuracy[few], color=color, marker=marker, linestyle="", fillstyle="none")
    width = 1 / len(next(iter(curves.values())).count)
    for at, ((_, curve), (color, _, _)) in enumerate(zip(curves.items(), styles, strict=False)):
        middle = (curve.edges[1:] + curve.edges[:-1]) / 2 + (at - 0.5) * width * 0.4 * (len(curves) > 1)
        below.bar(middle, curve.count / curve.count.sum(), width=width * 0.4, color=color, hatch=None if at == 0 else "///")
    axes.set(ylabel="accuracy of the prediction", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, loc="upper left")
    below.set(xlabel="confidence of the predicted class", ylabel="share of samples")
    return finished(figure)


def over_epochs(rows: Sequence[Mapping[str, Any]], *, target: str, words: Callable[[str], str], level: float = 0.95) -> Figure:
    """Spearman's coefficient of each score over epochs, with its interval (Observation 3); `words` names the scores."""

    figure = new_figure(8.5, 4.2)
    axes = figure.subplots()
    known = [row for row in rows if row["agreement"] is not None]
    names = list(dict.fromkeys(row["score"] for row in known))
    epochs = list(dict.fromkeys(row["model"] for row in rows))
    marks, lines = "osD^vPX*", ("-", "--", "-.", ":")
    for at, (name, color) in enumerate(zip(names, cycle(COLORS), strict=False)):
        mine = [row for row in known if row["score"] == name]
        x = [epochs.index(row["model"]) for row in mine]
        style: dict[str, Any] = {"marker": marks[at % len(marks)], "markersize": 4, "linestyle": lines[at % len(lines)]}
        axes.plot(x, [row["agreement"] for row in mine], color=color, label=plain(words(name)), **style)
        axes.fill_between(x, [row["low"] for row in mine], [row["high"] for row in mine], color=color, alpha=0.15, linewidth=0)
    step = max(1, len(epochs) // 12)
    axes.set_xticks(range(0, len(epochs), step), epochs[::step])
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set(xlabel="epoch", ylabel="agreement (Spearman)", title=plain(f"Agreement with {target} over epochs"))
    if names:
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return finished(figure, f"bands: {100 * level:g} % intervals" if names else "")


def side_by_side(
    rows: Sequence[Mapping[str, Any]], *, target: str, words: Callable[[str], str], level: float = 0.95
) -> Figure | None:
    """Models by accuracy: their mean AVH, and how far scores agree (Observation 4); `words` names the scores.

    A panel without a point is left out, and the figure if there is none: without labels there is no accuracy.
    """

    known = [row for row in rows if row["accuracy"] is not None]
    means = [row for row in known if row["score"] == "avh"]
    compared = [row for row in known if row["agreement"] is not None]
    names = [name for name in ("avh", "confidence") if any(row["score"] == name for row in compared)]
    names = names or list(dict.fromkeys(row["score"] for row in compared))[:2]
    panels = [name for name, shown in (("means", means), ("agreement", names)) if shown]
    if not panels:
        return None
    figure = new_figure(0.4 + 4.3 * len(panels), 3.8)
    axes = dict(zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True))
    for panel in axes.values():
        panel.set_xlabel("accuracy (%)")
        panel.margins(0.25)
    if means:
        for row in means:
            point = 100 * row["accuracy"], row["mean"]
            axes["means"].plot(*point, "o", color=BLUE)
            axes["means"].annotate(f" {plain(row['model'])}", point, fontsize=8, va="bottom")
        axes["means"].set(ylabel=f"mean {words('avh')}", title="Better models have smaller AVH?")
    if names:
        _agreements(axes["agreement"], [row for row in compared if row["score"] in names], names, words)
        axes["agreement"].set(ylabel="agreement (Spearman)", title=plain(f"Agreement with {target}"))
        bars = f"bars: {100 * level:g} % intervals of the bootstrap"
        figure.legend(loc="outside lower center", ncols=2, frameon=False, title=bars, title_fontsize=8)
    return finished(figure)


def _agreements(panel: Axes, rows: Sequence[Mapping[str, Any]], names: Sequence[str], words: Callable[[str], str]) -> None:
    """Agreement of each score by accuracy, with its interval; the last score's points bear the names of the models."""
    for name, color, marker, shift in zip(names, (BLUE, VERMILION), "os", (-0.02, 0.02), strict=False):
        mine = [row for row in rows if row["score"] == name]
        y = np.array([row["agreement"] for row in mine])
        ends = [y - [row["bootstrap_low"] for row in mine], [row["bootstrap_high"] for row in mine] - y]
        x = [100 * row["accuracy"] + shift for row in mine]
        panel.errorbar(x, y, yerr=ends, fmt=marker, color=color, capsize=3, label=plain(words(name)))
    for row in rows:
        if row["score"] == names[-1]:
            top = 100 * row["accuracy"], row["bootstrap_high"]
            panel.annotate(plain(row["model"]), top, xytext=(0, 3), textcoords="offset points", fontsize=8, rotation=35)

"""Scores against people: 2-D histograms, quadrants of disagreement with their images, reliability, models and epochs.

The colour map is cividis, light to dark: the same order for colour-blind eyes and in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "cividis_r"
BLUE, VERMILION = "#0072b2", "#d55e00"
BINS = 40
FEW = 20  # samples below which a bin says little


def histograms(
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
        columns: name of the score, its (n,) values and what to write above it.
        values: (n,) the target; or one such array for each panel.
        target: its name, for the axis.
        title: one line on top.
        across: panels in a row.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    across = min(across, len(columns))
    down = -(-len(columns) // across)
    figure = Figure(figsize=(1.1 + 3.5 * across, 0.5 + 3.2 * down), layout="constrained", dpi=120)
    figure.suptitle(f"{title}; the line is the median", fontsize=11)
    axes = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
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
            x_edges, y, np.ma.masked_equal(grid.T, 0), cmap=COLOURS, norm=LogNorm(1, max(most, 2)), rasterized=True
        )
        if _is_levels(own):
            panel.set_xticks(np.arange(levels) + 0.5, [f"{level:g}" for level in np.unique(own)])
        line = _medians(own, column)
        panel.plot(*line, color="white", linewidth=3.5)
        panel.plot(*line, color=VERMILION, linewidth=1.8, marker="o", markersize=3.5, label="median")
        panel.set_title(words, fontsize=9)
        panel.set(xlabel=target, ylabel=name)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes[len(columns) :]:
        panel.set_visible(False)
    figure.colorbar(drawn, ax=list(axes), label="samples", shrink=0.8)
    return figure


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
    corners: Mapping[str, Sequence[tuple[Any, str]]], counts: Mapping[str, int], *, title: str, across: int = 6
) -> Figure:
    """Images of the samples on which people and the model disagree most, and how many samples each quadrant has.

    Args:
        corners: words of a quadrant -> (image, caption) of its clearest samples; an image may be None.
        counts: words of a quadrant -> how many samples are in it, for all four.
        title: one line on top.
        across: images in a row.
    """
    from matplotlib.figure import Figure

    total = max(1, sum(counts.values()))
    rows = {words: max(1, -(-len(shown) // across)) for words, shown in corners.items()}
    figure = Figure(
        figsize=(1.35 * across, 0.7 + sum(0.4 + 1.65 * count for count in rows.values())), layout="constrained", dpi=120
    )
    parts: Any = figure.subfigures(len(corners), 1, height_ratios=[0.4 + 1.65 * count for count in rows.values()], squeeze=False)
    figure.suptitle(title, fontsize=11)
    for part, (words, shown) in zip(parts[:, 0], corners.items(), strict=True):
        part.suptitle(f"{words}: {counts[words]} of {total} samples ({100 * counts[words] / total:.1f} %)", fontsize=10)
        panels = part.subplots(rows[words], across, squeeze=False).ravel()
        for panel in panels:
            panel.set_axis_off()
        for panel, (image, caption) in zip(panels, shown, strict=False):
            if image is None:
                panel.text(0.5, 0.5, "no image", ha="center", va="center", fontsize=8, transform=panel.transAxes)
            else:
                panel.imshow(image, cmap="gray" if np.ndim(image) == 2 else None, interpolation="nearest")
            panel.set_title(caption, fontsize=7)
    return figure


def reliability_diagram(curves: Mapping[str, Any], *, title: str) -> Figure:
    """Accuracy against confidence, before and after a temperature; the diagonal is a model that is right about itself.

    Bins of few samples are shown faint and without a line.

    Args:
        curves: what to call it -> a `stats.Reliability`.
        title: one line on top.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.2), layout="constrained", dpi=120)
    axes, below = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
    figure.suptitle(title, fontsize=11)
    axes.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="calibrated")
    styles = ((BLUE, "o", "-"), (VERMILION, "s", "--"))
    for (name, curve), (colour, marker, line) in zip(curves.items(), styles, strict=False):
        known = curve.count > 0
        label = f"{name}: ECE {curve.ece:.3f}"
        few = known & (curve.count < FEW)
        enough = known & ~few
        axes.plot(curve.confidence[enough], curve.accuracy[enough], color=colour, marker=marker, linestyle=line, label=label)
        axes.plot(curve.confidence[few], curve.accuracy[few], color=colour, marker=marker, linestyle="", alpha=0.3, markersize=4)
    width = 1 / len(next(iter(curves.values())).count)
    for at, ((_, curve), (colour, _, _)) in enumerate(zip(curves.items(), styles, strict=False)):
        middle = (curve.edges[1:] + curve.edges[:-1]) / 2 + (at - 0.5) * width * 0.4 * (len(curves) > 1)
        below.bar(middle, curve.count / curve.count.sum(), width=width * 0.4, color=colour, hatch=None if at == 0 else "///")
    axes.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, loc="upper left")
    below.set(xlabel="confidence of the predicted class", ylabel="share")
    for panel in (axes, below):
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def over_epochs(rows: Sequence[Mapping[str, Any]], *, target: str) -> Figure:
    """Spearman's coefficient of each score over epochs, with its interval (Observation 3)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained", dpi=120)
    axes = figure.subplots()
    names = list(dict.fromkeys(row["score"] for row in rows))
    epochs = list(dict.fromkeys(row["model"] for row in rows))
    marks, lines = "osD^vPX*", ("-", "--", "-.", ":")
    from matplotlib import colormaps

    for at, name in enumerate(names):
        mine = [row for row in rows if row["score"] == name and row["agreement"] is not None]
        x = [epochs.index(row["model"]) for row in mine]
        colour = colormaps[COLOURS](0.15 + 0.85 * at / max(1, len(names) - 1))
        axes.plot(
            x,
            [row["agreement"] for row in mine],
            color=colour,
            marker=marks[at % len(marks)],
            markersize=4,
            linestyle=lines[at % len(lines)],
            label=name,
        )
        axes.fill_between(x, [row["low"] for row in mine], [row["high"] for row in mine], color=colour, alpha=0.15, linewidth=0)
    step = max(1, len(epochs) // 12)
    axes.set_xticks(range(0, len(epochs), step), epochs[::step])
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.set(xlabel="epoch", ylabel="agreement (Spearman)", title=f"Agreement with {target} over epochs")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def side_by_side(rows: Sequence[Mapping[str, Any]], *, target: str) -> Figure:
    """Models by accuracy: the mean of AVH on the left, agreement of AVH and confidence on the right (Observation 4)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2)
    known = [row for row in rows if row["accuracy"] is not None]
    for row in known:
        if row["score"] == "avh":
            left.plot(100 * row["accuracy"], row["mean"], "o", color=BLUE)
            left.annotate(f" {row['model']}", (100 * row["accuracy"], row["mean"]), fontsize=8, va="bottom")
    for name, colour, marker, shift in (("avh", BLUE, "o", -0.02), ("confidence", VERMILION, "s", 0.02)):
        mine = [row for row in known if row["score"] == name and row["agreement"] is not None]
        right.errorbar(
            [100 * row["accuracy"] + shift for row in mine],
            [row["agreement"] for row in mine],
            yerr=[
                [row["agreement"] - row["bootstrap_low"] for row in mine],
                [row["bootstrap_high"] - row["agreement"] for row in mine],
            ],
            fmt=marker,
            color=colour,
            capsize=3,
            label=name,
        )
    for row in known:
        if row["score"] == "confidence" and row["agreement"] is not None:
            right.annotate(
                f"  {row['model']}",
                (100 * row["accuracy"], row["agreement"]),
                xytext=(8, 0),
                textcoords="offset points",
                fontsize=8,
            )
    left.set(xlabel="accuracy (%)", ylabel="mean AVH", title="Better models have smaller AVH?")
    right.set(xlabel="accuracy (%)", ylabel="agreement (Spearman)", title=f"Agreement with {target}")
    right.legend(frameon=False)
    for panel in (left, right):
        panel.margins(0.25)
        panel.spines[["top", "right"]].set_visible(False)
    return figure

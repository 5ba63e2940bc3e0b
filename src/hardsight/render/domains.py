"""Figures of `adapt` and `generalize`: accuracy by round, by domain and by epoch, and samples in pictures; their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from hardsight.render.style import COLORS, finished, new_figure, plain
from hardsight.screen import Cell, ShownTable, interval

MARKERS = "osD^vPX*"  # eight, for twelve colors: lines of the same color differ in their marker


def accuracy_per_round(
    curves: Mapping[str, np.ndarray], start: np.ndarray, title: str, levels: Mapping[str, float] | None = None
) -> Any:
    """Accuracy against the round, one line per method, with the spread over seeds. Round 0 is the source model.

    Args:
        curves: method -> (seeds, rounds) mean class accuracy after each round.
        start: (seeds,) that of the source model, also a dashed line.
        title: one line on top.
        levels: method -> accuracy of what is trained once, without rounds: dotted lines.
    """
    figure = new_figure(6.4, 4)
    axes = figure.subplots()
    axes.axhline(100 * start.mean(), color="0.5", linestyle="--", linewidth=1, label="source only")
    for (method, level), gray in zip((levels or {}).items(), cycle(("0.1", "0.35", "0.65")), strict=False):
        axes.axhline(100 * level, color=gray, linestyle=":", linewidth=1.3, label=method)
    for (method, values), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        rounds = np.arange(values.shape[1] + 1)
        values = 100 * np.concatenate([start[:, None], values], axis=1)  # (seeds, rounds + 1)
        mean = values.mean(0)
        axes.plot(rounds, mean, marker=marker, markersize=4, color=color, label=method)
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            axes.fill_between(rounds, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    axes.set(xlabel="round", ylabel="mean class accuracy (%)", title=plain(title))
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    spread = len(start) > 1 and curves
    return finished(figure, f"bands: ± one standard deviation over {len(start)} seeds" if spread else "")


def thumbnails(groups: Mapping[str, Sequence[tuple[Any, str]]], title: str) -> Any:
    """Small pictures in rows of six, a caption under each, one group below the other.

    Args:
        groups: what to write above a group -> (image, caption) of its pictures, at least one; an image may be None.
        title: on top.
    """

    heights = [0.4 + 2.05 * -(-len(shown) // 6) for shown in groups.values()]
    figure = new_figure(9, 0.4 + 0.2 * title.count("\n") + sum(heights))
    figure.suptitle(plain(title), fontsize=11 if "\n" not in title else 9)
    parts: Any = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False) if groups else np.empty((0, 1))
    for part, (words, shown) in zip(parts[:, 0], groups.items(), strict=True):
        part.suptitle(plain(words), fontsize=10)
        grid = part.subplots(-(-len(shown) // 6), 6, squeeze=False).ravel()
        for axes in grid:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        for axes, (image, caption) in zip(grid, shown, strict=False):
            if image is None:
                axes.text(0.5, 0.5, "no image", ha="center", va="center", fontsize=8, transform=axes.transAxes)
            else:
                axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")  # a faint picture stays faint
            axes.set_xlabel(plain(caption), fontsize=7)
    return figure


def accuracy_per_domain(reached: Mapping[str, np.ndarray], domains: Sequence[str], title: str) -> Any:
    """A dot for each loss on each unseen domain, with its spread over seeds.

    Args:
        reached: loss -> (seeds, domains) accuracy.
        domains: their names; the last may be an average.
        title: one line on top.
    """

    figure = new_figure(1.6 + 1.3 * len(domains), 4)
    axes = figure.subplots()
    seeds = max(map(len, reached.values()), default=0)
    for number, ((loss, values), color) in enumerate(zip(reached.items(), cycle(COLORS), strict=False)):
        at = np.arange(len(domains)) + 0.5 * ((number + 0.5) / len(reached) - 0.5)
        spread = 100 * values.std(0, ddof=1) if len(values) > 1 else None
        axes.errorbar(at, 100 * values.mean(0), yerr=spread, fmt="o", markersize=5, capsize=3, color=color, label=loss)
    axes.set(ylabel="accuracy (%)", title=title, xticks=np.arange(len(domains)))
    axes.set_xticklabels([plain(name) for name in domains])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return finished(figure, f"bars: ± one standard deviation over {seeds} seeds" if seeds > 1 else "")


def accuracy_per_epoch(curves: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Any:
    """One small plot per unseen domain, one line per loss.

    Args:
        curves: domain -> loss -> (epochs,) accuracy, a mean over seeds.
        title: one line on top.
    """
    figure = new_figure(2.6 * len(curves) + 0.4, 3.2)
    figure.suptitle(title, fontsize=11)
    panels = np.atleast_1d(figure.subplots(1, len(curves)))
    for axes, (domain, losses) in zip(panels, curves.items(), strict=True):
        for (loss, values), color in zip(losses.items(), cycle(COLORS), strict=False):
            axes.plot(np.arange(1, len(values) + 1), 100 * values, marker="o", markersize=2.5, color=color, label=loss)
        axes.set(xlabel="epoch", title=plain(domain))
        axes.locator_params(axis="x", integer=True)
    panels[0].set_ylabel("accuracy (%)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=6)
    return finished(figure)


def shown_differences(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[ShownTable]:
    """The table of differences with intervals, if there are any; `columns` say between what, and where."""
    header = (Cell("points", "difference"), Cell("95 %", "difference"), Cell("", "verdict"))
    cells = [
        (
            *(row[name] for name in columns),
            Cell(f"{100 * row['difference']:+.2f}", row["difference"]),
            interval(row["low"], row["high"], 2, factor=100),
            row["verdict"],
        )
        for row in rows
    ]
    if cells:
        names = ("domains" if name == "pair" else name for name in columns)
        yield ShownTable("differences", (*names, *header), cells, title, len(columns))

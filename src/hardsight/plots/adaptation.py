"""Self-training drawn: accuracy round by round, and the samples one rule selects and the other does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def accuracy_per_round(curves: Mapping[str, np.ndarray], start: float, title: str) -> Any:
    """Accuracy against the round, one line per method, with the spread over seeds.

    Args:
        curves: method -> (seeds, rounds) mean class accuracy after each round.
        start: accuracy of the source model, a dashed line.
        title: one line on top.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.axhline(100 * start, color="0.5", linestyle="--", linewidth=1, label="source only")
    for method, values in curves.items():
        rounds = np.arange(1, values.shape[1] + 1)
        mean = 100 * values.mean(0)
        (line,) = axes.plot(rounds, mean, marker="o", markersize=3, label=method)
        if len(values) > 1:
            spread = 100 * values.std(0, ddof=1)
            axes.fill_between(rounds, mean - spread, mean + spread, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="round", ylabel="mean class accuracy (%)", title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def thumbnails(images: Sequence[Any], captions: Sequence[str], title: str) -> Any:
    """Small pictures in rows of six, a caption under each."""
    from matplotlib.figure import Figure

    rows = max(1, -(-len(images) // 6))
    figure = Figure(figsize=(9, 1.9 * rows + 0.4), layout="constrained", dpi=120)
    figure.suptitle(title, fontsize=11)
    grid = np.atleast_1d(figure.subplots(rows, 6)).ravel()
    for axes in grid:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for axes, image, caption in zip(grid, images, captions, strict=False):
        axes.imshow(image, cmap="gray" if np.ndim(image) == 2 else None)
        axes.set_xlabel(caption, fontsize=7)
    return figure

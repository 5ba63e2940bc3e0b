"""Self-training drawn: accuracy round by round, and the samples one rule selects and the other does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # apart for color-blind eyes


MARKERS = "osD^vPX*"  # of another number than the colors: two lines of one color have two markers


def colors() -> Iterator[str]:
    """A color for each line, again from the first after the last."""
    return cycle(COLORS)


def plain(text: str) -> str:
    """A name that may hold a dollar, which would begin a formula."""
    return text.replace("$", r"\$")


def state(figure: Any, words: str) -> None:
    """Say below a figure what its bands or bars are."""
    figure.supxlabel(words, fontsize=8, color="0.35")


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
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.axhline(100 * start.mean(), color="0.5", linestyle="--", linewidth=1, label="source only")
    for (method, level), gray in zip((levels or {}).items(), cycle(("0.1", "0.35", "0.65")), strict=False):
        axes.axhline(100 * level, color=gray, linestyle=":", linewidth=1.3, label=method)
    for (method, values), color, marker in zip(curves.items(), colors(), cycle(MARKERS), strict=False):
        rounds = np.arange(values.shape[1] + 1)
        values = 100 * np.concatenate([start[:, None], values], axis=1)  # (seeds, rounds + 1)
        mean = values.mean(0)
        axes.plot(rounds, mean, marker=marker, markersize=4, color=color, label=method)
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            axes.fill_between(rounds, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    if len(start) > 1 and curves:
        state(figure, f"bands: ± one standard deviation over {len(start)} seeds")
    axes.set(xlabel="round", ylabel="mean class accuracy (%)", title=plain(title))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def before_and_after(
    images: Sequence[Any],
    captions: Sequence[str],
    accuracy: Sequence[float],
    classes: np.ndarray,
    names: Sequence[str],
    title: str,
) -> Any:
    """Pictures that are read rightly only after self-training, above accuracy by round and by class.

    Args:
        images: (h, w) in [0, 1], at most twelve.
        captions: one under each.
        accuracy: (rounds + 1,) mean class accuracy, that of the source model first.
        classes: (2, c) accuracy by class, before and after.
        names: of the classes.
        title: one line on top.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 5.2), layout="constrained", dpi=120)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1, 1.9])
    top, bottom = parts
    top.suptitle(title, fontsize=11)
    for axes in np.atleast_1d(top.subplots(1, 12)):
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for axes, image, caption in zip(top.axes, images, captions, strict=False):
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
        axes.set_xlabel(caption, fontsize=8)
    left, right = bottom.subplots(1, 2)
    left.plot(np.arange(len(accuracy)), 100 * np.asarray(accuracy), marker="o", color=COLORS[0])
    left.set(xlabel="round of self-training (0: the model that learned clean images)", ylabel="mean class accuracy (%)")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    at, (before, after) = np.arange(len(names)), 100 * classes
    right.vlines(at, before, after, color="0.7", linewidth=2)
    right.plot(at, before, "o", color=COLORS[1], label="before")
    right.plot(at, after, "o", color=COLORS[0], label="after")
    right.set(xticks=at, xlabel="class", ylabel="accuracy (%)")
    right.set_xticklabels(names)
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def thumbnails(groups: Mapping[str, Sequence[tuple[Any, str]]], title: str, marked: Sequence[str] = ()) -> Any:
    """Small pictures in rows of six, a caption under each, one group below the other.

    Args:
        groups: what to write above a group -> (image, caption) of its pictures, at least one.
        title: one line on top.
        marked: groups whose words are in another color.
    """
    from matplotlib.figure import Figure

    heights = [0.4 + 2.05 * -(-len(shown) // 6) for shown in groups.values()]
    figure = Figure(figsize=(9, 0.4 + sum(heights)), layout="constrained", dpi=120)
    figure.suptitle(plain(title), fontsize=11)
    parts: Any = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
    for part, (words, shown) in zip(parts[:, 0], groups.items(), strict=True):
        color = COLORS[1] if words in marked else "black"
        part.suptitle(plain(words), fontsize=10, color=color)
        grid = part.subplots(-(-len(shown) // 6), 6, squeeze=False).ravel()
        for axes in grid:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        for axes, (image, caption) in zip(grid, shown, strict=False):
            axes.imshow(image, cmap="gray" if np.ndim(image) == 2 else None, vmin=0, vmax=255)  # a faint picture stays faint
            axes.set_xlabel(plain(caption), fontsize=7, color=color)
    return figure

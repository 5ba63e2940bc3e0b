"""Features in a plane, a colour for each class (Wan et al., CVPR 2018, figure 1; Chen et al., ICML 2020, figures 2 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.head import Head

INK = "#222222"


def embedding(
    features: np.ndarray,
    labels: np.ndarray,
    *,
    head: Head | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """A scatter of 2-D features with what the head says of them.

    The head's class vectors are drawn as lines from the origin, or as crosses at the means if it is Gaussian; class
    names stand at their ends.

    Args:
        features: (n, 2).
        labels: (n,) classes, -1 for unlabeled (grey).
        head: what predicts from these features.
        class_names: one per class.
        title: one line on top.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), layout="constrained", dpi=120)
    axes = figure.subplots()
    classes = np.unique(labels[labels >= 0])
    c = int(classes.max(initial=-1)) + 1 if head is None else head.num_classes
    colours = colormaps["tab10" if c <= 10 else "tab20" if c <= 20 else "turbo"](
        np.arange(c) if c <= 20 else np.linspace(0, 1, c)
    )
    unlabeled = features[labels < 0]
    axes.scatter(unlabeled[:, 0], unlabeled[:, 1], s=3, c="#bbbbbb", linewidths=0)
    order = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))  # no class on top of all others
    axes.scatter(features[order, 0], features[order, 1], s=4, c=colours[labels[order]], linewidths=0, alpha=0.6)
    low, high = np.percentile(features, 0.1, axis=0), np.percentile(features, 99.9, axis=0)
    reach = float(np.abs(np.stack([low, high])).max()) if len(features) else 1.0
    if head is not None:
        weight = np.asarray(head.weight, np.float64)  # (c, 2)
        if head.kind == "gaussian":
            axes.scatter(weight[:, 0], weight[:, 1], marker="+", s=70, c=INK, linewidths=1.2, zorder=3)
            ends = weight
        else:
            ends = reach * weight / np.linalg.norm(weight, axis=1, keepdims=True)
            for (x, y), colour in zip(ends, colours, strict=True):
                axes.plot([0, x], [0, y], color=colour, linewidth=1.2, zorder=3)
    else:
        ends = np.stack([features[labels == k].mean(0) for k in classes]) if len(classes) else np.zeros((0, 2))
    names = [str(k) for k in range(c)] if class_names is None else list(class_names)
    shown = range(c) if head is not None else classes
    if len(ends) <= 20:
        for k, (x, y) in zip(shown, ends, strict=True):
            axes.text(
                x, y, names[k], fontsize=9, color=INK, ha="center", va="center", zorder=4,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colours[k], "alpha": 0.85},
            )  # fmt: skip
    axes.set_title(title, fontsize=11)
    axes.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    axes.axhline(0, color="#cccccc", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#cccccc", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    return figure

"""Features in a plane, a color for each class (Wan et al., CVPR 2018, figure 1; Chen et al., ICML 2020, figures 2 and 8)."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from hardsight import Head

INK = "#222222"


def embedding_figure(features: np.ndarray, labels: np.ndarray, *, head: Head, title: str) -> Figure:
    """A scatter of 2-D features with what the head says of them.

    The head's class vectors are drawn as lines from the origin, or as crosses at the means if it is Gaussian. Each class
    has its name where the mean of its samples is.

    Args:
        features: (n, 2).
        labels: (n,) classes.
        head: what predicts from these features.
        title: one line on top.
    """
    figure = Figure(figsize=(6, 6), dpi=120, layout="constrained")
    axes = figure.subplots()
    colors = colormaps["tab10"](np.arange(head.num_classes))
    order = np.random.default_rng(0).permutation(len(labels))  # no class on top of all others
    axes.scatter(features[order, 0], features[order, 1], s=4, c=colors[labels[order]], linewidths=0, alpha=0.6)
    weight = np.asarray(head.weight, np.float64)  # (c, 2)
    if head.kind == "gaussian":
        axes.scatter(weight[:, 0], weight[:, 1], marker="+", s=70, c=INK, linewidths=1.2, zorder=3)
    else:
        reach = float(np.percentile(np.linalg.norm(features, axis=1), 99))
        for (x, y), color in zip(reach * weight / np.linalg.norm(weight, axis=1, keepdims=True), colors, strict=True):
            axes.plot([0, x], [0, y], color=color, linewidth=1.2, zorder=3)
    for k in np.unique(labels):
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colors[k], "alpha": 0.85}
        x, y = features[labels == k].mean(0)
        axes.text(x, y, str(k), fontsize=9, color=INK, ha="center", va="center", zorder=4, bbox=box)
    axes.set_title(title, fontsize=11)
    axes.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    axes.axhline(0, color="#cccccc", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#cccccc", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    return figure

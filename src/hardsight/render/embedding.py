"""Features in a plane, a color for each class (Wan et al., CVPR 2018, figure 1; Chen et al., ICML 2020, figures 2 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hardsight.render.style import finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.head import Head

INK = "#222222"


def embedding_figure(
    features: np.ndarray,
    labels: np.ndarray,
    *,
    head: Head | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """A scatter of 2-D features with what the head says of them.

    The head's class vectors are drawn as lines from the origin, or as crosses at the means if it is Gaussian. Each class
    has its name where the mean of its samples is.

    Args:
        features: (n, 2).
        labels: (n,) classes, -1 for unlabeled (gray).
        head: what predicts from these features.
        class_names: one per class.
        title: one line on top.
    """
    from matplotlib import colormaps

    figure = new_figure(6, 6)
    axes = figure.subplots()
    classes = np.unique(labels[labels >= 0])
    c = int(classes.max(initial=-1)) + 1 if head is None else head.num_classes
    colors = colormaps["tab10" if c <= 10 else "tab20" if c <= 20 else "turbo"](np.arange(c) if c <= 20 else np.linspace(0, 1, c))
    unlabeled = features[labels < 0]
    axes.scatter(unlabeled[:, 0], unlabeled[:, 1], s=3, c="#bbbbbb", linewidths=0)
    order = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))  # no class on top of all others
    axes.scatter(features[order, 0], features[order, 1], s=4, c=colors[labels[order]], linewidths=0, alpha=0.6)
    if head is not None:
        weight = np.asarray(head.weight, np.float64)  # (c, 2)
        if head.kind == "gaussian":
            axes.scatter(weight[:, 0], weight[:, 1], marker="+", s=70, c=INK, linewidths=1.2, zorder=3)
        else:
            reach = float(np.percentile(np.linalg.norm(features, axis=1), 99)) if len(features) else 1.0
            for (x, y), color in zip(reach * weight / np.linalg.norm(weight, axis=1, keepdims=True), colors, strict=True):
                axes.plot([0, x], [0, y], color=color, linewidth=1.2, zorder=3)
    if len(classes) <= 20:
        names = [str(k) for k in range(c)] if class_names is None else list(class_names)
        for k in classes:
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colors[k], "alpha": 0.85}
            x, y = features[labels == k].mean(0)
            axes.text(x, y, names[k], fontsize=9, color=INK, ha="center", va="center", zorder=4, bbox=box)
    axes.set_title(title, fontsize=11)
    axes.set(xlabel="first feature", ylabel="second feature", aspect="equal")
    axes.axhline(0, color="#cccccc", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#cccccc", linewidth=0.6, zorder=0)
    return finished(figure)

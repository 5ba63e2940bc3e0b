"""One picture of a scored dataset: its hardest samples, and how the scores spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.render.style import BLUE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIGHT, WRONG = BLUE, VERMILION


def overview(
    images: Sequence[Any],
    captions: Sequence[str],
    *,
    angle: np.ndarray,
    norm: np.ndarray,
    avh: np.ndarray,
    correct: np.ndarray,
    title: str,
    norm_axis: str = "norm of the feature",
) -> Figure:
    """The hardest images with a caption each, above angle against norm and the spread of AVH.

    Args:
        images: (h, w) or (h, w, 3) arrays, hardest first; at most twelve are shown.
        captions: one line under each.
        angle, norm, avh: (n,) scores of all samples.
        correct: (n,) bool, whether the prediction is the given class.
        title: one line on top.
        norm_axis: words for the axis of norms.
    """

    count = min(12, len(images))
    figure = new_figure(10, 5.2 if count else 3.4)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1, 1.9]) if count else (figure.subfigures(1, 1),) * 2
    top, bottom = parts
    top.suptitle(title if count else "", fontsize=11)
    for axes, image, caption in zip(np.atleast_1d(top.subplots(1, count)) if count else (), images, captions, strict=False):
        axes.imshow(image, cmap="gray_r" if np.ndim(image) == 2 else None)
        axes.set_xlabel(caption, fontsize=8)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    left, right = bottom.subplots(1, 2)
    degrees = np.degrees(angle)
    for chosen, color, marker, name in ((correct, RIGHT, "o", "right"), (~correct, WRONG, "x", "wrong")):
        size = 10 if marker == "o" else 28
        left.scatter(degrees[chosen], norm[chosen], s=size, c=color, marker=marker, alpha=0.6 if marker == "o" else 1, label=name)
    left.set(xlabel="angle to the given class (degrees)", ylabel=norm_axis)
    left.legend(title="prediction", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    edges = np.histogram_bin_edges(avh[np.isfinite(avh)], bins=40)
    right.hist([avh[correct], avh[~correct]], bins=edges, stacked=True, color=[RIGHT, WRONG], label=["right", "wrong"])
    right.set(xlabel="AVH (harder to the right)", ylabel="samples")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure

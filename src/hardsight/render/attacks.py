"""Attacked inputs in pictures: error by epsilon, ROC curves, histograms, and paths in angle and norm.

The histograms are those of Figures 3 and 4 of Wan et al., CVPR 2018; the paths that of Figure 22 of Chen et al., ICML 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.render.style import BLUE, COLORS, VERMILION, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLEAN, ATTACKED = BLUE, VERMILION
LINES = ("-", "--", "-.", ":")
MOST_INSIDE = 5  # curves whose names fit into the corner of a plot
FAR = 4.0  # interquartile ranges: values farther out than this are in the outermost bins


def error_curves(curves: Mapping[str, Sequence[tuple[float, float, float, float]]], *, title: str = "") -> Figure:
    """Error against epsilon, a line each with its interval as a band.

    Args:
        curves: name -> (epsilon, error, low, high) in rising order of epsilon, as shares.
    """

    figure = new_figure(6.4, 3.6, dpi=130)
    axes = figure.subplots()
    for (name, points), color, marker in zip(curves.items(), COLORS, "osD^vPX*", strict=False):
        epsilon, error, low, high = np.array(points, np.float64).T
        axes.plot(epsilon, 100 * error, color=color, marker=marker, label=name)
        axes.fill_between(epsilon, 100 * low, 100 * high, color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="epsilon (pixels of 0 to 1)", ylabel="error (%)", ylim=(0, 100))
    axes.set_title(title, fontsize=11)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return finished(figure, "bands: 95 % intervals")


def roc_curves(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], *, title: str = "") -> Figure:
    """ROC curves: share of attacked inputs that are rejected, against the share of clean ones.

    Args:
        curves: name -> (share of clean, share of attacked inputs rejected).
    """

    many = len(curves) > MOST_INSIDE
    figure = new_figure(7.2 if many else 4.8, 4.6, dpi=130)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=0.8)
    for at, (name, (clean, attacked)) in enumerate(curves.items()):
        turn, color = divmod(at, len(COLORS))  # a color comes again with another line
        axes.plot(clean, attacked, color=COLORS[color], linestyle=LINES[(color + turn) % len(LINES)], label=name)
    axes.set(xlabel="clean inputs rejected", ylabel="attacked inputs rejected", xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    axes.set_title(title, fontsize=11)
    if many:
        figure.legend(frameon=False, loc="outside right center", fontsize=9)
    else:
        axes.legend(frameon=False, loc="lower right", fontsize=9)
    return finished(figure)


def histograms(panels: Mapping[str, Mapping[str, np.ndarray]], *, title: str = "", share: bool = True) -> Figure:
    """A panel per quantity, a histogram per kind of input over the same bins.

    The bins cover nearly all values; what lies far out is counted in the outer bins, or it would leave one bin for all others.

    Args:
        panels: name of the quantity -> name of the inputs -> (n,) values.
        share: of the inputs in each bin instead of their number.
    """

    alike = len({tuple(kinds) for kinds in panels.values()}) == 1  # one legend will do
    figure = new_figure(4.0 * len(panels) + 0.4, 3.2, dpi=130)
    for axes, (name, kinds) in zip(np.atleast_1d(np.asarray(figure.subplots(1, len(panels)))), panels.items(), strict=True):
        values = {kind: x[np.isfinite(x)] for kind, x in kinds.items()}
        everything = np.concatenate(list(values.values()))
        edges = _edges(everything, min((len(x) for x in values.values()), default=0))
        for (kind, x), color in zip(values.items(), cycle(COLORS), strict=False):
            weights = np.full(len(x), 1 / max(1, len(x))) if share else None
            inside = np.clip(x, edges[0], edges[-1])
            axes.hist(inside, edges, weights=weights, color=color, alpha=0.25, histtype="stepfilled")
            axes.hist(inside, edges, weights=weights, color=color, histtype="step", linewidth=1.3, label=kind)
        axes.set(xlabel=name, ylabel="share of inputs" if share else "inputs")
        if not alike:
            axes.legend(frameon=False, fontsize=8)
    if alike:
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, frameon=False, fontsize=8, loc="outside lower center", ncols=min(8, len(names)))
    figure.suptitle(title, fontsize=11)
    return finished(figure)


def _edges(values: np.ndarray, samples: int) -> np.ndarray:
    """Ends of up to 40 bins, fewer for few samples of a kind. Of shares, of which most may be 1, nothing is far out."""
    count = int(np.clip(2 * np.sqrt(samples), 8, 40)) + 1
    if not len(values):
        return np.linspace(0.0, 1.0, count)
    low, first, third, high = np.percentile(values, [0.2, 25, 75, 99.8])
    if third > first and (values.min() < 0 or values.max() > 1):
        low, high = max(low, first - FAR * (third - first)), min(high, third + FAR * (third - first))
    return np.linspace(low, high if high > low else low + 1, count)


def trajectories(path: Mapping[str, np.ndarray], *, title: str = "") -> Figure:
    """One path as a line in the plane of angle and norm, and the medians of all of them by epsilon.

    Args:
        path: (n, steps + 1) arrays: own_angle, other_angle (radians), norm, epsilon, predicted and label.
    """

    figure = new_figure(11.5, 3.9, dpi=130)
    figure.suptitle(title, fontsize=11)
    polar: Any = figure.add_subplot(1, 3, 1, projection="polar")
    norm_axes, angle_axes = figure.add_subplot(1, 3, 2), figure.add_subplot(1, 3, 3)
    away = path["predicted"] != path["label"]
    switched = np.flatnonzero(away.any(1) & ~away[:, 0])
    rows = switched if len(switched) else np.arange(len(away))
    _draw_one(polar, {name: x[rows[0]] for name, x in path.items()}, away[rows[0]])
    epsilon = path["epsilon"][0]
    _draw_many(norm_axes, epsilon, {"norm": path["norm"][rows] / path["norm"][rows, :1]})
    norm_axes.set(ylabel="norm, as a share of the clean one")
    angles = {"to its own class": path["own_angle"][rows], "to the class it turns to": path["other_angle"][rows]}
    _draw_many(angle_axes, epsilon, {name: np.degrees(x) for name, x in angles.items()})
    angle_axes.set(ylabel="angle (degrees)")
    angle_axes.legend(frameon=False, fontsize=9)
    norm_axes.set_title(f"{len(rows)} samples {'that change class' if len(switched) else 'followed'}: medians", fontsize=9)
    return finished(figure, "bands: from the lower to the upper quartile of the samples")


def _draw_one(axes: Any, path: Mapping[str, np.ndarray], away: np.ndarray) -> None:
    """A path in polar coordinates: 0 degrees is the class vector of the own class, the radius is the norm."""
    angle, norm = path["own_angle"], path["norm"]
    axes.plot(angle, norm, color="#762a83", linewidth=1.2, zorder=2)
    axes.scatter(angle[~away], norm[~away], s=14, color=CLEAN, zorder=3, label="own class")
    axes.scatter(angle[away], norm[away], s=18, color=ATTACKED, marker="X", zorder=3, label="another class")
    axes.set_thetamin(0)
    axes.set_thetamax(180 if np.degrees(angle.max()) > 90 else 90)
    axes.set_rlim(0, 1.1 * norm.max())
    axes.tick_params(labelsize=7)
    axes.set_title("one sample: angle to its class, norm", fontsize=9)
    axes.legend(
        frameon=False, fontsize=7, title="predicted", title_fontsize=7, loc="upper center", ncol=2, bbox_to_anchor=(0.5, -0.08)
    )


def _draw_many(axes: Axes, epsilon: np.ndarray, curves: Mapping[str, np.ndarray]) -> None:
    for (name, values), color in zip(curves.items(), COLORS, strict=False):
        low, middle, high = np.percentile(values, [25, 50, 75], axis=0)  # (steps + 1,) each
        axes.plot(epsilon, middle, color=color, label=name)
        axes.fill_between(epsilon, low, high, color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="epsilon (pixels of 0 to 1)")
    axes.set_ylim(bottom=0)

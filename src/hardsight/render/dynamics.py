"""Curves over the epochs, as in Figures 4 and 9 to 15 of the AVH paper: a panel per quantity, a line per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.dynamics.curves import Curves

# Apart for color-blind eyes (Okabe and Ito); yellow is left out, it cannot be seen on white.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
    *("#000000", "#7f7f7f", "#8c510a", "#762a83", "#1b7837", "#b2182b"),
)
MOST_BANDS = 6
FEW = 10  # samples below which a group's mean says little: its line is thin and pale, without a band
MARKERS = "osD^vP*X<>ph"
WORDS = {
    "norm": "norm of the feature",
    "avh": "AVH",
    "own_angle": "angle to the given class (degrees)",
    "nearest_angle": "angle to the nearest other class (degrees)",
    "confidence": "confidence",
    "correct": "accuracy (%)",
    "loss": "loss",
    "logit_margin": "logit margin",
    "el2n": "EL2N",
}
SCALE = {"correct": 100.0, "own_angle": 180 / np.pi, "nearest_angle": 180 / np.pi}
LIMITS = {
    "norm": (0, None),
    "avh": (0, None),
    "confidence": (0, 1),
    "correct": (0, 100),
    "own_angle": (0, 180),
    "loss": (0, None),
}


def curves_figure(
    curves: Curves, columns: Sequence[str] = ("norm", "avh", "correct"), *, title: str = "", marks: Sequence[Any] = ()
) -> Figure:
    """A panel per column, a line per group with its standard deviation as a band.

    Args:
        curves: from `hardsight.dynamics.curves.read_curves`.
        columns: what to draw, left to right; four are drawn two by two. Accuracy has no band, as in the paper: each sample
            is right or wrong. More than six groups have none either: it would be one gray cloud.
        title: one line on top.
        marks: (group, epoch or step) pairs: a dotted line in the group's color there, in every panel.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    present = curves.present()
    if len(present) > len(COLORS):
        raise InputError(f"{len(present)} groups by {curves.groups.name} are too many to tell apart; draw at most {len(COLORS)}.")
    colors = _colors(len(present), curves.groups.ordered)
    legend = len(curves.groups) > 1
    high, wide = (2, 2) if len(columns) == 4 else (1, len(columns))
    figure = Figure(figsize=(4.2 * wide + (2.0 if legend else 0), 2.9 * high + 0.3), layout="constrained", dpi=130)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[call-arg, union-attr]
    panels = np.ravel(figure.subplots(high, wide))
    often, banded = max(1, len(curves.moments) // 12), False
    for panel, name in zip(panels, columns, strict=True):
        scale = SCALE.get(name, 1.0)
        for index, group in enumerate(present):
            mean, std = scale * curves.mean[name][group], scale * curves.std[name][group]
            few = curves.count[group].max() < FEW
            panel.plot(
                curves.times, mean, color=colors[index], marker=MARKERS[index], markersize=4,
                linewidth=0.8 if few else 1.6, alpha=0.4 if few else 1.0,
                markevery=(index * often // max(1, len(present)), often), label=_label(curves, group), zorder=3,
            )  # fmt: skip
            if name != "correct" and len(present) <= MOST_BANDS and not few:
                banded = True
                panel.fill_between(
                    curves.times,
                    mean - std,
                    mean + std,
                    color=colors[index],
                    alpha=0.14 if len(present) < 3 else 0.09,
                    linewidth=0,
                )
        for group, time in marks:
            panel.axvline(time, color=colors[present.index(group)], linestyle=":", linewidth=1.4)
        panel.set(xlabel=curves.unit, ylabel=WORDS[name])
        _limit(panel, name, curves)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        panel.grid(color="#e5e5e5", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    if legend:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=curves.groups.name, loc="outside right center", frameon=False, fontsize=8.5)
    bands = ["bands: ± one standard deviation over samples"] if banded else []
    pale = [f"pale: fewer than {FEW} samples"] if any(curves.count[group].max() < FEW for group in present) else []
    figure.suptitle("\n".join(filter(None, [title, *bands, *pale])), fontsize=10)
    return figure


def _label(curves: Curves, group: int) -> str:
    name = curves.groups.names[group]
    name = name if len(name) <= 24 else name[:23] + "…"
    return f"{name} (n = {int(curves.count[group].max()):,})"


def _limit(panel: Any, name: str, curves: Curves) -> None:
    """No room below zero where there is nothing, and none above what can be; a curve that hardly moves still fills it."""
    low, high = LIMITS.get(name, (None, None))
    bottom, top = panel.get_ylim()
    if low is not None and bottom < low:
        panel.set_ylim(bottom=low)
    if high is not None and top > high:
        panel.set_ylim(top=high * 1.02)


def _colors(count: int, ordered: bool) -> list[Any]:
    """Levels of one thing as steps from dark to light, other groups as different colors."""
    if not ordered or count < 3:
        return list(COLORS[:count])
    from matplotlib import colormaps

    return [colormaps["viridis"](shade) for shade in np.linspace(0.0, 0.85, count)]

"""What the figures share: a palette that color-blind readers can tell apart, markers, and text that is no formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors without yellow, which cannot be seen on white; then six more.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"),
    *("#000000", "#7f7f7f", "#8c510a", "#762a83", "#1b7837", "#b2182b"),
)
BLUE, VERMILION = COLORS[:2]
MARKERS = "osD^vP*X<>ph"


def new_figure(width: float, height: float, dpi: int = 120) -> Figure:
    """An empty figure, in inches. matplotlib is slow to import, so this is done here and not with the module."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=dpi)


def plain(text: str) -> str:
    """Text in which a dollar sign does not begin a formula."""
    return text.replace("$", r"\$")


def finished(figure: Figure, words: str = "") -> Figure:
    """The figure without the frame at the top and the right of its panels; `words` below say what bands or bars are."""
    for axes in figure.axes:
        if "top" in axes.spines:  # not those of polar axes
            axes.spines[["top", "right"]].set_visible(False)
    if words:
        figure.supxlabel(words, fontsize=8, color="0.35")
    return figure

"""Leave-one-domain-out drawn: accuracy on each unseen domain, and epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardsight.render.adaptation import colors, plain, state


def accuracy_per_domain(reached: Mapping[str, np.ndarray], domains: Sequence[str], title: str) -> Any:
    """A dot for each loss on each unseen domain, with its spread over seeds.

    Args:
        reached: loss -> (seeds, domains) accuracy.
        domains: their names; the last may be an average.
        title: one line on top.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 1.3 * len(domains), 4), layout="constrained", dpi=120)
    axes = figure.subplots()
    seeds = max(map(len, reached.values()), default=0)
    for number, ((loss, values), color) in enumerate(zip(reached.items(), colors(), strict=False)):
        at = np.arange(len(domains)) + 0.5 * ((number + 0.5) / len(reached) - 0.5)
        spread = 100 * values.std(0, ddof=1) if len(values) > 1 else None
        axes.errorbar(at, 100 * values.mean(0), yerr=spread, fmt="o", markersize=5, capsize=3, color=color, label=loss)
    if seeds > 1:
        state(figure, f"bars: ± one standard deviation over {seeds} seeds")
    axes.set(ylabel="accuracy (%)", title=title, xticks=np.arange(len(domains)))
    axes.set_xticklabels([plain(name) for name in domains])
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def accuracy_per_epoch(curves: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Any:
    """One small plot per unseen domain, one line per loss.

    Args:
        curves: domain -> loss -> (epochs,) accuracy, a mean over seeds.
        title: one line on top.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(2.6 * len(curves) + 0.4, 3.2), layout="constrained", dpi=120)
    figure.suptitle(title, fontsize=11)
    panels = np.atleast_1d(figure.subplots(1, len(curves)))
    for axes, (domain, losses) in zip(panels, curves.items(), strict=True):
        for (loss, values), color in zip(losses.items(), colors(), strict=False):
            axes.plot(np.arange(1, len(values) + 1), 100 * values, marker="o", markersize=2.5, color=color, label=loss)
        axes.set(xlabel="epoch", title=plain(domain))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy (%)")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=6)
    return figure

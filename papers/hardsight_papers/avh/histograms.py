"""Figures 5 and 16 to 18: scores against people, and AVH against levels of noise and contrast, as 2-D histograms."""

from __future__ import annotations

import numpy as np

from hardsight.render import score_histograms
from hardsight.stats import wilson
from hardsight_papers.avh.panels import CONTRAST, NOISE, Panel, compared, degraded_panels, panels, selection, total
from hardsight_papers.avh.table1 import correlates
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.verdicts import Effect, over

NEEDS, IMAGES = "ImageNet 5k with votes, CIFAR-10H", "ImageNet 5k, CIFAR-10"
MEDIUM, EXTREME = (0.3, 0.7), (0.1, 0.9)  # frequencies in the middle, and confidences at the ends


@recipe("avh/fig5", "Human selection frequency against AVH, model confidence and norm", needs=NEEDS)
def figure_5(context: Context) -> Outcome:
    """Three histograms for the best network of each panel; the density at medium frequency as a number, for all of them."""
    shown = panels(context)
    return Outcome(
        about="The most accurate network on each set of images: "
        + "; ".join(f"{panel.best} on {panel.name}" for panel in shown)
        + f". {selection(shown)}",
        figures={panel.name: _three(panel, panel.best) for panel in shown},
        claims=[_medium(panel) for panel in shown if panel.by_people],
    )


def _three(panel: Panel, network: str) -> Figure:
    table = panel.tables[network]
    scaled = table["avh"].to_numpy()
    scaled = (scaled - scaled.min()) / np.ptp(scaled)  # the paper scales AVH to [0, 1]
    columns = [("AVH, scaled to [0, 1]", scaled, ""), ("model confidence", table["confidence"].to_numpy(), "")]
    columns.append(("norm within its class", table["norm_in_class"].to_numpy(), ""))
    return score_histograms(columns, panel.target, target=panel.axis, title=f"{network}, {panel.name}")


def _medium(panel: Panel) -> Claim:
    """Confidence of images that about half of the people choose, for every network."""
    inside = (panel.target >= MEDIUM[0]) & (panel.target <= MEDIUM[1])
    effects, found = [], []
    for network, table in panel.tables.items():
        confidence = table["confidence"].to_numpy()[inside]
        low, high = int((confidence < EXTREME[0]).sum()), int((confidence > EXTREME[1]).sum())
        effects += [_beyond_even(f"{network}, {name}", k, len(confidence)) for name, k in (("below", low), ("above", high))]
        found.append(
            f"{network} {100 * low / max(1, len(confidence)):.1f} % below, {100 * high / max(1, len(confidence)):.1f} % above"
        )
    return claim(
        f"Where people are divided, model confidence is often either extremely low or extremely high. {panel.name}.",
        rule=f"Of images with a frequency of {MEDIUM[0]} to {MEDIUM[1]}, more than the 10 % of an even spread have a confidence "
        f"below {EXTREME[0]}, and more than 10 % one above {EXTREME[1]}, for every network.",
        effects=effects,
        found=f"Of {inside.sum():,} images among {len(inside):,}: {'; '.join(found)}.",
    )


def _beyond_even(name: str, count: int, n: int) -> Effect:
    """The share of n images at one end of the confidences, over the 10 % of an even spread, with Wilson's interval."""
    return over(EXTREME[0], count / max(1, n), *wilson(count, n), name=name, n=n)


@recipe("avh/fig16", "Human selection frequency against AVH for every network", needs=NEEDS)
def figure_16(context: Context) -> Outcome:
    """One histogram per network."""
    shown = panels(context)
    return Outcome(
        about=f"AVH of every network on each set of images, with Spearman's coefficient above. {selection(shown)}",
        figures={panel.name: _every_network(panel, _coefficients(context, panel)) for panel in shown},
        claims=[
            correlates(panel, compared(context, panel)["table1"], "avh", "AVH's correlation with people holds for all models")
            for panel in shown
            if panel.by_people
        ],
    )


def _coefficients(context: Context, panel: Panel) -> dict[str, float]:
    rows = compared(context, panel)["table1"]
    return {network: total(rows, network, "avh")["agreement"] for network in panel.tables}


def _every_network(panel: Panel, coefficients: dict[str, float]) -> Figure:
    columns = [
        ("AVH", table["avh"].to_numpy(), f"{network}: Spearman {coefficients[network]:.3f}")
        for network, table in panel.tables.items()
    ]
    return score_histograms(columns, panel.target, target=panel.axis, title=panel.name)


@recipe("avh/fig17", "Levels of noise against AVH", printed={"levels": [0.4, 0.3, 0.2, 0.1, 0.0]}, needs=IMAGES)
def figure_17(context: Context) -> Outcome:
    """AVH of the same images at five levels of uniform pixel noise."""
    return _degraded(context, NOISE, "The more noise, the higher AVH.", more_is_hard=True)


@recipe("avh/fig18", "Levels of contrast against AVH", printed={"levels": [0.1, 0.2, 0.3, 0.6, 1.0]}, needs=IMAGES)
def figure_18(context: Context) -> Outcome:
    """AVH of the same images at five levels of contrast."""
    return _degraded(context, CONTRAST, "The less contrast, the higher AVH.", more_is_hard=False)


def _degraded(context: Context, degradation: str, sentence: str, more_is_hard: bool) -> Outcome:
    shown = degraded_panels(context, degradation)
    rows: list[list[Value]] = []
    monotone, coefficients = [], []
    for panel in shown:
        for network, table in panel.tables.items():
            avh, levels = table["avh"].to_numpy(), np.unique(panel.target)
            medians = [float(np.median(avh[panel.target == level])) for level in levels]
            monotone.append(medians == sorted(medians, reverse=not more_is_hard))
            coefficients.append(_coefficients(context, panel)[network])
            rows.append([network, coefficients[-1], *medians])
    header = ("network", "Spearman", *(f"median at {level:g}" for level in np.unique(shown[0].target)))
    return Outcome(
        about="; ".join(panel.name for panel in shown) + ".",
        tables=[Table("AVH by level", header, rows, digits=4)],
        figures={panel.name: _every_network(panel, _coefficients(context, panel)) for panel in shown},
        claims=[
            claim(
                sentence,
                rule="The median of AVH changes in that direction from each level to the next, for every network.",
                holds=all(monotone),
                found=f"{sum(monotone)} of {len(monotone)} networks; Spearman {', '.join(f'{r:.3f}' for r in coefficients)}.",
            )
        ],
    )

"""The figures of an attack, from its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hardsight.attacks.detection import attacks_of, detected, roc_curve
from hardsight.attacks.trajectory import paths
from hardsight.render import attacks as plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HISTOGRAMS = {
    "AVH of the given class": "avh",
    "norm of the feature": "norm",
    "confidence of the prediction": "predicted_confidence",
    "log-likelihood": "likelihood",
}


def attack_figures(table: pa.Table, by_epsilon: pa.Table, trajectories: pa.Table) -> dict[str, Figure]:
    """error, roc, histograms and, where paths were traced, trajectory."""
    figures = {"error": error_figure(by_epsilon), "roc": roc_figure(table), "histograms": histogram_figure(table)}
    if len(trajectories):
        figures["trajectory"] = plots.trajectories(paths(trajectories), title="gradient ascent away from the given class")
    return figures


def error_figure(by_epsilon: pa.Table) -> Figure:
    """Error by epsilon, a line per method."""
    rows = by_epsilon.to_pylist()
    methods = dict.fromkeys(row["method"] for row in rows if row["method"] != "clean")
    points = {
        method.upper(): [
            (row["epsilon"], row["error"], row["low"], row["high"]) for row in rows if row["method"] in ("clean", method)
        ]
        for method in methods
    }
    return plots.error_curves(points, title=f"error of {rows[0]['n']:,} attacked images")


def roc_figure(table: pa.Table) -> Figure:
    """ROC of the loss's own score, a curve per attack."""
    curves = {}
    for attack in attacks_of(table):
        clean, attacked = attack.clean["score"], attack.attacked["score"]
        area = detected(clean, attacked, np.ones(len(clean), bool))
        value = "" if area is None else f", AUROC {area.value:.3f}"
        curves[f"{attack.method.upper()} {attack.epsilon:.3g}{value}"] = roc_curve(clean, attacked)
    return plots.roc_curves(curves, title="attacked inputs by the loss's own score")


def histogram_figure(table: pa.Table) -> Figure:
    """AVH, norm, confidence and likelihood of clean inputs and of those of the first method, by epsilon."""
    first: str | None = None
    panels: dict[str, dict[str, np.ndarray]] = {name: {} for name in HISTOGRAMS}
    for attack in attacks_of(table):
        first = first or attack.method
        if attack.method != first:
            continue
        for name, column in HISTOGRAMS.items():
            panels[name].setdefault("clean", attack.clean[column].astype(np.float64))
            panels[name][f"{attack.method.upper()} {attack.epsilon:.3g}"] = attack.attacked[column].astype(np.float64)
    return plots.histograms(panels, title="clean and attacked inputs")

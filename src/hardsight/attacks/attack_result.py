"""The result of an attack: what it says of errors, detectors and paths, and its figures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hardsight.attacks.tables import MEDIANS, attacks_of, detected, paths, roc_curve
from hardsight.files.run import read_manifest
from hardsight.render import attacks as plots
from hardsight.result import RunResult
from hardsight.screen import Cell, Sentence, ShownTable, line, number, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HISTOGRAMS = {
    "AVH of the given class": "avh",
    "norm of the feature": "norm",
    "confidence of the prediction": "predicted_confidence",
    "log-likelihood": "likelihood",
}


class Attack(RunResult):
    """A finished attack.

    Attributes:
        table: a row per image and attack, clean ones first.
        by_epsilon: a row per attack: error, its interval, and medians of the scores.
        detection: a row per attack, kind of inputs and detector: AUROC and its interval.
        trajectories: a row per followed sample and step.
        counts: images, the verification score in words, and what the paths have in common; the summary.
        notes: what was found in the images, one sentence each.
    """

    files = ("attack", "epsilons", "detection", "trajectories")
    counted = "method"
    epsilons: pa.Table
    detection: pa.Table
    trajectories: pa.Table

    def __init__(
        self, run: str | os.PathLike[str], tables: Mapping[str, pa.Table] | None = None, notes: Iterable[str] = (),
        counts: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(run, tables, notes)
        self.counts = read_manifest(self.run)["counts"] if counts is None else counts

    @property
    def by_epsilon(self) -> pa.Table:
        """epsilons.parquet."""
        return self.epsilons

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """Errors by epsilon, how well detectors do, and what the paths have in common."""
        n, score, gaussians = (self.counts[name] for name in ("images", "score", "gaussians"))
        yield line(f"n = {n}   score: {score}   Gaussians of {gaussians}", **self.counts)
        yield self._errors()
        yield self._detectors()
        yield line(_path_words(self.counts["trajectories"]))

    def _errors(self) -> ShownTable:
        rows = []
        for row in self.epsilons.to_pylist():
            error = Cell(f"{percent(row['error'])} [{percent(row['low'])}, {percent(row['high'])}]", _ends(row, "error"))
            rows.append((row["method"], number(float(row["epsilon"])), error, *(number(row[name]) for name in MEDIANS)))
        header = ("attack", "epsilon", Cell("error % [95 %]", "error"), *MEDIANS)
        return ShownTable("epsilons", header, rows, "error, and medians of the scores")

    def _detectors(self) -> ShownTable:
        areas: dict[tuple[str, Cell, str], dict[str, Cell]] = {}
        for row in self.detection.to_pylist():
            text = "–" if row["auroc"] is None else f"{row['auroc']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            by_detector = areas.setdefault((row["method"], number(float(row["epsilon"])), row["inputs"]), {})
            by_detector[row["detector"]] = Cell(text, _ends(row, "auroc"))
        names = list(dict.fromkeys(name for by_detector in areas.values() for name in by_detector))
        rows = [(*key, *(by_detector[name] for name in names)) for key, by_detector in areas.items()]
        title = "AUROC of attacked against clean inputs [95 %]"
        return ShownTable("detection", ("attack", "epsilon", "inputs", *names), rows, title, 3)

    def figures(self) -> dict[str, Figure]:
        """error, roc, histograms and, where paths were traced, trajectory."""
        table = self.table
        figures = {"error": error_figure(self.epsilons), "roc": roc_figure(table), "histograms": histogram_figure(table)}
        if len(self.trajectories):
            title = "gradient ascent away from the given class"
            figures["trajectory"] = plots.trajectories(paths(self.trajectories), title=title)
        return figures


def _ends(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"": row[name], "low": row["low"], "high": row["high"]}


def _path_words(path: Mapping[str, Any]) -> str:
    if not path["switched"]:
        return f"paths: none of {path['followed']} samples changes class" if path["followed"] else "paths: none followed"
    return (
        f"paths: {path['switched']} of {path['followed']} samples change class; at that step the median norm is "
        f"{path['norm_at_switch']:.2f} of the clean one and the angle to the class {path['own_angle_at_switch']:.0f} degrees, "
        f"from {path['own_angle']:.0f}; {100 * path['shrink_first']:.0f} % shrink before they turn"
    )


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

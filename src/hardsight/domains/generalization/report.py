"""The report of a comparison on unseen domains: tables, figures, and one page with both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from hardsight.domains.generalization.tables import AVERAGE, Results, accuracy_table, difference_table, epoch_table
from hardsight.domains.run_directory import INTERVALS, over_seeds, write_page, write_tables
from hardsight.files.run import Run
from hardsight.render import html_page
from hardsight.render.domains import accuracy_per_domain, accuracy_per_epoch
from hardsight.render.saving import save_figure
from hardsight.screen import percent

RULES = {
    "validation": "The selected epoch is the best on held-out samples of the training domains; the unseen domain is not used.",
    "last": "The last epoch is the result.",
    "oracle": "ORACLE: the epoch was selected by the labels of the unseen domain, which nobody has; no honest result.",
}


def write_report(run: Run, results: Results) -> list[Path]:
    """accuracy, differences and epochs as Parquet, figures/, and report.html."""
    tables = {"accuracy": accuracy_table(results), "differences": difference_table(results), "epochs": epoch_table(results)}
    written = write_tables(run, tables)
    columns = [*results.domains, AVERAGE]
    reached = {loss: np.stack([results.reached(loss, column) for column in columns], axis=1) for loss in results.losses}
    by_epoch = {
        domain: {
            loss: _mean_curve([[entry["test"] for entry in results.epochs[loss, domain, seed]] for seed in results.seeds])
            for loss in results.losses
        }
        for domain in results.domains
    }
    title, folder = "Accuracy on the domain that was left out", run.folder("figures")
    figures = save_figure(accuracy_per_domain(reached, columns, title), folder / "accuracy.png")
    figures += save_figure(accuracy_per_epoch(by_epoch, f"{title}, epoch by epoch"), folder / "epochs.png")
    return [*written, *figures, write_page(run, _page(run, results, tables, figures))]


def _page(run: Run, results: Results, tables: dict[str, pa.Table], figures: list[Path]) -> str:
    sentence = (
        f"Each domain in turn was left out and the others trained on. Accuracy on the domain left out, in percent, "
        f"{over_seeds(results.seeds)}. "
        f"{RULES[results.selection]} All losses of a seed share the split, the network's start and the order of samples."
    )
    parts = [_accuracy(results, tables["accuracy"]), _differences(results, tables["differences"]), _scales(results)]
    parts += [html_page.figures(figures, wide=True), html_page.again(run.start["words"]), html_page.settings(run.start)]
    return html_page.page("Generalizing to a domain never seen", sentence, *parts)


def _accuracy(results: Results, accuracy: pa.Table) -> str:
    """Table 5: unseen domains and their average by losses."""
    columns = (*results.domains, AVERAGE)
    rows: list[list[html_page.Cell]] = [
        [
            row["loss"],
            *(percent(row[column], row[f"{column} std"]) for column in columns),
            (percent(row["oracle average"]), "quiet"),
        ]
        for row in accuracy.to_pylist()
    ]
    return html_page.heading("Accuracy by unseen domain") + html_page.table(("loss", *columns, "average (oracle)"), rows)


def _differences(results: Results, differences: pa.Table) -> str:
    by_domain = {(row["loss"], row["against"], row["domain"]): row for row in differences.to_pylist()}
    compared = [
        (loss, against)
        for loss in reversed(results.losses)
        for against in results.losses
        if (loss, against, AVERAGE) in by_domain
    ]
    if not compared:
        return ""
    columns = (*results.domains, AVERAGE)
    rows: list[list[html_page.Cell]] = [
        [f"{a} − {b}", *(html_page.points(by_domain[a, b, column]) for column in columns)] for a, b in compared
    ]
    return (
        html_page.heading("Differences") + html_page.paragraph(INTERVALS, "quiet") + html_page.table(("losses", *columns), rows)
    )


def _scales(results: Results) -> str:
    losses = list(dict.fromkeys(loss for loss, _ in results.scales))
    if not losses:
        return ""
    rows = [[loss, *(f"{results.scales[loss, domain]:g}" for domain in results.domains)] for loss in losses]
    words = "Chosen without the unseen domain: the one that does best on each training domain when trained on the others."
    return html_page.heading("Scale") + html_page.paragraph(words, "quiet") + html_page.table(("loss", *results.domains), rows)


def _mean_curve(curves: list[list[float]]) -> np.ndarray:
    """(epochs,) the mean over seeds; one that stopped early stays as it was."""
    longest = max(map(len, curves))
    return np.mean([np.pad(curve, (0, longest - len(curve)), mode="edge") for curve in curves], axis=0)

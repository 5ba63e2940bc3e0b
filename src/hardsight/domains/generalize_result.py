"""The result of `generalize`: accuracy on each unseen domain and on average (Table 5), differences between losses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hardsight.domains.comparison import History, counted, difference_table, mean_and_std, rows_by
from hardsight.domains.settings import Selection
from hardsight.render.domains import accuracy_per_domain, accuracy_per_epoch, shown_differences
from hardsight.result import RunResult
from hardsight.screen import Cell, Sentence, ShownTable, line, percent

AVERAGE = "average"
RULES = {
    "validation": "The selected epoch is the best on held-out samples of the training domains; the unseen domain is not used.",
    "last": "The last epoch is the result.",
    "oracle": "ORACLE: the epoch was selected by the labels of the unseen domain, which nobody has; no honest result.",
}


def chosen_epoch(history: Sequence[Mapping[str, Any]], selection: str) -> Mapping[str, Any]:
    """The entry that a rule selects.

    Among equal accuracies on held-out samples, the one with the smallest loss if it was measured, else the first.
    """
    if selection == "last":
        return history[-1]
    if selection == "oracle":
        return max(history, key=lambda entry: entry["test"])
    return max(history, key=lambda entry: (entry["validation"], -(entry.get("validation_loss") or 0.0)))


def tables_of(
    histories: Mapping[tuple[str, str, int], History], scales: Mapping[tuple[str, str], float], selection: Selection
) -> dict[str, pa.Table]:
    """The tables of a run by name, from the epochs of every loss, unseen domain and seed, and the scales that were chosen."""
    rows = [
        {"loss": loss, "domain": domain, "seed": seed, "scale": scales.get((loss, domain)), **entry}
        for (loss, domain, seed), epochs in histories.items()
        for entry in epochs
    ]
    reached, best = _reached(histories, selection), _reached(histories, "oracle")
    accuracy = []
    for loss, by_domain in reached.items():
        row: dict[str, Any] = {"loss": loss, "selection": selection, "seeds": len(by_domain[AVERAGE])}
        for domain, values in by_domain.items():
            row |= mean_and_std(domain, values)
        accuracy.append({**row, "oracle average": float(np.mean(best[loss][AVERAGE]))})
    return {
        "accuracy": pa.Table.from_pylist(accuracy),
        "differences": difference_table("domain", "loss", reached),
        "epochs": pa.Table.from_pylist(rows),
    }


class Generalized(RunResult):
    """A finished comparison.

    Attributes:
        table, accuracy: one row per loss: accuracy on each unseen domain and on average, mean and spread over seeds.
        differences: losses against each other, with intervals.
        epochs: one row per loss, unseen domain, seed and epoch.
        domains: the domains, in the order of the run.
        selection: how the epoch was selected.
        scales: (loss, domain) -> the scale that was chosen.
    """

    files = ("accuracy", "differences", "epochs")
    accuracy: pa.Table
    differences: pa.Table
    epochs: pa.Table

    def __init__(self, run: str | os.PathLike[str], tables: Mapping[str, pa.Table] | None = None) -> None:
        super().__init__(run, tables)
        self.selection = str(self.table.column("selection")[0])
        self.notes = [RULES[self.selection]]
        self.histories = rows_by(self.epochs, "loss", "domain", "seed")
        self.domains = list(dict.fromkeys(domain for _, domain, _ in self.histories))
        chosen = {(loss, domain): rows[0]["scale"] for (loss, domain, _), rows in self.histories.items()}
        self.scales = {key: scale for key, scale in chosen.items() if scale is not None}

    @property
    def summary(self) -> dict[str, Any]:
        """loss -> average accuracy; how the epoch was selected; the scales that were chosen."""
        rows = self.table.to_pylist()
        scales = {f"{loss} without {domain}": scale for (loss, domain), scale in self.scales.items()}
        return {"accuracy": {row["loss"]: row[AVERAGE] for row in rows}, "selection": self.selection, "scales": scales}

    def lines(self) -> Iterator[Sentence | ShownTable]:
        """Accuracy on every unseen domain, and differences of the average."""
        losses, seeds = ({key[place] for key in self.histories} for place in (0, 2))
        yield line(", ".join(counted(domain=self.domains, loss=losses, seed=seeds)), **self.summary)
        yield self.accuracies()
        average = [row for row in self.differences.to_pylist() if row["domain"] == AVERAGE]
        yield from shown_differences("differences of the average, seed by seed", average, ("loss", "against"))

    def accuracies(self) -> ShownTable:
        """Table 5: losses by unseen domains and their average, in percent."""
        names = self.table.column_names
        columns = [name for name in names if f"{name} std" in names]
        cells = [
            (row["loss"], *(percent(row[name], row[f"{name} std"]) for name in columns), percent(row["oracle average"]))
            for row in self.table.to_pylist()
        ]
        title = f"accuracy on the unseen domain (%), epoch by {self.selection}"
        return ShownTable("accuracy", ("loss", *columns, Cell("average (oracle)", "oracle_average")), cells, title)

    def figures(self) -> dict[str, Any]:
        """Accuracy on each unseen domain, and epoch by epoch, by name."""
        title, histories = "Accuracy on the domain that was left out", self.histories
        reached = {loss: np.array(list(values.values())).T for loss, values in _reached(histories, self.selection).items()}
        seeds = list(dict.fromkeys(seed for _, _, seed in histories))
        by_epoch = {
            domain: {
                loss: _mean_curve([[entry["test"] for entry in histories[loss, domain, seed]] for seed in seeds])
                for loss in reached
            }
            for domain in self.domains
        }
        return {
            "accuracy": accuracy_per_domain(reached, [*self.domains, AVERAGE], title),
            "epochs": accuracy_per_epoch(by_epoch, f"{title}, epoch by epoch"),
        }

    def details(self) -> Iterator[Sentence | ShownTable]:
        """Differences on every unseen domain, and the scales that were chosen."""
        each = [row for row in self.differences.to_pylist() if row["domain"] != AVERAGE]
        yield from shown_differences("differences on each unseen domain, seed by seed", each, ("domain", "loss", "against"))
        scales = [(loss, domain, f"{scale:g}") for (loss, domain), scale in self.scales.items()]
        if scales:
            title = "scale that does best on each training domain when trained on the others; the unseen domain is not used"
            yield ShownTable("scales", ("loss", "unseen domain", "scale"), scales, title, 2)


def _reached(histories: Mapping[tuple[str, str, int], History], selection: str) -> dict[str, dict[str, list[float]]]:
    """loss -> unseen domain -> accuracy, seed by seed; `average` is the mean over domains."""
    losses = dict.fromkeys(loss for loss, _, _ in histories)
    reached: dict[str, dict[str, list[float]]] = {loss: {} for loss in losses}
    for (loss, domain, _), history in histories.items():
        reached[loss].setdefault(domain, []).append(chosen_epoch(history, selection)["test"])
    for by_domain in reached.values():
        by_domain[AVERAGE] = np.mean(list(by_domain.values()), axis=0).tolist()
    return reached


def _mean_curve(curves: list[list[float]]) -> np.ndarray:
    """(epochs,) the mean over seeds; one that stopped early stays as it was."""
    longest = max(map(len, curves))
    return np.mean([np.pad(curve, (0, longest - len(curve)), mode="edge") for curve in curves], axis=0)
